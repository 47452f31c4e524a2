import { type Lane, NEVER_US } from './lane.ts'
import type { WaitList, QueueService } from './wait-list.ts'

/**
 * When anybody could serve a wait list: the first of each queue counts, since a process in which the queue of the first of all is full
 * goes on with the next queue's, and only that process knows. Queues that no live worker serves count when there are no others.
 * @param needOf when the wait list's bucket alone would admit a lane's head
 */
export function wakeOf(
  waitList: WaitList,
  served: (queue: number) => QueueService,
  needOf: (lane: Lane) => number,
): number {
  const isLive = (queue: number): boolean => served(queue) !== 'nowhere'
  // Whether the deputies of other queues hold its lanes is known to each process alone, too: the sooner of both counts.
  const firsts = [...waitList.queues()].filter(isLive).flatMap((queue) => {
    const own = (each: number): boolean => each === queue
    return waitList.hasDeputies ? [waitList.first(own), waitList.first(own, null, isLive)] : [waitList.first(own)]
  })
  return earliest(firsts.some((lane) => lane !== null) ? firsts : [waitList.first(() => true)], needOf)
}

function earliest(lanes: readonly (Lane | null)[], needOf: (lane: Lane) => number): number {
  return Math.min(NEVER_US, ...lanes.map((lane) => (lane ? needOf(lane) : NEVER_US)))
}
