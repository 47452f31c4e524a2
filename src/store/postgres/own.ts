import { FLEET } from '../shared/stored-bucket.ts'
import type { Timelines } from '../shared/timelines.ts'

/** Separates a queue's name from the worker that owns the queue; no queue's name contains it. */
const OWN = '\u0001'

/** The owner of the bucket that a worker uses: the worker itself, or the fleet. */
export function ownerFor(limits: Timelines, limit: string, key: string, worker: number): number {
  return limits.policy(limit, key)?.scope === 'worker' ? worker : FLEET
}

/** The queue that only holds one worker's views of lanes: no other worker serves it. */
export function ownQueue(queue: string, worker: number): string {
  return `${queue}${OWN}${worker}`
}

/** The shared queue behind a worker's own. */
export function sharedQueue(queue: string): string {
  const at = queue.indexOf(OWN)
  return at < 0 ? queue : queue.slice(0, at)
}
