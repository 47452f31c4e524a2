/** What calls learn about their budgets: real costs, refusals, and the headers of answers. */
import type { Clock } from '../../base/clock.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { RateLimitDetails } from '../../jobs/rate-limit-headers.ts'
import type { RateLimited } from '../../jobs/rate-limited.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { BucketName, BucketUse, LimitBackend } from '../contract/limiter.ts'
import type { LimiterLimits } from './uses.ts'

/** The longest time for which an answer may close or bound a bucket. */
const LONGEST_US = 3_600_000_000

// What reads answers is loaded with the first one, so that a limiter without them stays small.
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

  /** Closes the bucket that a refusal means: the one that it names, or else the first. */
  async refused(uses: readonly BucketUse[], refusal: RateLimited): Promise<void> {
    const { limitName, key } = refusal
    const named = limitName === null ? uses[0] : uses.find(({ limit }) => limit === limitName)
    const limit = named?.limit ?? limitName
    const policy = limit === null ? null : this.#options.limits.policy(limit)
    if (limit === null || !policy) return
    const { intervalUs, periodUs } = paceOf(policy)
    const { penaltyUs } = await refusals()
    const forUs = penaltyUs(refusal, { nowMs: this.#options.clock.now(), intervalUs, periodUs })
    await this.penalize({ limit, key: key === null ? (named?.key ?? '') : String(key) }, forUs)
  }

  async penalize(bucket: BucketName, forUs: number): Promise<void> {
    const isNews = await this.#options.call((backend) => backend.penalize(bucket, forUs))
    if (isNews) this.#options.adjusted(bucket, forUs, null)
  }

  /** Reads an answer: a refusal closes a bucket, and headers correct those of limits with `calibrate`. */
  async observe(run: Running, answer: Answer): Promise<void> {
    const nowMs = this.#options.clock.now()
    const { isRefusal, readRateLimitHeaders } = await headers()
    const isRefused = isRefusal(answer)
    if (isRefused) await this.refused(run.uses, (await refusals()).RateLimited.from(answer, { now: nowMs }))
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
      const isNews = await this.#options.call((backend) => backend.calibrate(use, report))
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

function resetOf({ reset }: RateLimitDetails, nowMs: number): number | null {
  if (reset === undefined || reset.kind === 'absent') return null
  return reset.kind === 'delay' ? reset.us : Math.ceil((reset.epochMs - nowMs) * 1000)
}
