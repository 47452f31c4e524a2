import { type Duration, durationUs } from '../../base/duration.ts'
import { checkOptions } from '../../base/options.ts'
import type { Retention } from './store.ts'

/** How long jobs are kept after their end. */
export interface RetentionOptions {
  /**
   * Default 24 h. With 0 the end of the run deletes the job: only callers of `result()` that wait in the process of the
   * run get its result.
   */
  readonly completed?: Duration
  /** Default 24 h. */
  readonly cancelled?: Duration
  /** Default 7 d. */
  readonly discarded?: Duration
}

const STATES = ['completed', 'cancelled', 'discarded'] as const

/**
 * The times of a store, in µs.
 * @param what names the options in errors
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function retentionOf(options: RetentionOptions | undefined, what: string): Retention {
  if (options !== undefined) checkOptions(options, STATES, what)
  const { completed = '24h', cancelled = '24h', discarded = '7d' } = options ?? {}
  return {
    completedUs: durationUs(completed, 'retention.completed'),
    cancelledUs: durationUs(cancelled, 'retention.cancelled'),
    discardedUs: durationUs(discarded, 'retention.discarded'),
  }
}

/** The times of a process that is told none, such as the command line. */
export const USUAL_RETENTION: Retention = retentionOf(undefined, 'retention')
