import type { Clock } from './clock.ts'

/** An answer that took at most this time is never kept. */
const QUICK_US = 20_000
/** A slower one is kept for this many times its duration, so that asking takes at most a tenth of the time. */
const KEPT_FACTOR = 9
/** Of answers that take longer than this, asking takes at most a fiftieth of the time. */
const SLOW_US = 100_000
const SLOW_FACTOR = 49
/** An answer that has been kept this many times as long as it should is not shown any more. */
const STALE_FACTOR = 20

/** An answer and its time. */
export interface Answered<T> {
  readonly value: T
  readonly at: Date
  /** False: asking is slow, so the answer is a little old. */
  readonly fresh: boolean
}

/**
 * An answer of the store that takes longer the more jobs there are. All viewers share it. While a newer one is on its
 * way, they get the last one.
 */
export class Costly<T> {
  readonly #clock: Clock
  readonly #ask: () => Promise<T>
  #last: { readonly value: T; readonly at: Date; readonly tookUs: number; readonly atUs: number } | null = null
  #asking: Promise<T> | null = null

  constructor(clock: Clock, ask: () => Promise<T>) {
    this.#clock = clock
    this.#ask = ask
  }

  /** The answer, now or a little old. */
  async get(): Promise<Answered<T>> {
    const last = this.#last
    const ageUs = last ? this.#clock.monotonicUs() - last.atUs : Infinity
    if (last && last.tookUs > QUICK_US) {
      const keptUs = last.tookUs * (last.tookUs > SLOW_US ? SLOW_FACTOR : KEPT_FACTOR)
      if (ageUs < keptUs) return { ...last, fresh: false }
      if (ageUs < STALE_FACTOR * keptUs) {
        this.#refresh().catch(() => undefined)
        return { ...last, fresh: false }
      }
    }
    const value = await this.#refresh()
    return { value, at: new Date(this.#clock.now()), fresh: true }
  }

  #refresh(): Promise<T> {
    this.#asking ??= this.#now().finally(() => (this.#asking = null))
    return this.#asking
  }

  async #now(): Promise<T> {
    const beganUs = this.#clock.monotonicUs()
    const at = new Date(this.#clock.now())
    const value = await this.#ask()
    const atUs = this.#clock.monotonicUs()
    this.#last = { value, at, tookUs: atUs - beganUs, atUs }
    return value
  }
}
