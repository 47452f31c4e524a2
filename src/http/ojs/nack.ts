import { z } from 'zod'
import { MAX_DURATION_US } from '../../base/duration.ts'
import { END_OF_TIME_MS } from '../../base/instant.ts'
import type { JsonValue } from '../../base/json-value.ts'
import type { Failure } from '../../remote/retry.ts'
import type { Holder, RemoteSettled } from '../../remote/settle.ts'
import { readRateLimitHeaders, type RetryAfter } from '../../jobs/rate-limit-headers.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { invalid, unprocessable } from '../refusal.ts'
import { jobJson } from './job-json.ts'
import { type HeaderValue, holderOf, settledJob, BudgetReport } from './settled.ts'
import { Instant, instantMs, JobId, WorkerId } from './schemas.ts'

const Name = z.string().max(255)
/** Larger details are refused. */
const DETAILS_AT_MOST = 65_536
/** The stored part of the details of each failure; a job keeps up to 25 failures. */
const DETAILS_KEPT = 16_384
const Details: z.ZodType<Record<string, JsonValue>> = z
  .record(z.string(), z.unknown())
  .refine(
    (details) => JSON.stringify(details).length <= DETAILS_AT_MOST,
    `are too large. Expected at most ${DETAILS_AT_MOST} characters of JSON, such as the beginning of a stack.`,
  ) as z.ZodType<Record<string, JsonValue>>
const Failed = z.looseObject({
  code: Name.nullish(),
  message: z.string().max(100_000).nullish(),
  type: Name.nullish(),
  retryable: z.boolean().nullish(),
  details: Details.nullish(),
  rate_limit_until: Instant.nullish(),
  retry_after: z.union([z.number().min(0).max(31_536_000), Instant]).nullish(),
})
const Body = z.looseObject({
  job_id: JobId,
  worker_id: WorkerId.nullish(),
  attempt: z.int().min(1).nullish(),
  requeue: z.boolean().nullish(),
  snooze_ms: z
    .int()
    .min(0)
    .max(MAX_DURATION_US / 1000)
    .nullish()
    .meta({
      description: 'Runs the job again after this time, in ms, without a failure. Excludes error and requeue.',
    }),
  error: Failed.nullish(),
  ...BudgetReport,
})

/** NACK: a run has failed, was refused by an API, snoozes, or is given up. */
export const nack: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/nack',
  name: 'nackJob',
  summary: 'Report that a run has failed, or give its job back.',
  body: Body,
  answers: { 200: 'The job after its failure.' },
  async run(call) {
    const { job_id: id } = call.body
    const holder = holderOf(call, call.body)
    const job = settledJob(await settle(call, holder), id, 'failed')
    const shown = jobJson(job)
    return ok({
      id,
      job_id: id,
      state: job.state,
      attempt: job.attempt,
      max_attempts: shown['max_attempts'],
      next_attempt_at: shown['next_attempt_at'],
      // Without a delay the job is already available.
      retry_delay_ms: job.state === 'available' ? job.error?.retryDelayMs : shown['retry_delay_ms'],
      discarded_at: shown['discarded_at'],
      completed_at: shown['completed_at'],
    })
  },
})

function settle(
  { body, server }: Call<unknown, unknown, z.output<typeof Body>>,
  holder: Holder,
): Promise<RemoteSettled> {
  const { remote, clock } = server
  const { job_id: id, error, requeue, snooze_ms: snoozeMs } = body
  if (typeof snoozeMs === 'number') {
    if (error || requeue) throw invalid('snooze_ms excludes error and requeue. Expected one of them.')
    if (clock.now() + snoozeMs >= END_OF_TIME_MS)
      throw unprocessable('snooze_ms is too long. Expected a time that ends before 2200-01-01.')
    return remote.snooze(id, holder, snoozeMs * 1000)
  }
  if (requeue) return remote.giveUp(id, holder)
  if (!error) throw invalid('error is missing. Expected { code, message }, or requeue, or snooze_ms.')
  const failure: Failure = {
    code: error.code ?? 'handler_error',
    message: error.message ?? '',
    retryable: error.retryable ?? true,
    ...(typeof error.type === 'string' && { type: error.type }),
    ...(error.details && { details: clipped(error.details) }),
  }
  const pushBack = retryAfter(error, clock.now()) ?? retryAfterOf(body.rate_limit_headers, clock.now())
  return pushBack ? remote.pushBack(id, holder, failure, pushBack) : remote.fail(id, holder, failure)
}

/** The stored form of details: a member that is too long is cut. */
function clipped(details: Record<string, JsonValue>): Record<string, JsonValue> {
  if (JSON.stringify(details).length <= DETAILS_KEPT) return details
  const members = Object.entries(details).slice(0, 32)
  const each = Math.floor(DETAILS_KEPT / 2 / (members.length + 1))
  const short = members.map(([name, value]): [string, JsonValue] => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return [name.slice(0, 128), text.length <= each ? value : text.slice(0, each)]
  })
  return { ...Object.fromEntries(short), x_truncated: true }
}

/** The Retry-After of an API's refusal counts as `retry_after` does. */
function retryAfterOf(
  headers: Readonly<Record<string, HeaderValue>> | null | undefined,
  nowMs: number,
): RetryAfter | null {
  if (!headers) return null
  return readRateLimitHeaders(headers, nowMs).retryAfter ?? null
}

function retryAfter(
  { rate_limit_until: until, retry_after: after }: z.output<typeof Failed>,
  nowMs: number,
): RetryAfter | null {
  if (typeof until === 'string') return { kind: 'at', epochMs: instantMs(until, nowMs) }
  if (after === undefined || after === null) return null
  if (typeof after === 'string') return { kind: 'at', epochMs: instantMs(after, nowMs) }
  return { kind: 'delay', us: Math.round(after * 1e6) }
}
