import type { Clock } from '../../base/clock.ts'

/**
 * An estimate of the server's clock between two answers of it, for hints such as when to come again. Decisions go by the server's own
 * reading. It is late rather than early: an answer was read before it came, and who comes too early comes twice.
 */
export class StoreClock {
  readonly #clock: Clock
  #offsetUs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#offsetUs = wallOf(clock) - clock.monotonicUs()
  }

  /** The server has just been heard to say what time it is. */
  saw(nowUs: number): void {
    this.#offsetUs = nowUs - this.#clock.monotonicUs()
  }

  nowUs(): number {
    return this.#clock.monotonicUs() + this.#offsetUs
  }
}

/** A clock that a test gives to the server in place of its own: steady from the first store on, whatever the wall does. */
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
