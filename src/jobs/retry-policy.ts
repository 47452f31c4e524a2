import { durationUs, type Duration } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkOptions, quote } from '../base/options.ts'
import type { Random } from '../base/random.ts'

/** How a task retries failed attempts. */
export interface RetryOptions {
  /** Attempts in total, including the first; a whole number from 1 to 10,000. Default 3. */
  attempts?: number
  /** The growth of the delay from one failure to the next. Default `'exponential'`. */
  backoff?: 'exponential' | 'fixed' | 'linear' | 'polynomial' | 'none'
  /** Delay after the first failure. Default 1 s. */
  initial?: Duration
  /** Longest delay. Default 5 min, or `initial` where that is longer. */
  max?: Duration
  /**
   * The factor from each delay to the next; for polynomial back-off, the exponent of the attempt. At least 1, default
   * 2.
   */
  factor?: number
  /** Multiplies each delay by a random number from 0.5 to 1.5, so that jobs that failed together do not return together. Default true. */
  jitter?: boolean
}

/** Retry options with all defaults filled in and durations in µs. */
export interface RetryPolicy {
  readonly attempts: number
  readonly backoff: 'exponential' | 'fixed' | 'linear' | 'polynomial' | 'none'
  readonly initialUs: number
  readonly maxUs: number
  readonly factor: number
  readonly jitter: boolean
}

/** The most attempts of a job. */
export const MAX_ATTEMPTS = 10_000
const DEFAULT_MAX_US = 300_000_000
const BACKOFFS: readonly string[] = ['exponential', 'fixed', 'linear', 'polynomial', 'none']
const OPTIONS = ['attempts', 'backoff', 'initial', 'max', 'factor', 'jitter'] as const

/**
 * Checks retry options and fills in the defaults.
 *
 * @param what names the options in the message, as in `'retry of task tenant.sync'`.
 * @throws {SluiceError} `retry.invalid`
 * @throws {SluiceError} `duration.invalid`
 */
export function retryPolicy(options: RetryOptions | undefined, what: string): RetryPolicy {
  const given = checkShape(options, what)
  const { attempts = 3, initial = '1s', backoff = 'exponential', factor = 2, jitter = true } = given
  const initialUs = durationUs(initial, `${what}: initial`)
  const maxUs = given.max === undefined ? Math.max(DEFAULT_MAX_US, initialUs) : durationUs(given.max, `${what}: max`)
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > MAX_ATTEMPTS) {
    throw invalid(
      what,
      `attempts is invalid: ${quote(attempts)}. Expected a whole number from 1 (no retry) to ${MAX_ATTEMPTS}.`,
    )
  }
  if (!BACKOFFS.includes(backoff))
    throw invalid(what, `backoff is invalid: ${quote(backoff)}. Expected one of ${BACKOFFS.join(', ')}.`)
  if (!Number.isFinite(factor) || factor < 1)
    throw invalid(what, `factor is invalid: ${quote(factor)}. Expected a number of 1 or more.`)
  if (typeof jitter !== 'boolean') throw invalid(what, `jitter is invalid: ${quote(jitter)}. Expected true or false.`)
  if (maxUs < initialUs) throw invalid(what, 'max is shorter than initial. Raise max or lower initial.')
  return { attempts, backoff, initialUs, maxUs, factor, jitter }
}

/**
 * The delay after a failed attempt, in whole µs from 0 to `maxUs`: grown, capped, jittered, capped again.
 *
 * @param attempt the number of the failed attempt; 1 for the first.
 */
export function retryDelayUs(policy: RetryPolicy, attempt: number, random: Random): number {
  const capped = Math.min(grownUs(policy, attempt), policy.maxUs)
  return policy.jitter ? Math.min(Math.round(capped * (0.5 + random.next())), policy.maxUs) : Math.round(capped)
}

function grownUs({ backoff, initialUs, factor }: RetryPolicy, attempt: number): number {
  // The power may be infinite, and 0 × Infinity is NaN.
  if (initialUs === 0 || backoff === 'none') return 0
  if (backoff === 'fixed') return initialUs
  if (backoff === 'polynomial') return initialUs * attempt ** factor
  return backoff === 'linear' ? initialUs * attempt : initialUs * factor ** (attempt - 1)
}

function checkShape(options: unknown, what: string): RetryOptions {
  if (options === undefined) return {}
  checkOptions(options, OPTIONS, what, { code: 'retry.invalid', aliases: { retries: 'attempts', delay: 'initial' } })
  return options as RetryOptions
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('retry.invalid', `${what}: ${why}`)
}
