import { systemClock } from '../base/clock.ts'
import { checkOptions } from '../base/options.ts'
import { durationUs, MAX_DURATION_US, type Duration } from '../base/duration.ts'
import { partitionKey } from '../policy/limits/partition-key.ts'
import { type HeadersLike, headerSource, type HeaderSource } from './header-source.ts'
import { readRefusal, type RetryAfter } from './rate-limit-headers.ts'

/** A limit by its name, or the limit itself. */
export type LimitName = string | { readonly name: string }

/** The known terms of an API's refusal. */
export interface RateLimitedOptions {
  /**
   * How long, or until when, the API wants no calls. A past time counts as one interval of the limit. NaN and an
   * invalid date count as not given, since a reading error must not turn the refusal into a failed attempt.
   */
  retryAfter: Duration | Date
  /** The limit whose bucket closes; default: the first that the task lists. */
  limit?: LimitName
  /** The partition key of the bucket; default: the job's own. */
  key?: string | number
}

/**
 * Thrown by a handler when an API refused a call (429). The bucket closes, and the job waits in its lane without a
 * charged attempt.
 */
export class RateLimited extends Error {
  /** The wait as given. It is compared with the clock only when the job settles. */
  readonly retryAfter: RetryAfter
  readonly limitName: string | null
  readonly key: string | number | null
  /** The headers of the answer that it was read from; null: none. */
  readonly headers: HeaderSource | null

  /** @throws {SluiceError} `duration.invalid` */
  constructor(options: RateLimitedOptions, headers: HeaderSource | null = null) {
    checkOptions(options, ['retryAfter', 'limit', 'key'], 'new RateLimited')
    const retryAfter = fact(options.retryAfter)
    super(`the other side refused the call; ${wording(retryAfter)}`)
    this.name = 'RateLimited'
    this.retryAfter = retryAfter
    this.limitName = nameIn(options.limit)
    this.key = options.key ?? null
    this.headers = headers
  }

  /**
   * Reads the refusal from a response, or from its headers: Retry-After, otherwise the reset of its RateLimit,
   * x-ratelimit or anthropic-ratelimit headers. Headers may be a plain object, as axios and node:http give them.
   *
   * @param options.now the wall clock in epoch ms; default: the system's. It decides only the century of a two-digit
   * year.
   */
  static from(
    response: { readonly headers: HeadersLike } | HeadersLike,
    options: { limit?: LimitName; now?: number } = {},
  ): RateLimited {
    checkOptions(options, ['limit', 'now'], 'RateLimited.from')
    const headers = headerSource(headersOf(response))
    const wait = readRefusal(headers, options.now ?? systemClock.now())
    return new RateLimited(
      { retryAfter: duration(wait), ...(options.limit === undefined ? {} : { limit: options.limit }) },
      headers,
    )
  }
}

/** As with the time: what names no limit must not turn the refusal into a failed attempt, and stands for the task's first. */
function nameIn(limit: unknown): string | null {
  const name: unknown = typeof limit === 'object' && limit !== null && 'name' in limit ? limit.name : limit
  return typeof name === 'string' ? name : null
}

/** The headers of a response. A value without headers may be headers itself. */
function headersOf(response: unknown): unknown {
  if (typeof response !== 'object' || response === null || !('headers' in response)) return response
  return typeof response.headers === 'object' && response.headers !== null ? response.headers : response
}

/**
 * The key of the bucket that a refusal names, as buckets store it; null: it names none. A thrown error may hold anything,
 * and reading it must not fail.
 * @param what names the refusal in messages.
 */
export function keyOfRefusal({ key }: Pick<RateLimited, 'key'>, what: string): string | null {
  if (typeof key !== 'string' && !Number.isFinite(key)) return null
  const named = partitionKey(key, 'shared', what)
  return named.kind === 'key' ? named.key : null
}

/** The inputs of a penalty's length. */
export interface PenaltyBasis {
  /** The wall clock, in epoch ms. */
  readonly nowMs: number
  /** The time between two starts of the limit at its full rate, in µs. */
  readonly intervalUs: number
  /** The period of the limit, in µs. */
  readonly periodUs: number
  /** The longest penalty, in µs; 1 hour by default. */
  readonly maxPenaltyUs?: number
}

const MAX_PENALTY_US = 3_600_000_000
const MIN_UNTOLD_US = 1_000_000

/**
 * How long a refusal closes a bucket, in whole µs: the given wait, or one interval if that is past. Without a given
 * wait, one period and at least a second. Never longer than `maxPenaltyUs`.
 */
export function penaltyUs(limited: Pick<RateLimited, 'retryAfter'>, basis: PenaltyBasis): number {
  const { intervalUs, periodUs, maxPenaltyUs = MAX_PENALTY_US } = basis
  const us = waitUs(limited.retryAfter, basis.nowMs) ?? Math.max(periodUs, MIN_UNTOLD_US)
  return Math.min(us > 0 ? us : intervalUs, maxPenaltyUs)
}

function waitUs(wait: RetryAfter, nowMs: number): number | null {
  if (wait.kind === 'absent') return null
  return wait.kind === 'delay' ? wait.us : Math.ceil((wait.epochMs - nowMs) * 1_000)
}

function fact(retryAfter: unknown): RetryAfter {
  if (retryAfter instanceof Date) {
    const epochMs = retryAfter.getTime()
    return Number.isNaN(epochMs) ? { kind: 'absent' } : { kind: 'at', epochMs }
  }
  if (typeof retryAfter === 'string') {
    return { kind: 'delay', us: durationUs(retryAfter as Duration, 'retryAfter of RateLimited') }
  }
  if (typeof retryAfter !== 'number' || Number.isNaN(retryAfter)) return { kind: 'absent' }
  return { kind: 'delay', us: Math.min(Math.max(0, Math.round(retryAfter * 1_000)), MAX_DURATION_US) }
}

function duration(wait: RetryAfter): Duration | Date {
  if (wait.kind === 'at') return new Date(wait.epochMs)
  return wait.kind === 'delay' ? wait.us / 1_000 : Number.NaN
}

function wording(wait: RetryAfter): string {
  if (wait.kind === 'absent') return 'it did not say when to come back'
  return wait.kind === 'at'
    ? `come back at ${new Date(wait.epochMs).toISOString()}`
    : `come back in ${wait.us / 1_000} ms`
}
