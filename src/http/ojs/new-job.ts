import { quote } from '../../base/options.ts'
import { createHash } from 'node:crypto'
import { type Duration, durationUs } from '../../base/duration.ts'
import { checkInstant } from '../../base/instant.ts'
import { toJsonText } from '../../base/json-value.ts'
import type { JobExtra, RetryTerms } from '../../jobs/job-extra.ts'
import type { NewJob } from '../../jobs/job.ts'
import { retryPolicy } from '../../jobs/retry-policy.ts'
import type { OnConflict, UniqueRule } from '../../jobs/unique-key.ts'
import type { BucketUse } from '../../store/contract/store.ts'
import { invalid, unprocessable } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { instantMs, isRelative, type JobJson, type OptionsJson, type RetryJson, type UniqueJson } from './schemas.ts'

/** The parts of a sent job that are kept to show it again. */
export interface OjsExtra extends JobExtra {
  readonly ojs?: {
    /** The way in which `args` became the input: one argument is the input itself. */
    readonly args: 'one' | 'many' | 'none'
    readonly fields: Readonly<Record<string, unknown>>
    readonly options: OptionsJson
    readonly maxAttempts: number
    readonly schema?: string
    /** The instants that relative times such as `+PT5S` stand for. */
    readonly times: Readonly<Record<string, string>>
  }
  readonly activatedUs?: number
  readonly cron?: { readonly createdMs: number; readonly expression: string; readonly overlap: string }
}

/** The server's part of a new job. */
export interface StoredWith {
  readonly tenant: string
  /** Wall clock. */
  readonly nowMs: number
  readonly newId: () => string
  /** In lane order. */
  readonly uses: readonly BucketUse[]
  /** The bucket that a push-back closes; null: any bucket of the job. */
  readonly first: BucketUse | null
}

const KNOWN: ReadonlySet<string> = new Set(['type', 'args', 'id', 'meta', 'schema', 'options', 'rate_limit'])
/** Fields of the server: it ignores members that a client sends under these names. */
const OURS: ReadonlySet<string> = new Set(
  'specversion queue priority state attempt max_attempts created_at enqueued_at started_at completed_at cancelled_at discarded_at activated_at scheduled_at expires_at next_attempt_at retry_delay_ms error errors result tags timeout timeout_ms visibility_timeout_ms retry unique progress parent_results lease workflow_id __proto__'.split(
    ' ',
  ),
)

/**
 * Turns a sent job into one to store. Its input is its only argument, or the list of all.
 * @throws {Refusal} 400, 422 @throws {SluiceError} the codes of an engine's enqueue
 */
export function newJob(json: JobJson, { tenant, nowMs, newId, uses, first }: StoredWith): NewJob {
  const options = json.options ?? {}
  const { args, type } = json
  const queue = options.queue ?? 'default'
  const { terms, maxAttempts } = options.retry ? retryTerms(options.retry) : DEFAULT_RETRY
  const { runAtMs, expiresAtMs, times } = timesOf(options, nowMs)
  const meta = withTenant(json.meta ?? {}, tenant)
  const extra: OjsExtra = {
    meta,
    ...(options.tags && { tags: options.tags }),
    retry: terms,
    ...(first && { limit: { limit: first.limit, key: first.key } }),
    ojs: {
      args: args.length === 1 ? 'one' : args.length === 0 ? 'none' : 'many',
      fields: Object.fromEntries(Object.entries(json).filter(([name]) => !KNOWN.has(name) && !OURS.has(name))),
      options,
      maxAttempts: options.retry?.max_attempts ?? maxAttempts,
      ...(typeof json.schema === 'string' && { schema: json.schema }),
      times,
    },
  }
  const stored = ownName(tenant, queue)
  return {
    id: json.id ?? newId(),
    task: type,
    queue: stored,
    priority: options.priority ?? 0,
    input: toJsonText(args.length === 1 ? args[0] : args.length === 0 ? null : args, 'args'),
    uses,
    maxAttempts,
    runAtMs,
    expiresAtMs,
    unique: options.unique ? uniqueRule(options.unique, json, stored) : null,
    extra: toJsonText(extra, 'the job'),
    terms: {
      givenId: json.id !== undefined,
      pending: options.pending === true,
      leaseUs: options.visibility_timeout_ms === undefined ? null : options.visibility_timeout_ms * 1000,
      timeoutUs: options.timeout_ms === undefined ? null : options.timeout_ms * 1000,
      deadLetter: options.retry?.on_exhaustion === 'dead_letter',
    },
  }
}

/** The due time of a job that waits for its activation; null: at once. */
export function runAtOf(extra: OjsExtra): number | null {
  const { times = {}, options = {} } = extra.ojs ?? {}
  const at = times['scheduled_at'] ?? options.scheduled_at ?? options.delay_until
  return typeof at === 'string' ? checkInstant(Date.parse(at), 'scheduled_at') : null
}

function withTenant(meta: Readonly<Record<string, unknown>>, tenant: string): Readonly<Record<string, unknown>> {
  if (tenant === '') return meta
  const own = meta['tenant_id']
  if (own !== undefined && own !== tenant)
    throw invalid(`meta.tenant_id is ${quote(own)}, but the request's tenant is ${tenant}.`)
  return { ...meta, tenant_id: tenant }
}

function timesOf(
  options: OptionsJson,
  nowMs: number,
): { runAtMs: number | null; expiresAtMs: number | null; times: Record<string, string> } {
  const times: Record<string, string> = {}
  const read = (name: 'scheduled_at' | 'delay_until' | 'expires_at'): number | null => {
    const text = options[name]
    if (typeof text !== 'string') return null
    const ms = checkInstant(instantMs(text, nowMs), `options.${name}`)
    if (isRelative(text)) times[name] = new Date(ms).toISOString()
    return ms
  }
  const delayed = (): number | null => {
    const { delay } = options
    if (delay === undefined || delay === null) return null
    const ms = checkInstant(typeof delay === 'number' ? nowMs + delay : instantMs(delay, nowMs), 'options.delay')
    times['delay_until'] = new Date(ms).toISOString()
    return ms
  }
  const runAtMs = read('scheduled_at') ?? read('delay_until') ?? delayed()
  const expiresAtMs = read('expires_at')
  if (times['delay_until'] !== undefined) times['scheduled_at'] ??= times['delay_until']
  return { runAtMs, expiresAtMs, times }
}

function retryTerms(json: RetryJson): { terms: RetryTerms; maxAttempts: number } {
  const { backoff_strategy: strategy = 'exponential' } = json
  const initial = (json.initial_interval ?? json.initial_interval_ms ?? 'PT1S') as Duration
  const longest = (json.max_interval ?? json.max_interval_ms ?? 'PT5M') as Duration
  const initialUs = durationUs(initial, 'retry.initial_interval')
  const policy = retryPolicy(
    {
      attempts: Math.max(1, json.max_attempts ?? 3),
      backoff: strategy === 'constant' ? 'fixed' : strategy,
      // A cap below the first delay caps that delay too.
      initial: Math.min(initialUs, durationUs(longest, 'retry.max_interval')) / 1000,
      max: longest,
      factor: json.backoff_coefficient ?? 2,
      jitter: json.jitter ?? true,
    },
    'retry',
  )
  const { attempts, ...terms } = policy
  return { terms: { ...terms, nonRetryable: json.non_retryable_errors ?? [] }, maxAttempts: attempts }
}

/** The retry terms of a job that names none. */
const DEFAULT_RETRY = retryTerms({})

const ON_CONFLICT: Readonly<Record<string, OnConflict>> = {
  reject: 'reject',
  ignore: 'ignore',
  replace: 'replace',
  replace_except_schedule: 'update',
}

/**
 * The unique key of a job: a digest of the fields that the policy names. The type and the tenant of the queue are
 * always part of it. @throws {Refusal} 400 for a missing field, 422 for a period of zero
 */
function uniqueRule(unique: UniqueJson, json: JobJson, queue: string): UniqueRule {
  const { period, period_ms: periodMs, states, on_conflict: conflict = 'reject' } = unique
  const withinUs = period !== undefined ? durationUs(period as Duration, 'unique.period') : (periodMs ?? 0) * 1000
  if (withinUs === 0 && period !== undefined)
    throw unprocessable('unique.period is invalid: zero. Expected a duration above zero.')
  return {
    key: `${json.type}:sha256:${createHash('sha256')
      .update(uniqueText(unique, json, queue))
      .digest('hex')}`,
    onConflict: ON_CONFLICT[conflict] ?? 'reject',
    withinUs: withinUs === 0 ? null : withinUs,
    states: states ?? null,
  }
}

const DIMENSIONS: ReadonlySet<string> = new Set(['type', 'queue', 'args', 'meta'])

/** The fields that two jobs must share to be the same. */
function uniqueText(unique: UniqueJson, json: JobJson, queue: string): string {
  const { keys, key, args_keys: argsKeys, meta_keys: metaKeys } = unique
  const named = typeof key === 'string' ? [key] : (key ?? [])
  // SDKs name dimensions and fields of the arguments in one list.
  const fields = named.filter((name) => !DIMENSIONS.has(name))
  const dimensionKeys = [...(keys ?? []), ...named.filter((name) => DIMENSIONS.has(name))]
  const givesNone = keys === undefined && named.length === 0 && !argsKeys && !metaKeys
  const dimensions = new Set(givesNone ? ['type', 'args'] : dimensionKeys)
  return canonical([
    queue.slice(0, queue.lastIndexOf('/') + 1),
    dimensions.has('queue') ? queue : null,
    dimensions.has('args') && !argsKeys ? json.args : null,
    [
      ...fieldsOf(json.args[0], argsKeys ?? [], 'unique.args_keys', 'the first argument'),
      ...fieldsOf(json.args[0], fields, 'unique.key', 'the first argument'),
    ],
    dimensions.has('meta') && !metaKeys ? (json.meta ?? {}) : null,
    fieldsOf(json.meta, metaKeys ?? [], 'unique.meta_keys', 'meta'),
  ])
}

/**
 * Picks fields by name. A missing one is refused, since it would make all jobs of the type the same.
 * @throws {Refusal} 400
 */
function fieldsOf(value: unknown, names: readonly string[], option: string, where: string): unknown[] {
  return names.map((name) => {
    if (typeof value === 'object' && value !== null && Object.hasOwn(value, name))
      return (value as Record<string, unknown>)[name]
    throw invalid(
      `${option}: ${where} has no field ${JSON.stringify(name)}. Expected existing fields, or keys of type, queue, args and meta.`,
    )
  })
}

/** JSON with sorted names in each object: two clients may order the same arguments differently. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  )
}
