import { FLEET } from '../shared/stored-bucket.ts'
import type { Timelines } from '../shared/timelines.ts'

/** Stands between a queue's name, which has no such character, and the worker whose own queue it is. */
const OWN = '\u0001'

/** Whose bucket a worker has to ask: its own, or the fleet's. */
export function ownerFor(limits: Timelines, limit: string, key: string, worker: number): number {
  return limits.policy(limit, key)?.scope === 'worker' ? worker : FLEET
}

/** The queue in which only one worker's views of lanes stand: nobody else serves it. */
export function ownQueue(queue: string, worker: number): string {
  return `${queue}${OWN}${worker}`
}

/** The queue that a worker's own stands for. */
export function sharedQueue(queue: string): string {
  const at = queue.indexOf(OWN)
  return at < 0 ? queue : queue.slice(0, at)
}
