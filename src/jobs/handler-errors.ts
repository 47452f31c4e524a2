import { SluiceError } from '../base/errors.ts'
import type { LimitPolicy } from '../policy/limits/limit.ts'

/** Thrown by a handler when another attempt cannot help. The job is discarded at once, despite its retry policy. */
export class NonRetryable extends SluiceError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('handler.nonretryable', message, typeof options === 'object' && options !== null ? options : {})
    this.name = 'NonRetryable'
  }
}

/** A limit would not let the job start in time: it is discarded, nothing was charged. Given to `onError`. */
export class RateLimitRejected extends SluiceError {
  readonly limit: string
  /** The partition key; null for a limit without keys. */
  readonly key: string | null
  /** When the job could have started; null if a permit had to return first. */
  readonly expectedStart: Date | null

  /** The limit's policy in this engine; null if the engine does not define the limit. */
  readonly policy: LimitPolicy | null

  constructor(limit: string, key: string, expectedStart: Date | null, policy: LimitPolicy | null = null) {
    const of = key === '' ? `limit ${limit}` : `limit ${limit} for ${key}`
    super(
      'limit.rejected',
      `The ${of} could not let the job start in time${expectedStart ? `: it would have started at ${expectedStart.toISOString()}` : ''}.`,
    )
    this.name = 'RateLimitRejected'
    this.limit = limit
    this.key = key === '' ? null : key
    this.expectedStart = expectedStart
    this.policy = policy
  }
}
