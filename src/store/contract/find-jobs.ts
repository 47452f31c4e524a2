import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobChange } from './change-jobs.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { JobQuery, JobRecord, JobSpan, NewJob } from '../../jobs/job.ts'
import type { JobDetails } from './remote-jobs.ts'

/** States whose jobs are found by state. Those that wait are found by their lanes. */
export type IndexedState = Exclude<JobState, 'available' | 'scheduled' | 'pending'>

/** Finding stored jobs by a filter. */
export interface FindJobs {
  /** Jobs that match, newest first; those of one flow in its order. */
  list(query: JobQuery): Promise<JobRecord[]>
  /**
   * The number of jobs that match. The time grows with the span, not with what matches.
   * @param change only jobs that it applies to
   */
  countJobs(match: JobMatch, span?: JobSpan, change?: JobChange): Promise<number>
  /** Jobs by task and state, in a span. */
  taskCounts(span: JobSpan): Promise<readonly TaskCount[]>
  /** The `seq` of the oldest of so many jobs, counted from the newest one before `before`; null: there is none. */
  oldestOf(rows: number, before?: number): Promise<number | null>
  /** The `seq` of jobs in these states, at most `rows`, in any order. */
  jobsInStates(states: readonly IndexedState[], rows: number): Promise<readonly number[]>
  /** Jobs with details and terms, in the order of the ids; null: the job does not exist, or its limits are unreadable. */
  storedJobs(ids: readonly string[]): Promise<readonly (StoredJob | null)[]>
}

/** A job as another store can take it over. */
export interface StoredJob extends JobDetails {
  readonly uses: NewJob['uses']
  readonly uniqueKey: string | null
  readonly fairKey: string | null
  readonly share: number
  /** It waits for an engine that resolves its limits. */
  readonly isUnresolved: boolean
}

/** The number of jobs of a task in one state. */
export interface TaskCount {
  readonly task: string
  readonly state: JobState
  readonly jobs: number
}
