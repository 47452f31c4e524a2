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
/** An estimate is shown alone for this time, so that counting does not delay the answer that shows it. */
const ESTIMATE_US = 500_000
/** An older estimate is made again, unless the answer is on its way. */
const OLD_ESTIMATE_US = 10_000_000

/** An answer and its time. */
export interface Answered<T> {
  readonly value: T
  readonly at: Date
  /** False: asking is slow, so the answer is a little old. */
  readonly fresh: boolean
  /** True: asking is so slow that this is an estimate, which the answer follows. */
  readonly estimated: boolean
}

interface Last<T> {
  readonly value: T
  readonly at: Date
  readonly tookUs: number
  readonly atUs: number
}

/**
 * An answer of the store that takes longer the more jobs there are. All viewers share it. While a newer one is on its
 * way, they get the last one.
 */
export class Costly<T> {
  readonly #clock: Clock
  readonly #ask: () => Promise<T>
  readonly #estimate: () => Promise<T | null>
  #last: Last<T> | null = null
  #asking: Promise<T> | null = null
  #guess: Promise<Last<T> | null> | null = null

  /** @param estimate answers quickly while there is no answer to show; null: asking is quick, too; default: null */
  constructor(clock: Clock, ask: () => Promise<T>, estimate: () => Promise<T | null> = () => Promise.resolve(null)) {
    this.#clock = clock
    this.#ask = ask
    this.#estimate = estimate
  }

  /** The answer, now or a little old. */
  async get(): Promise<Answered<T>> {
    const last = this.#last
    const ageUs = last ? this.#ageUs(last) : Infinity
    if (last && last.tookUs > QUICK_US) {
      const keptUs = last.tookUs * (last.tookUs > SLOW_US ? SLOW_FACTOR : KEPT_FACTOR)
      if (ageUs >= keptUs && ageUs < STALE_FACTOR * keptUs) this.#refresh().catch(() => undefined)
      if (ageUs < STALE_FACTOR * keptUs) return { ...last, fresh: false, estimated: false }
    }
    const isQuick = last !== null && last.tookUs <= QUICK_US
    const guess = isQuick ? null : await this.#guessed()
    if (guess !== null) {
      if (this.#ageUs(guess) > ESTIMATE_US) this.#refresh().catch(() => undefined)
      return { ...guess, fresh: false, estimated: true }
    }
    const value = await this.#refresh()
    return { value, at: new Date(this.#clock.now()), fresh: true, estimated: false }
  }

  #refresh(): Promise<T> {
    this.#asking ??= this.#now().finally(() => (this.#asking = null))
    return this.#asking
  }

  #ageUs({ atUs }: Last<T>): number {
    return this.#clock.monotonicUs() - atUs
  }

  /** The estimate that all who ask share; null: asking is quick. */
  async #guessed(): Promise<Last<T> | null> {
    const guess = await (this.#guess ??= this.#guessNow())
    if (guess === null || this.#asking || this.#ageUs(guess) < OLD_ESTIMATE_US) return guess
    return (this.#guess = this.#guessNow())
  }

  async #guessNow(): Promise<Last<T> | null> {
    try {
      const value = await this.#estimate()
      return value === null
        ? null
        : { value, at: new Date(this.#clock.now()), tookUs: 0, atUs: this.#clock.monotonicUs() }
    } catch (error) {
      this.#guess = null
      throw error
    }
  }

  async #now(): Promise<T> {
    const beganUs = this.#clock.monotonicUs()
    const at = new Date(this.#clock.now())
    const value = await this.#ask()
    const atUs = this.#clock.monotonicUs()
    this.#guess = null
    this.#last = { value, at, tookUs: atUs - beganUs, atUs }
    return value
  }
}
