import type { Clock } from '../../base/clock.ts'

/** How fast two clocks may drift apart, in µs per µs. */
const DRIFT = 0.0002
/** How late an answer is thought to be, at most. A reading further behind means that the server's clock was set back. */
const LATE_AT_MOST_US = 20_000

/**
 * An estimate of the server's clock between two answers, for the time of the next claim and for the instants of starts
 * that were granted ahead. Decisions use the server's own reading. The estimate is late rather than early, since an
 * answer was read before it arrived. So the greatest difference of the clocks that was heard is the nearest. It ages
 * beside newer ones, since the clocks may drift.
 */
export class StoreClock {
  readonly #clock: Clock
  #offsetUs: number
  /** When it was heard, on the steady clock; null: the wall clock stands in until the first answer. */
  #heardUs: number | null = null

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offsetUs = wallOf(clock) - clock.monotonicUs()
  }

  /** The id of the host's boot. */
  get bootId(): string {
    return this.#clock.bootId
  }

  /** Records a reading of the server's clock. */
  saw(nowUs: number): void {
    const steadyUs = this.#clock.monotonicUs()
    const agedUs = this.#heardUs === null ? 0 : (steadyUs - this.#heardUs) * DRIFT
    const behindUs = this.nowUs() - agedUs - nowUs
    if (this.#heardUs !== null && behindUs > 0 && behindUs < LATE_AT_MOST_US) return
    this.#offsetUs = nowUs - steadyUs
    this.#heardUs = steadyUs
  }

  nowUs(): number {
    return this.#clock.monotonicUs() + this.#offsetUs
  }
}

/** A test's clock that replaces the server's: steady from the first store on, whichever way the wall clock steps. */
export class TestClock {
  readonly #clock: Clock
  readonly #offsetUs: number

  constructor(clock: Clock, offsetUs: number) {
    this.#clock = clock
    this.#offsetUs = offsetUs
  }

  read(): readonly [nowUs: number, wallUs: number] {
    return [this.#clock.monotonicUs() + this.#offsetUs, wallOf(this.#clock)]
  }
}

/** The wall clock in whole µs. */
export function wallOf(clock: Clock): number {
  return Math.round(clock.now() * 1000)
}
