import { NEVER_US } from '../../policy/lane.ts'
import type { QueueShare } from '../../policy/queue-share.ts'
import type { Look, NextRow } from './look.ts'

/** When the next line is due. */
export function nextLineUs([, , , wakeAtUs]: NextRow, shares: readonly QueueShare[]): number {
  return wakeAtUs === null || shares.every((share) => share.slots === 0) ? NEVER_US : wakeAtUs
}

/** When the next job's time comes, on the store's clock. */
export function nextDueUs([scheduled, retryable, available]: NextRow, { now, wall }: Look): number {
  return Math.min(
    scheduled === null ? NEVER_US : now + Math.max(0, scheduled - wall),
    retryable ?? NEVER_US,
    // At its latest start itself a job may still start.
    (available ?? NEVER_US) + 1,
  )
}
