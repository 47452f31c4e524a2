import { FLEET } from '../shared/stored-bucket.ts'
import type { Timelines } from '../shared/timelines.ts'

/** Separates a queue's name from the worker that owns the queue; no queue's name contains it. */
const OWN = '\u0001'
/** Behind a queue's name: one of its stripes. */
// eslint-disable-next-line no-control-regex
const STRIPE = /\u0002\d+/
// eslint-disable-next-line no-control-regex
const APART = /[\u0001\u0002]/

/** The owner of the bucket that a worker uses: the worker itself, or the fleet. */
export function ownerFor(limits: Timelines, limit: string, key: string, worker: number): number {
  return limits.policy(limit, key)?.scope === 'worker' ? worker : FLEET
}

/** The queue that only holds one worker's views of lanes: no other worker serves it. */
export function ownQueue(queue: string, worker: number): string {
  return `${queue}${OWN}${worker}`
}

/** The name of a worker's view of a lane. */
export function viewKey(lane: string, worker: number): string {
  return `${lane}${OWN}${worker}`
}

/** The shared queue behind a worker's own, or behind a stripe. */
export function sharedQueue(queue: string): string {
  const at = queue.search(APART)
  return at < 0 ? queue : queue.slice(0, at)
}

/** The name under which a lane of this queue would stand, had the queue one stripe. */
export function unstriped(queue: string): string {
  return queue.replace(STRIPE, '')
}

/** The stripe, or the queue, behind a worker's own. */
export function stripeName(queue: string): string {
  const at = queue.indexOf(OWN)
  return at < 0 ? queue : queue.slice(0, at)
}
