import { SluiceError } from '../base/errors.ts'
import type { Random } from '../base/random.ts'
import { beginningOf } from '../base/text.ts'
import type { JobError } from '../jobs/job-error.ts'
import type { Settlement } from '../jobs/settlement.ts'
import { extraOf, type RetryTerms } from '../jobs/job-extra.ts'
import { type RetryPolicy, retryDelayUs, retryPolicy } from '../jobs/retry-policy.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'

/** A failure as a remote worker reports it. */
export interface Failure {
  readonly code: string
  readonly message: string
  readonly type?: string
  readonly details?: JobError['details']
  /** False: another attempt cannot help. */
  readonly retryable: boolean
}

const DEFAULT: RetryTerms = { ...retryPolicy(undefined, 'the default'), nonRetryable: [] }
const LONGEST_MESSAGE = 8000

/** The retry terms of a job's enqueue; otherwise those of its task, otherwise the default. */
export function retryTermsOf(job: JobDetails, ofTask: RetryPolicy | undefined): RetryTerms {
  const { retry } = extraOf(job)
  return retry ?? (ofTask ? { ...ofTask, nonRetryable: [] } : DEFAULT)
}

/** The settlement of a failed attempt: a retry after its delay, or the end. */
export function settlementOfFailure(job: JobDetails, failure: Failure, terms: RetryTerms, random: Random): Settlement {
  const { seq, attempt } = job
  const error = storedFailure(failure)
  if (!failure.retryable || attempt >= job.maxAttempts || isNonRetryable(failure, terms))
    return { seq, attempt, kind: 'discard', error }
  const delayUs = retryDelayUs({ ...terms, attempts: 1 }, attempt, random)
  return { seq, attempt, kind: 'retry', delayUs, error: { ...error, retryDelayMs: Math.round(delayUs / 1000) } }
}

/** The same settlement, with a retry no sooner than after that time. */
export function notBefore(settlement: Settlement, delayUs: number): Settlement {
  if (settlement.kind !== 'retry' || settlement.delayUs >= delayUs) return settlement
  return { ...settlement, delayUs, error: { ...settlement.error, retryDelayMs: Math.round(delayUs / 1000) } }
}

/** The stored form of a failure. */
export function storedFailure({ code, message, type, details }: Failure): JobError {
  return {
    code,
    message: beginningOf(message, LONGEST_MESSAGE),
    ...(type !== undefined && { type }),
    ...(details !== undefined && { details }),
  }
}

/** A failure as an error, for callbacks and events. */
export function errorOf({ code, message }: JobError): Error {
  return new SluiceError('handler.failed', message, { cause: { code } })
}

function isNonRetryable({ code, type, details }: Failure, { nonRetryable }: RetryTerms): boolean {
  const names = [code, type, details?.['error_class']].filter((name) => typeof name === 'string')
  return nonRetryable.some((pattern) =>
    pattern.endsWith('.*') ? names.some((name) => name.startsWith(pattern.slice(0, -1))) : names.includes(pattern),
  )
}
