import { NEVER_US } from '../../policy/admission/lane.ts'
import type { QueueSlots } from '../../policy/admission/queue-slots.ts'
import type { ReadSet, NextRow } from './read-set.ts'

/** When the next line is due: at once where one came due while the claim was reading, else as it is after it. */
export function nextLineUs(
  [, , , afterUs]: NextRow,
  { now, next: [, , , meanwhileUs] }: Pick<ReadSet, 'now' | 'next'>,
  shares: readonly QueueSlots[],
): number {
  const wakeAtUs = meanwhileUs !== null && meanwhileUs <= now ? meanwhileUs : afterUs
  return wakeAtUs === null || shares.every((share) => share.slots === 0) ? NEVER_US : wakeAtUs
}

/** When the next job's time comes, on the store's clock. */
export function nextDueUs(
  [scheduled, retryable, available]: NextRow,
  { now, wall }: Pick<ReadSet, 'now' | 'wall'>,
): number {
  return Math.min(
    scheduled === null ? NEVER_US : now + Math.max(0, scheduled - wall),
    retryable ?? NEVER_US,
    // At its latest start itself a job may still start.
    (available ?? NEVER_US) + 1,
  )
}
