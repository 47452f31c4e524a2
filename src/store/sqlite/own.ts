import type { Policies } from './limit-timelines.ts'

/**
 * A limit of scope `worker` has buckets of its own for each registration of a worker. They are stored under the limit's name, NUL and
 * the registration, which no limit's name can hold; the bucket under the bare name only stands for all of them and is never charged.
 */

/** The name under which a worker's own buckets of a limit are stored. */
export function ownName(limit: string, worker: number): string {
  return `${limit}\0${worker}`
}

/** The name under which the bucket is stored that a worker has to ask: the fleet's, or its own. */
export function nameFor(
  { policies }: { readonly policies: Policies },
  limit: string,
  key: string,
  worker: number,
): string {
  return policies.policy(limit, key)?.scope === 'worker' ? ownName(limit, worker) : limit
}

/** Splits a stored name; worker 0: it is the fleet's. */
export function readName(stored: string): { readonly limit: string; readonly worker: number } {
  const at = stored.indexOf('\0')
  return at < 0 ? { limit: stored, worker: 0 } : { limit: stored.slice(0, at), worker: Number(stored.slice(at + 1)) }
}

/** The bounds, both exclusive, between which the names of all workers' own buckets of a limit lie. */
export function ownRange(limit: string): [from: string, to: string] {
  return [`${limit}\0`, `${limit}\u0001`]
}

const QUEUES_AT_MOST = 2 ** 24

/** The number of the queue in which only one worker's views of lanes stand: nobody else serves it. */
export function ownQueue(queue: number, worker: number): number {
  return worker * QUEUES_AT_MOST + queue
}

/** The queue that a worker's own stands for. */
export function sharedQueue(queue: number): number {
  return queue % QUEUES_AT_MOST
}
