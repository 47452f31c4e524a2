/**
 * Returns the known name closest to a misspelt one, or null if none is near.
 * @param atMost the largest edit distance in letters; default 2, or 3 for a name of over 6 letters
 */
export function nearest(
  name: string,
  known: readonly string[],
  atMost: number = name.length > 6 ? 3 : 2,
): string | null {
  if (name.length > LONGEST) return null
  let best: string | null = null
  let least = atMost + 1
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase())
    // A distance of the candidate's whole length matches any text.
    if (distance < Math.min(least, candidate.length)) {
      least = distance
      best = candidate
    }
  }
  return best
}

/** The end of a sentence that refuses an unknown name: `'; did you mean until? '`, or `'. '` if no name is near. */
export function didYouMean(name: string, known: readonly string[], alias?: string): string {
  const near = alias ?? nearest(name, known)
  return near === null ? '. ' : `; did you mean ${near}? `
}

const LONGEST = 60

/** The optimal string alignment distance: two neighbours that change places count once. */
function editDistance(a: string, b: string): number {
  const rows: number[][] = []
  for (let i = 0; i <= a.length; i++) {
    const row: number[] = []
    rows.push(row)
    for (let j = 0; j <= b.length; j++) {
      const before = (up: number, left: number): number => rows[i - up]?.[j - left] ?? Infinity
      const other = before(1, 1) + Number(a[i - 1] !== b[j - 1])
      const swap = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? before(2, 2) : Infinity
      row.push(i + j && Math.min(other, swap + 1, before(1, 0) + 1, before(0, 1) + 1))
    }
  }
  return rows[a.length]?.[b.length] ?? 0
}
