import { objectIn } from '../base/json-value.ts'
import type { RetryPolicy } from './retry-policy.ts'

/** How the failures of a job are repeated that remote workers run; kept with the job, since no code here knows it. */
export interface RetryTerms extends Omit<RetryPolicy, 'attempts'> {
  /** Failures that end the job at once: what they are called, or the beginning of that with `.*`. */
  readonly nonRetryable: readonly string[]
}

/** What is kept beside a job or a flow, as JSON text in `extra`. Each floor adds what only it reads. */
export interface JobExtra {
  /** What the caller notes of it. */
  readonly meta?: Readonly<Record<string, unknown>>
  readonly tags?: readonly string[]
  /** What its runs carry of a trace: names and values of headers. */
  readonly trace?: Readonly<Record<string, string>>
  /** Of a job that remote workers run. */
  readonly retry?: RetryTerms
  /** The bucket that a push-back closes. */
  readonly limit?: { readonly limit: string; readonly key: string }
}

/** Reads what is kept beside a job; nothing where that is no object. */
export function extraOf<Extra extends JobExtra = JobExtra>(job: { readonly extra: string | null }): Partial<Extra> {
  return objectIn<Extra>(job.extra)
}
