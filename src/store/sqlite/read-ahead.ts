/**
 * The number of rows to read when `count` are needed: the next power of two, written into the statement's text. SQLite
 * prepares a statement again whenever its LIMIT is a parameter (4.8 µs instead of 1.2 µs a probe). A few sizes keep the
 * statements few.
 */
export function readAhead(count: number): number {
  let size = 1
  while (size < count) size *= 2
  return size
}
