import { objectIn } from '../base/json-value.ts'
import type { RetryPolicy } from './retry-policy.ts'

/** The retry policy of one job: its call gave it, or its task has no code here. */
export interface RetryTerms extends Omit<RetryPolicy, 'attempts'> {
  /** Failures that end the job at once: their names, or the beginning of a name with `.*`. */
  readonly nonRetryable: readonly string[]
}

/** Further fields of a job or a flow, stored as JSON text in `extra`. Each floor adds the fields that only it reads. */
export interface JobExtra {
  /** The caller's own notes. */
  readonly meta?: Readonly<Record<string, unknown>>
  readonly tags?: readonly string[]
  /** The trace context of its runs: names and values of headers. */
  readonly trace?: Readonly<Record<string, string>>
  /** In place of the task's; set for a job whose call gave it, and for any that a remote client pushed. */
  readonly retry?: RetryTerms
  /** The timeout of each attempt in place of the task's, in ms, for engines; remote workers have it in `JobTerms`. */
  readonly timeoutMs?: number
  /** How long it holds its unique key after its enqueue, in ms, also once it has completed. */
  readonly keyMs?: number
  /** The bucket that a push-back closes. */
  readonly limit?: { readonly limit: string; readonly key: string }
}

/** Reads the further fields of a job; text that is not an object gives none. */
export function extraOf<Extra extends JobExtra = JobExtra>(job: { readonly extra: string | null }): Partial<Extra> {
  return objectIn<Extra>(job.extra)
}
