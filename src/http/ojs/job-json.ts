import type { Failure, JobDetails } from '../../store/contract/remote-jobs.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { fromJsonText, objectIn } from '../../base/json-value.ts'
import { splitName } from '../tenant.ts'
import { extraOf as readExtra } from '../../jobs/job-extra.ts'
import type { OjsExtra } from './new-job.ts'

/** A job in an answer; undefined members are omitted. */
export type JobAsJson = Record<string, unknown> & { readonly id: string }

/** The public codes of the server's own failures. */
const CODES: Readonly<Record<string, string>> = {
  'lease.lost': 'visibility_timeout',
  'job.expired': 'x_expired',
  'job.timeout': 'timeout',
  'limit.rejected': 'x_rate_limit_rejected',
  'handler.failed': 'handler_error',
}

/** The extra fields that the server stored with a job. */
export function extraOf(job: { readonly extra: string | null }): OjsExtra {
  return readExtra<OjsExtra>(job)
}

/** The public code of a failure. */
export function codeOf(code: string): string {
  return CODES[code] ?? code
}

/** Turns a stored job into the form of the Open Job Spec. */
export function jobJson(job: JobDetails): JobAsJson {
  const extra = extraOf(job)
  const { ojs } = extra
  const options = ojs?.options ?? {}
  return {
    ...ojs?.fields,
    specversion: '1.0',
    id: job.id,
    type: job.task,
    state: job.state,
    queue: splitName(job.queue).name,
    args: argsOf(job, extra),
    meta: extra.meta ?? {},
    priority: job.priority,
    attempt: job.attempt,
    max_attempts: ojs?.maxAttempts ?? job.maxAttempts,
    tags: extra.tags,
    schema: ojs?.schema,
    timeout_ms: options.timeout_ms,
    timeout: options.timeout_ms,
    visibility_timeout_ms: options.visibility_timeout_ms,
    retry: options.retry,
    unique: options.unique ?? undefined,
    rate_limit: options.rate_limit ?? undefined,
    ...timesOf(job, extra),
    ...failuresOf(job),
    result: job.state === 'completed' ? fromJsonText(job.result, undefined) : undefined,
    workflow_id: job.flow?.id,
    parent_results: job.parentResults?.map((text): unknown => fromJsonText(text, null)),
    progress: objectIn<{ progress: number }>(job.progress).progress,
  }
}

/** Store time as RFC 3339. It is close to the wall clock, unless the clock was stepped since boot. */
export function timeOf(us: number): string {
  if (us !== shown.us) shown = { us, text: new Date(us / 1000).toISOString() }
  return shown.text
}

/** The last instant written: one answer often names it several times. */
let shown = { us: NaN, text: '' }

/** The retry delay after a job's last failure, in whole ms; null if it has not failed. */
function retryDelayMs(job: JobDetails): number | null {
  return job.state === 'retryable' || job.state === 'active' ? (job.error?.retryDelayMs ?? null) : null
}

function argsOf(job: JobDetails, { ojs }: OjsExtra): unknown {
  const input: unknown = fromJsonText(job.input, null)
  if (ojs?.args === 'none' || (!ojs && input === null)) return []
  return ojs?.args === 'many' ? input : [input]
}

function timesOf(job: JobDetails, extra: OjsExtra): Record<string, unknown> {
  const { ojs, activatedUs } = extra
  const { state } = job
  const { times = {}, options = {} } = ojs ?? {}
  const finished = job.finishedUs === null ? undefined : timeOf(job.finishedUs)
  const sent = times['scheduled_at'] ?? options.scheduled_at ?? options.delay_until ?? undefined
  const snoozed = state === 'scheduled' && job.startedUs !== null && job.dueUs !== null
  const cameUp =
    snoozed ||
    (state !== 'scheduled' && state !== 'pending' && !(state === 'cancelled' && wasEarly(job, extra, sent ?? null)))
  return {
    created_at: timeOf(job.createdUs),
    enqueued_at: !cameUp ? undefined : timeOf(state === 'available' ? job.sinceUs : (activatedUs ?? job.createdUs)),
    activated_at: activatedUs === undefined ? undefined : timeOf(activatedUs),
    scheduled_at: sent ?? (state === 'scheduled' && job.dueUs !== null ? timeOf(job.dueUs) : undefined),
    expires_at: times['expires_at'] ?? options.expires_at ?? undefined,
    started_at: job.startedUs === null ? undefined : timeOf(job.startedUs),
    next_attempt_at: (state === 'retryable' && job.dueUs !== null) || snoozed ? timeOf(job.dueUs ?? 0) : undefined,
    retry_delay_ms: retryDelayMs(job) ?? undefined,
    // A job that was discarded before its start has no completion.
    completed_at: state === 'completed' || (state === 'discarded' && job.attempt > 0) ? finished : undefined,
    discarded_at: state === 'discarded' ? finished : undefined,
    cancelled_at: state === 'cancelled' ? finished : undefined,
  }
}

/** Returns whether a job was cancelled before it was due, or before its activation. */
function wasEarly(job: JobDetails, { ojs, activatedUs }: OjsExtra, scheduledAt: string | null): boolean {
  if (job.attempt > 0 || job.finishedUs === null) return false
  if (ojs?.options.pending === true && activatedUs === undefined) return true
  return scheduledAt !== null && Date.parse(scheduledAt) * 1000 > job.finishedUs
}

function failuresOf(job: JobDetails): Record<string, unknown> {
  const errors = job.errors.map(failureJson)
  const last = job.error && errorJson(job.error)
  return {
    error: job.state === 'completed' ? undefined : (last ?? undefined),
    errors: errors.length > 0 ? errors : undefined,
  }
}

function failureJson({ attempt, atUs, retryDelayMs: _delay, ...error }: Failure): Record<string, unknown> {
  return { ...errorJson(error), attempt, occurred_at: timeOf(atUs) }
}

function errorJson({ code, message, type, details }: JobError): Record<string, unknown> {
  const shown = codeOf(code)
  const kind = type ?? details?.['error_class'] ?? shown
  return { code: shown, type: kind, message, ...(details && { details }) }
}
