/** Calls learn about their budgets: real costs, refusals, and the headers of answers. */
import type { Clock } from '../../base/clock.ts'
import { mayPass, type SluiceError } from '../../base/errors.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { RateLimited } from '../../jobs/rate-limited.ts'
import type { BucketName, BucketUse, LimitBackend } from '../contract/limiter.ts'
import type { LimiterLimits, Use } from './uses.ts'

// The code that reads answers is loaded with the first one, so that a limiter without them stays small.
const answers = async () => import('./answers.ts')

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

/** Waits for what a call tells a backend at its end. If the backend cannot be reached, the outcome of the call stands. */
export async function ifReached(told: Promise<void>): Promise<void> {
  await told.catch((error: SluiceError) => {
    if (!mayPass(error) && error.code !== 'limiter.closed') throw error
  })
}

/** Corrects buckets by what calls learn. */
export class Feedback {
  readonly options: FeedbackOptions
  readonly running: Set<Running> = new Set()

  constructor(options: FeedbackOptions) {
    this.options = options
  }

  begin(run: Running): void {
    this.running.add(run)
  }

  end(run: Running): void {
    this.running.delete(run)
  }

  /** A call was refused: its bucket closes. */
  async refused(run: Running, listed: readonly Use[], refusal: RateLimited): Promise<void> {
    await (await answers()).closeAfter(this, run, listed, refusal)
  }

  /** A call got an answer. @throws {SluiceError} `option.invalid` */
  async observe(run: Running, listed: readonly Use[], answer: Answer): Promise<void> {
    const nowMs = this.options.clock.now()
    await (await answers()).learnFrom(this, run, listed, answer, nowMs)
  }

  async penalize(bucket: BucketName, forUs: number): Promise<void> {
    const isNews = await this.options.call((backend) => backend.penalize(bucket, forUs))
    if (isNews) this.options.adjusted(bucket, forUs, null)
  }
}
