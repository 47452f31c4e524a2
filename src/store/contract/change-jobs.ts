import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobSpan } from '../../jobs/job.ts'
import type { JobState } from '../../jobs/job-state.ts'

/** Changes that people make to stored jobs. */
export interface ChangeJobs {
  /**
   * Changes jobs that match, newest first, at most `limit`, in one transaction. Jobs that another transaction holds, and
   * jobs of flows, are left for a call of their own.
   */
  changeJobs(change: JobChange, match: JobMatch, span: JobSpan, limit: number): Promise<ChangedJobs>
  /**
   * Lets a job that waits for its time start at another: available at once (null), or scheduled for a time of the wall
   * clock.
   */
  retime(id: string, runAtMs: number | null): Promise<RetimeAnswer>
}

/**
 * One change of many jobs. `cancel`: those that have not ended. `retry`: discarded ones. `delete`: ended ones, unless
 * their flow still runs. `place`: waiting ones get another queue or another priority.
 */
export type JobChange =
  | { readonly kind: 'cancel' }
  | { readonly kind: 'retry' }
  | { readonly kind: 'delete' }
  | { readonly kind: 'place'; readonly queue: string | null; readonly priority: number | null }

/** The result of a change of many jobs. */
export interface ChangedJobs {
  readonly changed: readonly ChangedJob[]
  /** Jobs that match and were left. */
  readonly left: readonly LeftJob[]
  /** The `seq` before which the next call goes on; null: it looked at the whole span. */
  readonly next: number | null
}

/** A job with its state before the change. */
export interface ChangedJob {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly was: JobState
}

/** A job that was left, since it belongs to a flow or another transaction holds it. */
export interface LeftJob {
  readonly id: string
  readonly inFlow: boolean
}

/** The result of a new time. `refused`: the job does not wait for a time or for its turn. */
export type RetimeAnswer =
  | { readonly kind: 'retimed' }
  | { readonly kind: 'refused'; readonly state: JobState }
  | { readonly kind: 'missing' }
