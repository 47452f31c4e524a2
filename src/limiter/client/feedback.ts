/** Calls learn about their budgets: real costs, refusals, and the headers of answers. */
import type { Clock } from '../../base/clock.ts'
import { mayPass, SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { RateLimitDetails } from '../../jobs/rate-limit-headers.ts'
import type { RateLimited } from '../../jobs/rate-limited.ts'
import { isLimitUse, useOf } from '../../policy/limits/define.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { BucketName, BucketUse, LimitBackend } from '../contract/limiter.ts'
import type { LimiterLimits, Use } from './uses.ts'

/** The longest time for which an answer may close or bound a bucket. */
const LONGEST_US = 3_600_000_000

// The code that reads answers is loaded with the first one, so that a limiter without them stays small.
const headers = async () => import('../../jobs/rate-limit-headers.ts')
const refusals = async () => import('../../jobs/rate-limited.ts')

/** A start whose answer is awaited. */
export interface Running {
  readonly uses: readonly BucketUse[]
  /** The order of the starts in this process. */
  readonly seq: number
}

/** The parts of the feedback. */
export interface FeedbackOptions {
  readonly clock: Clock
  readonly limits: LimiterLimits
  readonly call: <T>(work: (backend: LimitBackend) => Promise<T>) => Promise<T>
  /** A bucket was closed or bounded by an answer. @param remaining null: it is closed */
  readonly adjusted: (bucket: BucketName, forUs: number, remaining: number | null) => void
}

/** Corrects buckets by what calls learn. */
export class Feedback {
  readonly #options: FeedbackOptions
  readonly #running = new Set<Running>()

  constructor(options: FeedbackOptions) {
    this.#options = options
  }

  begin(run: Running): void {
    this.#running.add(run)
  }

  end(run: Running): void {
    this.#running.delete(run)
  }

  /**
   * Closes the bucket that a refusal means: the one that it names, or else the first that the caller listed. While the
   * backend cannot be reached it does nothing: the refusal, or the answer, is what the caller has to get.
   */
  async refused({ uses }: Running, listed: readonly Use[], refusal: RateLimited): Promise<void> {
    const { limitName } = refusal
    const named = limitName === null ? this.#first(uses, listed) : uses.find(({ limit }) => limit === limitName)
    const limit = named?.limit ?? limitName
    const policy = limit === null ? null : this.#options.limits.policy(limit)
    if (limit === null || !policy) return
    const { intervalUs, periodUs } = paceOf(policy)
    const { keyOfRefusal, penaltyUs } = await refusals()
    const forUs = penaltyUs(refusal, { nowMs: this.#options.clock.now(), intervalUs, periodUs })
    const key = keyOfRefusal(refusal, 'a RateLimited') ?? named?.key ?? ''
    await ifReached(() => this.penalize({ limit, key }, forUs))
  }

  /** Buckets are sorted by name: the first of them may be any. */
  #first(uses: readonly BucketUse[], listed: readonly Use[]): BucketName | undefined {
    const [first] = Array.isArray(listed) ? (listed as readonly unknown[]) : []
    if (!isLimitUse(first)) return uses[0]
    const same = uses.filter(({ limit }) => limit === useOf(first).limit)
    return same.length > 1 ? this.#options.limits.one(first, 'limiter.run') : (same[0] ?? uses[0])
  }

  async penalize(bucket: BucketName, forUs: number): Promise<void> {
    const isNews = await this.#options.call((backend) => backend.penalize(bucket, forUs))
    if (isNews) this.#options.adjusted(bucket, forUs, null)
  }

  /**
   * Reads an answer: a refusal closes a bucket, and headers correct those of limits with `calibrate`.
   * @throws {SluiceError} `option.invalid`
   */
  async observe(run: Running, listed: readonly Use[], answer: Answer): Promise<void> {
    if (typeof answer !== 'object' || answer === null)
      throw new SluiceError('option.invalid', `The answer to observe is invalid: ${show(answer)}. Expected a response.`)
    const nowMs = this.#options.clock.now()
    const { isRefusal, readRateLimitHeaders } = await headers()
    const isRefused = isRefusal(answer)
    if (isRefused) await this.refused(run, listed, (await refusals()).RateLimited.from(answer, { now: nowMs }))
    for (const use of run.uses) {
      const policy = this.#options.limits.policy(use.limit)
      if (!policy?.calibrate) continue
      const { direction, reset, budget } = policy.calibrate
      const details = readRateLimitHeaders(answer.headers, nowMs, budget)
      const { remaining } = details
      if (remaining === undefined || (isRefused && remaining === 0)) continue
      const resetInUs = resetOf(details, nowMs) ?? paceOf(policy).periodUs
      const left = Math.max(0, remaining - this.#unseen(run, use))
      const report = { remaining: left, resetInUs: Math.min(resetInUs, LONGEST_US), direction, reset }
      const isNews = await ifReached(() => this.#options.call((backend) => backend.calibrate(use, report)))
      if (isNews) this.#options.adjusted(use, report.resetInUs, left)
    }
  }

  /** Units of later starts: the API may not have counted them when it answered. */
  #unseen(run: Running, { limit, key }: BucketName): number {
    let units = 0
    for (const other of this.#running) {
      if (other.seq <= run.seq) continue
      for (const use of other.uses) if (use.limit === limit && use.key === key) units += use.weight
    }
    return units
  }
}

/** The answer of a call; undefined if the backend cannot be reached, which its own event tells. */
async function ifReached<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (!mayPass(error)) throw error
    return undefined
  }
}

function resetOf({ reset }: RateLimitDetails, nowMs: number): number | null {
  if (reset === undefined || reset.kind === 'absent') return null
  return reset.kind === 'delay' ? reset.us : Math.ceil((reset.epochMs - nowMs) * 1000)
}
