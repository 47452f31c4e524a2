import type { Clock, Timer } from '../../../src/base/clock.ts'

const START_MS = Date.UTC(2026, 0, 1)
let boots = 0

/** A clock that a test sets by hand, to the microsecond; the wall clock can be stepped away from the steady one. */
export class VirtualClock implements Clock {
  readonly bootId: string = `virtual-${process.pid}-${++boots}`
  #steadyUs = 0
  #wallOffsetUs = START_MS * 1000

  now(): number {
    return (this.#steadyUs + this.#wallOffsetUs) / 1000
  }

  monotonicUs(): number {
    return this.#steadyUs
  }

  /** Nothing that the suites ask of a store waits for a timer. */
  setTimer(): Timer {
    return { cancel: () => undefined }
  }

  /** Sets the steady clock, and with it the wall, to so many µs after the start. */
  set(us: number): void {
    if (us < this.#steadyUs) throw new RangeError(`A steady clock does not go back from ${this.#steadyUs} to ${us}`)
    this.#steadyUs = us
  }

  /** Steps the wall clock alone, as a time correction does. */
  stepWall(byMs: number): void {
    this.#wallOffsetUs += byMs * 1000
  }
}
