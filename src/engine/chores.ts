import type { Clock, Timer } from '../base/clock.ts'
import { isFinal } from '../base/errors.ts'
import { pauseAfter } from '../base/persist.ts'
import type { Trouble } from './trouble.ts'

/** A chore: what to do, how often, and what it is called when it fails. */
export interface Chore {
  readonly name: string
  readonly everyMs: number
  readonly work: () => Promise<void>
}

const FIRST_PAUSE_MS = 250

/** Does chores at their intervals, each never twice at once; one that fails is tried again sooner, with growing pauses. */
export class Chores {
  readonly #timers = new Map<Chore, Timer>()
  readonly #clock: Clock
  readonly #trouble: Trouble

  constructor(clock: Clock, trouble: Trouble, chores: readonly Chore[]) {
    this.#clock = clock
    this.#trouble = trouble
    for (const chore of chores) this.#later(chore, chore.everyMs)
  }

  stop(): void {
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }

  #later(chore: Chore, afterMs: number, failures = 0): void {
    this.#timers.set(
      chore,
      this.#clock.setTimer(() => void this.#now(chore, failures), afterMs),
    )
  }

  async #now(chore: Chore, failuresBefore: number): Promise<void> {
    const { name, everyMs } = chore
    let failures = 0
    try {
      await chore.work()
      this.#trouble.over(name)
    } catch (error) {
      failures = failuresBefore + 1
      this.#trouble.failed(name, error)
      if (isFinal(error)) this.#timers.delete(chore)
    }
    const afterMs = failures === 0 ? everyMs : Math.min(everyMs, pauseAfter(failures, FIRST_PAUSE_MS))
    if (this.#timers.has(chore)) this.#later(chore, afterMs, failures)
  }
}
