import { type Lane, NEVER_US } from './lane.ts'
import type { WaitList, QueueService } from './wait-list.ts'

/**
 * When any worker could serve a wait list. A process whose queue is full continues with the next queue, and only that
 * process knows. So the first lane of each queue counts. Queues without a live worker count only if there are no
 * others. @param needOf when the wait list's bucket alone would admit a lane's head
 */
export function wakeOf(
  waitList: WaitList,
  served: (queue: number) => QueueService,
  needOf: (lane: Lane) => number,
): number {
  const isLive = (queue: number): boolean => served(queue) !== 'nowhere'
  // Only each process knows whether deputies of other queues shadow its lanes, so the earlier of both instants counts.
  const firsts = [...waitList.queues()].filter(isLive).flatMap((queue) => {
    const own = (each: number): boolean => each === queue
    return waitList.hasDeputies ? [waitList.first(own), waitList.first(own, null, isLive)] : [waitList.first(own)]
  })
  return earliest(firsts.some((lane) => lane !== null) ? firsts : [waitList.first(() => true)], needOf)
}

function earliest(lanes: readonly (Lane | null)[], needOf: (lane: Lane) => number): number {
  return Math.min(NEVER_US, ...lanes.map((lane) => (lane ? needOf(lane) : NEVER_US)))
}
