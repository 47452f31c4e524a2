import { NEVER_US } from '../../policy/admission/lane.ts'
import type { QueueSlots } from '../../policy/admission/queue-slots.ts'
import { nextFireUs as nextOf } from '../shared/fire.ts'
import type { ReadSet, NextRow } from './read-set.ts'

/**
 * The due time of the next wait list: now, if one became due while the claim was reading, otherwise its time after the
 * claim.
 */
export function nextLineUs(
  [, , , afterUs]: NextRow,
  { now, next: [, , , meanwhileUs] }: Pick<ReadSet, 'now' | 'next'>,
  shares: readonly QueueSlots[],
): number {
  const wakeAtUs = meanwhileUs !== null && meanwhileUs <= now ? meanwhileUs : afterUs
  return wakeAtUs === null || shares.every((share) => share.slots === 0) ? NEVER_US : wakeAtUs
}

/** The next due time of a job, on the store's clock. */
export function nextDueUs(
  [scheduled, retryable, available]: NextRow,
  { now, wall }: Pick<ReadSet, 'now' | 'wall'>,
): number {
  return Math.min(
    scheduled === null ? NEVER_US : now + Math.max(0, scheduled - wall),
    retryable ?? NEVER_US,
    // A job may still start at its latest start itself.
    (available ?? NEVER_US) + 1,
  )
}

/** The next due time of all schedules on the store's clock. */
export function nextFireUs({ fire, now, wall }: Pick<ReadSet, 'fire' | 'now' | 'wall'>): number {
  return nextOf(...fire, { nowUs: now, wallUs: wall })
}
