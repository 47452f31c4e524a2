import type { Clock, Timer } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'

/** A chore: what to do, how often, and what it is called when it fails. */
export interface Chore {
  readonly name: string
  readonly everyMs: number
  readonly work: () => Promise<void>
}

/** Does chores at their intervals, each never twice at once; one that fails is tried again at its next turn. */
export class Chores {
  readonly #timers = new Map<Chore, Timer>()
  readonly #clock: Clock
  readonly #logger: Logger

  constructor(clock: Clock, logger: Logger, chores: readonly Chore[]) {
    this.#clock = clock
    this.#logger = logger
    for (const chore of chores) this.#later(chore)
  }

  stop(): void {
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }

  #later(chore: Chore): void {
    this.#timers.set(
      chore,
      this.#clock.setTimer(() => void this.#now(chore), chore.everyMs),
    )
  }

  async #now(chore: Chore): Promise<void> {
    try {
      await chore.work()
    } catch (error) {
      this.#logger.error({ err: error }, `${chore.name} failed; it will be tried again`)
    }
    if (this.#timers.has(chore)) this.#later(chore)
  }
}
