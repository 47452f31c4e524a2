import { type Clock, systemClock } from '../../base/clock.ts'
import type { BucketName } from '../contract/limiter.ts'
import { undefinedLimit } from './changes.ts'
import type { BucketCorrection } from './corrections.ts'
import type { Ledger, LedgerBucket } from './ledger.ts'

/** A step is waited for by later ones for so long: one that never ends must not hold up its bucket. */
const PATIENCE_MS = 1000

interface Waiting {
  readonly correction: BucketCorrection
  readonly resolve: (isNews: boolean) => void
  readonly reject: (error: unknown) => void
}

/**
 * Corrections where every change of a bucket is an update by its revision. Those of one bucket that come while a step
 * runs share the next one: each in a step of its own would be one more writer that the others lose to.
 */
export class MergedCorrections {
  readonly #step: <T>(name: BucketName, work: (ledger: Ledger) => T) => Promise<T>
  readonly #clock: Clock
  readonly #waiting = new Map<string, Waiting[]>()

  constructor(step: <T>(name: BucketName, work: (ledger: Ledger) => T) => Promise<T>, clock: Clock = systemClock) {
    this.#step = step
    this.#clock = clock
  }

  /** @returns whether the correction is a reason to tell */
  correct(name: BucketName, correction: BucketCorrection): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const id = `${name.limit}\0${name.key}`
      const waiting = this.#waiting.get(id)
      if (waiting) waiting.push({ correction, resolve, reject })
      else {
        this.#waiting.set(id, [{ correction, resolve, reject }])
        void this.#correctAll(id, name)
      }
    })
  }

  async #correctAll(id: string, name: BucketName): Promise<void> {
    // Those of this tick come along.
    await Promise.resolve()
    for (let all = this.#take(id); all.length > 0; all = this.#take(id)) {
      const step = this.#correct(name, all)
      await new Promise<void>((resolve) => {
        const timer = this.#clock.setTimer(resolve, PATIENCE_MS)
        void step.then(() => timer.cancel()).then(resolve)
      })
    }
    this.#waiting.delete(id)
  }

  /** Makes corrections in one step, and answers their callers. */
  async #correct(name: BucketName, all: readonly Waiting[]): Promise<void> {
    try {
      const news = await this.#step(name, (ledger) => {
        const bucket = ledger.bucket(name.limit, name.key)
        if (!bucket) throw undefinedLimit(name.limit)
        return all.map(({ correction }) => carriedOut(bucket, correction, ledger.nowUs))
      })
      for (const [i, { resolve, reject }] of all.entries()) {
        const done = news[i]
        if (typeof done === 'boolean') resolve(done)
        else reject(done?.refusal)
      }
    } catch (error) {
      for (const { reject } of all) reject(error)
    }
  }

  #take(id: string): Waiting[] {
    return this.#waiting.get(id)?.splice(0) ?? []
  }
}

/** Carries out one correction. A refused one changes nothing, and does not stop the others. */
function carriedOut(
  bucket: LedgerBucket,
  correction: BucketCorrection,
  nowUs: number,
): boolean | { readonly refusal: unknown } {
  try {
    const done = correction(bucket, nowUs)
    if (done !== 'no') bucket.changed = true
    return done === 'news'
  } catch (refusal) {
    return { refusal }
  }
}
