import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { SluiceError } from '../../base/errors.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { isJobId } from '../../base/ids.ts'
import { parseInstant } from '../../base/instant.ts'
import { didYouMean } from '../../base/nearest.ts'
import { isStorable } from '../../base/text.ts'
import { type JobState, STATES } from '../../jobs/job-state.ts'
import { Priority } from '../priority.ts'
import { queryNumber } from '../query-number.ts'

/** The refusal of a text that no store keeps. */
export const NOT_STORABLE = 'Invalid input: expected no NUL and no half surrogate pairs'

const YEAR_MS = 31_536_000_000
const MOST_BYTES_OF_NAME = 255

/**
 * An object with known members only. A misspelt one is refused, since it would be dropped silently. `metadata` and
 * names that begin with `x_` belong to the sender.
 */
function members<S extends z.core.$ZodLooseShape>(shape: S): z.ZodObject<S, z.core.$loose> {
  const known = new Set(Object.keys(shape))
  return z.looseObject(shape).check((ctx) => {
    for (const name of Object.keys(ctx.value)) {
      if (known.has(name) || name === 'metadata' || name.startsWith('x_')) continue
      const hint = didYouMean(name, [...known])
      const message = `is unknown${hint}Expected ${[...known].join(', ')}, or an extension that begins with x_.`
      ctx.issues.push(unread(name, ctx.value, message))
    }
  })
}

function unread(
  name: string,
  input: Record<string, unknown>,
  message: string,
): z.core.$ZodRawIssue<z.core.$ZodIssueUnrecognizedKeys> {
  return { code: 'unrecognized_keys', keys: [name], input, path: [name], message }
}

/** The body of a pause and of its end: neither ends by itself. The record of changes keeps the reason. */
export const PauseBody: z.ZodType<{ reason?: string | null | undefined } | null | undefined> = members({
  reason: z.string().nullish(),
}).nullish()

/** A job's id: a UUIDv7 in lower case. */
export const JobId: z.ZodType<string> = z
  .string()
  .refine(isJobId, 'Invalid input: expected a UUIDv7 in lower case')
  .meta({ format: 'uuid' })

/** A job's type: lower case words with dots between them. */
export const JobType: z.ZodType<string> = z
  .string()
  .max(MOST_BYTES_OF_NAME)
  .regex(/^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/, 'Invalid input: expected lower case words with dots between them')

/** The name of a queue. */
export const QueueName: z.ZodType<string> = z
  .string()
  .max(128)
  .regex(/^[a-z0-9][a-z0-9.-]*$/, 'Invalid input: expected lower case letters, digits, dots and hyphens')

/** The name that a worker gives itself. */
export const WorkerId: z.ZodType<string> = z
  .string()
  .min(1)
  .max(MOST_BYTES_OF_NAME)
  .regex(
    /^[^\p{Cc}\p{Surrogate}/]+$/u,
    'Invalid input: expected no control characters, half surrogate pairs or slashes',
  )

/** An ISO 8601 duration. */
const IsoDuration: z.ZodType<string> = z
  .string()
  .max(64)
  .refine(isDuration, 'Invalid input: expected an ISO 8601 duration such as PT30S')

/** A length of time in whole ms, at most a year. */
export const Millis: z.ZodType<number> = z.int().min(1).max(YEAR_MS)

/** An instant: RFC 3339, or a time from now as `PT5S` or `+PT5S`. */
export const Instant: z.ZodType<string> = z
  .string()
  .max(64)
  .refine(isInstant, 'Invalid input: expected an RFC 3339 time, or an ISO 8601 duration from now such as PT5S or +PT5S')

/** A duration as some SDKs send it: whole ms, 0 for none. */
const Interval = z.int().min(0).max(YEAR_MS)

/** A time from now: an ISO 8601 duration, with or without a plus, or whole ms. */
export const Delay: z.ZodType<string | number> = z.union([
  z
    .string()
    .max(64)
    .refine((text) => isDuration(text.replace(/^\+/, '')), 'Invalid input: expected an ISO 8601 duration such as PT1S'),
  z.int().min(0).max(YEAR_MS),
])

/** The retries of a job. */
const Retry: z.ZodType<RetryJson> = members({
  max_attempts: z.int().min(0).max(10_000).optional(),
  initial_interval: IsoDuration.optional(),
  initial_interval_ms: Interval.optional(),
  backoff_coefficient: z.number().min(1).max(1000).optional(),
  backoff_strategy: z.enum(['exponential', 'linear', 'polynomial', 'fixed', 'constant', 'none']).optional(),
  max_interval: IsoDuration.optional(),
  max_interval_ms: Interval.optional(),
  jitter: z.boolean().optional(),
  non_retryable_errors: z.array(z.string().max(MOST_BYTES_OF_NAME)).max(100).optional(),
  on_exhaustion: z.enum(['discard', 'dead_letter']).optional(),
})

/** A retry policy of a request. */
export interface RetryJson {
  max_attempts?: number | undefined
  initial_interval?: string | undefined
  initial_interval_ms?: number | undefined
  backoff_coefficient?: number | undefined
  backoff_strategy?: 'exponential' | 'linear' | 'polynomial' | 'fixed' | 'constant' | 'none' | undefined
  max_interval?: string | undefined
  max_interval_ms?: number | undefined
  jitter?: boolean | undefined
  non_retryable_errors?: string[] | undefined
  on_exhaustion?: 'discard' | 'dead_letter' | undefined
  [extension: string]: unknown
}

const State: z.ZodType<JobState> = z.enum(STATES)
const Names = z.array(z.string().max(MOST_BYTES_OF_NAME)).max(32)

/** The fields that make two jobs the same. */
const Unique: z.ZodType<UniqueJson> = members({
  keys: z
    .array(z.enum(['type', 'queue', 'args', 'meta']))
    .max(4)
    .optional(),
  key: z.union([z.string().max(MOST_BYTES_OF_NAME), Names]).optional(),
  args_keys: Names.optional(),
  meta_keys: Names.optional(),
  period: IsoDuration.optional(),
  period_ms: Millis.optional(),
  states: z.array(State).min(1).optional(),
  on_conflict: z.enum(['reject', 'ignore', 'replace', 'replace_except_schedule']).optional(),
})

/** A unique policy of a request. */
export interface UniqueJson {
  keys?: ('type' | 'queue' | 'args' | 'meta')[] | undefined
  key?: string | string[] | undefined
  args_keys?: string[] | undefined
  meta_keys?: string[] | undefined
  period?: string | undefined
  period_ms?: number | undefined
  states?: JobState[] | undefined
  on_conflict?: 'reject' | 'ignore' | 'replace' | 'replace_except_schedule' | undefined
  [extension: string]: unknown
}

/** The states of a job. */
export const JobStates: z.ZodType<JobState> = State

const Units = z.int().min(1).max(1_000_000_000)
const Pace = members({
  limit: Units.optional(),
  period: z.string().max(64).optional(),
  interval: z.string().max(64).optional(),
})

/** The key of a rate limit. */
export const RateLimitKey: z.ZodType<string> = z
  .string()
  .max(MOST_BYTES_OF_NAME)
  .regex(
    /^[a-zA-Z0-9][a-zA-Z0-9._:-]*$/,
    'Invalid input: expected letters, digits, dots, colons, hyphens and underscores',
  )

/** A rate limit of a request. */
export interface RateLimitJson {
  key?: string | undefined
  concurrency?: number | undefined
  rate?: number | { limit?: number | undefined; period?: string | undefined } | undefined
  throttle?:
    | number
    | { limit?: number | undefined; period?: string | undefined; interval?: string | undefined }
    | undefined
  period?: string | undefined
  max_per_second?: number | undefined
  on_limit?: 'wait' | 'reschedule' | 'drop' | undefined
  x_guard?: string | undefined
  x_policy?: string | undefined
  x_limit?: { name: string; key?: string | number | undefined; weight?: number | undefined } | undefined
  [extension: string]: unknown
}

const RATE_LIMIT = {
  key: RateLimitKey.optional(),
  concurrency: z.int().min(0).max(1_000_000_000).optional(),
  rate: z.union([Units, Pace]).optional(),
  throttle: z.union([Units, Pace]).optional(),
  period: z.string().max(64).optional(),
  max_per_second: Units.optional(),
  on_limit: z.enum(['wait', 'reschedule', 'drop']).optional(),
  x_guard: z.string().max(64).optional(),
  x_policy: z.string().max(200).optional(),
  x_limit: members({
    name: z
      .string()
      .min(1)
      .max(MOST_BYTES_OF_NAME)
      .refine(isStorable, NOT_STORABLE)
      .regex(/^[^/]+$/, 'Invalid input: expected no slash'),
    key: z.union([z.string().max(1024), z.number()]).optional(),
    weight: Units.optional(),
  }).optional(),
}

/** A rate limit. */
export const RateLimit: z.ZodType<RateLimitJson> = members(RATE_LIMIT)

/** A rate limit that an admin defines or overrides. */
export const RateLimitChange: z.ZodType<
  RateLimitJson & { expires_at?: string | null | undefined; partition?: string | undefined }
> = members({ ...RATE_LIMIT, expires_at: Instant.nullish(), partition: z.string().max(1024).optional() })

const OPTIONS = {
  queue: QueueName.optional(),
  priority: Priority.optional(),
  timeout_ms: Millis.optional(),
  visibility_timeout_ms: Millis.optional(),
  scheduled_at: Instant.nullish(),
  delay_until: Instant.nullish(),
  delay: Delay.nullish(),
  expires_at: Instant.nullish(),
  retry: Retry.optional(),
  unique: Unique.nullish(),
  tags: z.array(z.string().max(MOST_BYTES_OF_NAME)).max(100).optional(),
  pending: z.boolean().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  rate_limit: RateLimit.nullish(),
}

/** The options of a job. */
export const Options: z.ZodType<OptionsJson> = members(OPTIONS)

/** The options of a job in a request. */
export interface OptionsJson {
  queue?: string | undefined
  priority?: number | undefined
  timeout_ms?: number | undefined
  visibility_timeout_ms?: number | undefined
  scheduled_at?: string | null | undefined
  delay_until?: string | null | undefined
  delay?: string | number | null | undefined
  expires_at?: string | null | undefined
  retry?: RetryJson | undefined
  unique?: UniqueJson | null | undefined
  tags?: string[] | undefined
  pending?: boolean | undefined
  metadata?: Record<string, unknown> | undefined
  rate_limit?: RateLimitJson | null | undefined
  [extension: string]: unknown
}

/** A job of a request. */
export interface JobJson {
  type: string
  args: unknown[]
  id?: string | undefined
  meta?: Record<string, unknown> | null | undefined
  schema?: string | null | undefined
  options?: OptionsJson | null | undefined
  rate_limit?: RateLimitJson | null | undefined
  [extension: string]: unknown
}

/**
 * Refuses an option of a job that stands beside `options`, where it would be dropped, unless the job has that value
 * anyway. `metadata` beside them is the sender's own.
 *
 * @param read the options that the job will have
 */
export function requireInOptions(
  ctx: z.core.ParsePayload<Record<string, unknown>>,
  read: OptionsJson | null | undefined,
): void {
  const has: OptionsJson = { queue: 'default', priority: 0, ...read }
  for (const [name, value] of Object.entries(ctx.value)) {
    const option = name === 'timeout' ? 'timeout_ms' : name
    if (name === 'metadata' || !Object.hasOwn(OPTIONS, option)) continue
    if (value === null || value === undefined || isDeepStrictEqual(value, has[option])) continue
    ctx.issues.push(unread(name, ctx.value, `is read among the options alone. Expected options.${option}.`))
  }
}

/** Refuses options of jobs in a nested workflow, where they would be dropped. */
export function refuseOptions(ctx: z.core.ParsePayload<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(ctx.value)) {
    if (name === 'metadata' || !(name === 'options' || Object.hasOwn(OPTIONS, name))) continue
    if (value === null || value === undefined) continue
    const message = 'is not read in a nested workflow. Expected it among the options of its jobs, or of the whole.'
    ctx.issues.push(unread(name, ctx.value, message))
  }
}

/** A job to enqueue. */
export const NewJobJson: z.ZodType<JobJson> = z
  .looseObject({
    type: JobType,
    args: z.array(z.unknown()),
    id: JobId.optional(),
    meta: z.record(z.string(), z.unknown()).nullish(),
    schema: z.string().max(2048).nullish(),
    options: Options.nullish(),
    rate_limit: RateLimit.nullish(),
  })
  .check((ctx) => requireInOptions(ctx, { rate_limit: ctx.value.rate_limit, ...ctx.value.options }))

/** Parameters of a path that names a job. */
export const JobParams: z.ZodType<{ id: string }> = z.object({ id: z.string().max(64) })

/** Parameters of a path that names a queue. */
export const QueueParams: z.ZodType<{ name: string }> = z.object({ name: QueueName })

/** The page of a list. */
export interface Page {
  readonly page: number
  readonly per_page: number
  readonly limit?: number | undefined
  readonly offset?: number | undefined
}

/** The page of a list: `page` and `per_page`, or `limit` and `offset`. */
export const PageQuery: z.ZodType<Page> = z.object({
  page: queryNumber(1, 1_000_000).default(1),
  per_page: queryNumber(1, 100).default(25),
  limit: queryNumber(1, 100).optional(),
  offset: queryNumber(0, 100_000_000).optional(),
})

/** An instant as epoch ms. @param nowMs wall clock */
export function instantMs(text: string, nowMs: number): number {
  return isRelative(text)
    ? nowMs + durationUs(text.replace(/^\+/, '') as Duration, 'a time') / 1000
    : parseInstant(text)
}

/** Returns whether an instant is given as a time from now. */
export function isRelative(text: string): boolean {
  return /^\+?P/.test(text)
}

function isDuration(text: string): boolean {
  if (!text.startsWith('P')) return false
  try {
    durationUs(text as Duration, 'a duration')
    return true
  } catch (error) {
    if (error instanceof SluiceError) return false
    throw error
  }
}

function isInstant(text: string): boolean {
  if (isRelative(text)) return isDuration(text.replace(/^\+/, ''))
  return !Number.isNaN(parseInstant(text))
}
