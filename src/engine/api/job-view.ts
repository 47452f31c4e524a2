import { fromJsonText } from '../../base/json-value.ts'
import type { FlowPlace } from '../../jobs/flow.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { JobLogLine } from '../../jobs/job-log.ts'
import type { JobRecord } from '../../jobs/job.ts'
import { detailsOf, type StoredCause } from '../../jobs/stored-error.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'

/** The public view of a stored job. */
export interface JobView {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly state: JobState
  readonly priority: number
  readonly input: unknown
  readonly result: unknown
  readonly error: JobError | null
  /** The number of runs that have started. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly meta: Readonly<Record<string, unknown>>
  readonly tags: readonly string[]
  /**
   * The next possible start of the lane of a job that waits for budget. Null: the job is not throttled, or a permit
   * must return first.
   */
  readonly throttledUntil: Date | null
  /** The schedule and due time of this job; absent for any other job. */
  readonly occurrence?: { readonly schedule: string; readonly dueAt: Date }
  /** The flow of this job and its place there; absent for any other job. */
  readonly flow?: FlowPlace
}

/** One failed attempt of a job. */
export interface FailedAttempt {
  /** 1 for the first run. */
  readonly attempt: number
  readonly at: Date
  readonly code: string
  readonly message: string
  /** At most 4,000 characters; absent: none was stored. */
  readonly stack?: string
  /** The errors behind the error, at most 5. */
  readonly causes: readonly StoredCause[]
}

/** A stored job with its failed attempts. */
export interface JobWithFailures extends JobView {
  /** The last 25, oldest first. */
  readonly failures: readonly FailedAttempt[]
  /** The last value of `ctx.progress`, 0 to 1, or what a remote worker told; null: it has told none. */
  readonly progress: unknown
  /** The lines of `ctx.logger` that are kept, oldest first. The last quarter of a second may be on its way. */
  readonly logs: readonly JobLogEntry[]
}

/** One line that a run has logged. */
export interface JobLogEntry extends Omit<JobLogLine, 'atMs'> {
  readonly at: Date
}

/** The public view of a stored job with its failed attempts. */
export function detailedViewOf(job: JobDetails, lines: readonly JobLogLine[]): JobWithFailures {
  const failures = job.errors.map((failure) => {
    const { attempt, atUs, code, message } = failure
    return { attempt, at: dateOf(atUs), code, message, ...detailsOf(failure) }
  })
  const logs = lines.map(({ atMs, ...line }) => ({ at: new Date(atMs), ...line }))
  return { ...viewOf(job), failures, progress: fromJsonText(job.progress, null), logs }
}

/** The public view of a stored job. */
export function viewOf(job: JobRecord): JobView {
  const { meta = {}, tags = [] } = extraOf(job)
  return {
    id: job.id,
    task: job.task,
    queue: job.queue,
    state: job.state,
    priority: job.priority,
    input: fromJsonText(job.input, null),
    result: fromJsonText(job.result, null),
    error: job.error && withoutStack(job.error),
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    createdAt: dateOf(job.createdUs),
    startedAt: job.startedUs === null ? null : dateOf(job.startedUs),
    finishedAt: job.finishedUs === null ? null : dateOf(job.finishedUs),
    meta,
    tags,
    throttledUntil: job.throttledUntilUs === null ? null : dateOf(job.throttledUntilUs),
    ...(job.occurrence && {
      occurrence: { schedule: job.occurrence.schedule, dueAt: new Date(job.occurrence.dueMs) },
    }),
    ...(job.flow && { flow: job.flow }),
  }
}

/** The failures of a job have its stack and its causes. */
function withoutStack({ details, ...error }: JobError): JobError {
  const { stack: _, causes: __, ...others } = details ?? {}
  return Object.keys(others).length === 0 ? error : { ...error, details: others }
}

/** Store time as a date. It is close to the wall clock, unless the clock was stepped since boot. */
export function dateOf(us: number): Date {
  return new Date(us / 1000)
}
