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

/** The Levenshtein distance, computed row by row. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
