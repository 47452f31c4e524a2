import { hash } from 'node:crypto'

/**
 * Names the lane of a job. The jobs of one queue with the same buckets and the same fair key wait together, in order.
 * @param uses in lane order. Without any, and without a fair key, the job goes to the queue's unlimited lane.
 */
export function laneKey(
  queue: string,
  uses: readonly { readonly limit: string; readonly key: string }[],
  fairKey: string | null,
): string {
  const buckets = uses.map((use) => [use.limit, use.key])
  // A text beside lists: no limit can be mistaken for a fair key.
  const text = JSON.stringify(fairKey === null ? [queue, ...buckets] : [queue, fairKey, ...buckets])
  return text.length <= 40 ? text : hash('sha256', text, 'base64url')
}

/** The most stripes of a queue. */
export const MAX_STRIPES = 64

/**
 * The stripe of a lane, from 0, in a queue of so many. It depends on the lane's key alone, so that every process and
 * every version of PostgreSQL finds the same one.
 */
export function stripeOf(key: string, stripes: number): number {
  return parseInt(hash('md5', key, 'hex').slice(0, 7), 16) % stripes
}

/** Sorts the buckets of a job by limit and key, by code points. SQL sorts by bytes, which gives the same order. */
export function inLaneOrder<Use extends { readonly limit: string; readonly key: string }>(uses: Use[]): Use[] {
  return uses.length < 2 ? uses : uses.sort((a, b) => compare(a.limit, b.limit) || compare(a.key, b.key))
}

function compare(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length)
  for (let i = 0; i < shorter; i++) {
    const difference = rank(a.charCodeAt(i)) - rank(b.charCodeAt(i))
    if (difference !== 0) return difference
  }
  return a.length - b.length
}

/** JavaScript's own order puts halves of characters above U+FFFF before U+E000 to U+FFFF. */
function rank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit
}
