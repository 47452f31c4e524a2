import { type Lane, NEVER_US } from './lane.ts'
import type { Line, Served } from './wait-list.ts'

/**
 * When anybody could serve a line: the first of each queue counts, since a process in which the queue of the first of all is full
 * goes on with the next queue's, and only that process knows. Queues that no live worker serves count when there are no others.
 * @param needOf when the line's bucket alone would admit a lane's head
 */
export function wakeOf(line: Line, served: (queue: number) => Served, needOf: (lane: Lane) => number): number {
  const isLive = (queue: number): boolean => served(queue) !== 'nowhere'
  // Whether the deputies of other queues hold its lanes is known to each process alone, too: the sooner of both counts.
  const firsts = [...line.queues()].filter(isLive).flatMap((queue) => {
    const own = (each: number): boolean => each === queue
    return line.hasDeputies ? [line.first(own), line.first(own, null, isLive)] : [line.first(own)]
  })
  return earliest(firsts.some((lane) => lane !== null) ? firsts : [line.first(() => true)], needOf)
}

function earliest(lanes: readonly (Lane | null)[], needOf: (lane: Lane) => number): number {
  return Math.min(NEVER_US, ...lanes.map((lane) => (lane ? needOf(lane) : NEVER_US)))
}
