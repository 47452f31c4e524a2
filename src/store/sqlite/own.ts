import type { Policies } from './limit-timelines.ts'

/**
 * A limit of scope `worker` has buckets of its own for each registration of a worker. Their stored name is the limit's
 * name, NUL and the registration; no limit's name contains NUL. The bucket under the bare name only stands for all of
 * them and is never charged.
 */

/** The stored name of a worker's own buckets of a limit. */
export function ownName(limit: string, worker: number): string {
  return `${limit}\0${worker}`
}

/** The stored name of the bucket that a worker uses: the fleet's, or its own. */
export function nameFor(
  { policies }: { readonly policies: Policies },
  limit: string,
  key: string,
  worker: number,
): string {
  return policies.current.policy(limit, key)?.scope === 'worker' ? ownName(limit, worker) : limit
}

/** Splits a stored name; worker 0: the fleet. */
export function readName(stored: string): { readonly limit: string; readonly worker: number } {
  const at = stored.indexOf('\0')
  return at < 0 ? { limit: stored, worker: 0 } : { limit: stored.slice(0, at), worker: Number(stored.slice(at + 1)) }
}

/** The exclusive bounds around the names of all workers' own buckets of a limit. */
export function ownRange(limit: string): [from: string, to: string] {
  return [`${limit}\0`, `${limit}\u0001`]
}

const QUEUES_AT_MOST = 2 ** 24

/** The number of the queue that only holds one worker's views of lanes: no other worker serves it. */
export function ownQueue(queue: number, worker: number): number {
  return worker * QUEUES_AT_MOST + queue
}

/** The shared queue behind a worker's own. */
export function sharedQueue(queue: number): number {
  return queue % QUEUES_AT_MOST
}
