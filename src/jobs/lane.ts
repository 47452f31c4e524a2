import { hash } from 'node:crypto'

/**
 * Names the lane of a job: the jobs of one queue that need the same set of buckets wait together, in order.
 * @param uses sorted by limit and key; an empty list has no lane: such jobs stand in the queue's open line.
 */
export function laneKey(queue: string, uses: readonly { readonly limit: string; readonly key: string }[]): string {
  const text = JSON.stringify([queue, ...uses.map((use) => [use.limit, use.key])])
  return text.length <= 40 ? text : hash('sha256', text, 'base64url')
}
