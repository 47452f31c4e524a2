import { type Lane, NEVER_US } from './lane.ts'
import type { Line, Served } from './line.ts'

/**
 * When anybody could serve a line: the first of each queue counts, since a process in which the queue of the first of all is full
 * goes on with the next queue's, and only that process knows. Queues that no live worker serves count when there are no others.
 * @param needOf when the line's bucket alone would admit a lane's head
 */
export function wakeOf(line: Line, served: (queue: number) => Served, needOf: (lane: Lane) => number): number {
  const live = [...line.queues()].filter((queue) => served(queue) !== 'nowhere')
  const firsts = live.length > 0 ? live.map((queue) => line.first((each) => each === queue)) : [line.first(() => true)]
  return Math.min(NEVER_US, ...firsts.map((lane) => (lane ? needOf(lane) : NEVER_US)))
}
