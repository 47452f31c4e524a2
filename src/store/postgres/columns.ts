/**
 * The columns of rows as texts of PostgreSQL arrays. The server reads an array once, but a row of JSON again for each of
 * its fields. A column without values is empty: `unnest` fills it up with nulls.
 */
export function columnsOf(rows: readonly (readonly (number | string | null)[])[], count: number): string[] {
  return Array.from({ length: count }, (_, at) =>
    rows.every((row) => row[at] === null) ? '{}' : `{${rows.map((row) => element(row[at] ?? null)).join()}}`,
  )
}

function element(value: number | string | null): string {
  if (value === null) return 'NULL'
  return typeof value === 'number' ? String(value) : `"${value.replaceAll(/["\\]/g, '\\$&')}"`
}
