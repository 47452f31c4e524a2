import type { Clock } from '../../base/clock.ts'

/**
 * An estimate of the server's clock between two answers, for hints such as the time of the next claim. Decisions use
 * the server's own reading. The estimate is late rather than early, since an answer was read before it arrived: an
 * early claim would have to come twice.
 */
export class StoreClock {
  readonly #clock: Clock
  #offsetUs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offsetUs = wallOf(clock) - clock.monotonicUs()
  }

  /** Records a reading of the server's clock. */
  saw(nowUs: number): void {
    this.#offsetUs = nowUs - this.#clock.monotonicUs()
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
