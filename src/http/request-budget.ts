import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { type BucketState, charge, deniedUntil, newBucket, view } from '../policy/limits/bucket.ts'
import type { LimitPolicy } from '../policy/limits/limit.ts'
import { normalisePolicy } from '../policy/limits/normalise.ts'
import type { Policy } from '../policy/limits/policy.ts'
import type { Access } from './access.ts'
import { Refusal } from './refusal.ts'

/** The request budget of each token on this process. All callers without tokens share one. */
export class RequestBudget {
  readonly #policy: LimitPolicy
  readonly #clock: Clock
  readonly #buckets = new WeakMap<Access, BucketState>()

  /** @throws {SluiceError} `policy.invalid` */
  constructor(policy: Policy | string, clock: Clock) {
    this.#policy = normalisePolicy(policy, 'the requests of a token')
    if (!this.#policy.rule || this.#policy.concurrency !== null)
      throw new SluiceError(
        'policy.invalid',
        'The limit on requests is invalid: it has concurrency. Expected a rate, a window or a spacing.',
      )
    this.#clock = clock
  }

  /** Takes one request out of a token's budget. Returns the headers with the remaining budget. @throws {Refusal} 429 */
  take(access: Access): Record<string, string> {
    const nowUs = this.#clock.monotonicUs()
    const bucket = this.#buckets.get(access) ?? newBucket(this.#policy, nowUs)
    this.#buckets.set(access, bucket)
    const untilUs = deniedUntil(this.#policy, bucket, 0, nowUs, 1)
    if (untilUs === null) charge(this.#policy, bucket, nowUs, 1)
    const headers = this.#headers(bucket, nowUs, untilUs)
    if (untilUs === null) return headers
    throw new Refusal(429, 'rate_limited', 'The token has used up its request budget.', {
      retryable: true,
      headers: { ...headers, 'Retry-After': String(Math.max(1, Math.ceil((untilUs - nowUs) / 1e6))) },
    })
  }

  #headers(bucket: BucketState, nowUs: number, untilUs: number | null): Record<string, string> {
    const { available, capacity } = view(this.#policy, bucket, 0, nowUs)
    return {
      'X-RateLimit-Limit': String(capacity),
      'X-RateLimit-Remaining': String(available),
      'X-RateLimit-Reset': String(Math.ceil((this.#clock.now() + ((untilUs ?? nowUs) - nowUs) / 1000) / 1000)),
    }
  }
}
