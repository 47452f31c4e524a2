/** Estimates of what a large store holds. */
import type { KeyCount, LimitTotals } from './limits.ts'
import type { QueueCount } from './queues.ts'
import type { ThrottledRow } from './waits.ts'

/** Estimates for a whole store, made from some thousand of its jobs. */
export interface StoreSample {
  /**
   * Jobs by queue and state. A state of fewer than 10,000 jobs is counted, but of a job that a limit has rescheduled
   * only the sample tells. `oldest`: the oldest one in the sample.
   */
  readonly counts: readonly QueueCount[]
  /** Jobs in the wait list of a budget. */
  readonly waiting: number
  /** Some of the longest wait lists, by queue, the longest first; at most 100. Short ones are counted. */
  readonly lists: readonly SampledList[]
  /** Limits whose budgets the sample met. */
  readonly totals: readonly LimitTotals[]
}

/** Jobs of one queue in the wait list of one budget. */
export type SampledList = ThrottledRow & Pick<KeyCount, 'active' | 'wakeAtUs'>
