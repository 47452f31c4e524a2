import { QueueSlots, type UnlimitedLaneReader } from '../../policy/admission/queue-slots.ts'
import type { ClaimRequest } from '../contract/store.ts'
import type { Context } from './context.ts'
import type { Decision } from './decision.ts'
import type { ReadSet } from './read-set.ts'
import { ownQueue } from './own.ts'

/** The unpaused queues of a request, each with its own limits and the one set by an operator. */
export function sharesOf(
  { limits, queues, unlimitedNext }: Context,
  decision: Decision,
  request: ClaimRequest,
  read: ReadSet,
): QueueSlots[] {
  const held = read.held ?? []
  const paused = new Set(pausedOf(read))
  // The buckets of declared limits come first, then those of limits set by operators.
  const given = held.flatMap(([queue, , limit]) => (limit === null ? [] : [queue]))
  let at = 0
  const own = request.queues.map(({ queue }) =>
    limits.usesOfQueue(queue).map((use) => ({ id: read.own[at++] as number, weight: use.weight })),
  )
  return request.queues.flatMap(({ queue, slots, ahead = 0 }, i) => {
    if (paused.has(queue)) return []
    const more = given.includes(queue) ? [{ id: read.own[at + given.indexOf(queue)] as number, weight: 1 }] : []
    const buckets = [...(own[i] ?? []), ...more].map(({ id, weight }) => ({ bucket: decision.bucket(id), weight }))
    const next = unlimitedNext.get(queue) ?? true
    const number = queues.of(queue)
    const apart = queues.of(ownQueue(queue, request.worker))
    const unlimited: UnlimitedLaneReader = (of, skip, count) => decision.unlimitedLane(of, skip, count)
    return [new QueueSlots(number, apart, slots, buckets, next, unlimited, Math.min(ahead, slots))]
  })
}

/** The paused queues of a request. */
export function pausedOf({ held }: Pick<ReadSet, 'held'>): string[] {
  return (held ?? []).flatMap(([queue, isPaused]) => (isPaused ? [queue] : []))
}
