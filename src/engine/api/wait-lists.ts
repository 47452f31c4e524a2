import type { Store } from '../../store/contract/store.ts'
import type { Throttled, ThrottledRow } from '../../store/contract/waits.ts'

/**
 * Waiting jobs by queue and bucket, at most `rows`, the longest first. It counts part by part: between two the process
 * turns to other work.
 */
export async function waitLists(store: Store, rows: number): Promise<Omit<Throttled, 'next'>> {
  let found: ThrottledRow[] = []
  let waiting = 0
  for (let after: number | undefined; ;) {
    const part: Throttled = await store.throttled(rows, after)
    waiting += part.waiting
    found.push(...part.rows)
    if (found.length > 2 * rows) found = longest(found, rows)
    if (part.next === null) return { waiting, rows: longest(found, rows) }
    after = part.next
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function longest(found: readonly ThrottledRow[], rows: number): ThrottledRow[] {
  return found
    .toSorted((a, b) => b.waiting - a.waiting || order(a.limit, b.limit) || order(a.key, b.key))
    .slice(0, rows)
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
