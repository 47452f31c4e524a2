import { hash } from 'node:crypto'

/**
 * Names the lane of a job: the jobs of one queue that need the same set of buckets, and have the same fair key, wait together, in order.
 * @param uses sorted by limit and key; without any, and without a fair key, there is no lane: such jobs stand in the queue's open line.
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
