/** The rows of a page that fit into an answer. */
export interface Fitting {
  readonly seqs: readonly number[]
  /** The last row of the page, if others follow it; null: none do. */
  readonly next: number | null
}

/**
 * Counts the rows that fit; the first always does. @param rows one more than the page has, if there are more, each with
 * its bytes
 */
export function fitting(
  rows: readonly (readonly [seq: number, bytes: number])[],
  most: number,
  bytes: number,
): Fitting {
  const seqs: number[] = []
  let used = 0
  for (const [seq, size] of rows) {
    used += size
    if (seqs.length >= most || (seqs.length > 0 && used > bytes)) return { seqs, next: seqs.at(-1) ?? null }
    seqs.push(seq)
  }
  return { seqs, next: null }
}
