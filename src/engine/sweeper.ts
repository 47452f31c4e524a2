import type { Clock, Timer } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import type { Store } from '../store/store.ts'

/** What could not be ended is not tried again sooner. */
const SHORTEST_MS = 10

/** Ends runs whose lease or timeout is over at that instant, since no process here keeps an eye on them. */
export class Sweeper {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #sweep: (store: Store) => Promise<void>
  #timer: Timer | null = null
  #atUs = Infinity
  #sweeping: Promise<void> | null = null
  #stopped = false

  constructor(clock: Clock, logger: Logger, sweep: (store: Store) => Promise<void>) {
    this.#clock = clock
    this.#logger = logger
    this.#sweep = sweep
  }

  /** Sees to it that the next end is not missed. */
  async arm(store: Store): Promise<void> {
    if (this.#stopped) return
    const { nextUs } = await store.outside.overdue(1)
    if (this.#stopped || nextUs === null || nextUs >= this.#atUs) return
    this.#timer?.cancel()
    this.#atUs = nextUs
    const delayMs = Math.max(SHORTEST_MS, (nextUs - store.nowUs()) / 1000)
    this.#timer = this.#clock.setTimer(() => void this.now(store), delayMs)
  }

  /** Sweeps at once; a call during a sweep waits for that one. */
  now(store: Store): Promise<void> {
    this.#sweeping ??= this.#once(store).finally(() => {
      this.#sweeping = null
    })
    return this.#sweeping
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  async #once(store: Store): Promise<void> {
    this.#atUs = Infinity
    this.#timer?.cancel()
    try {
      await this.#sweep(store)
    } catch (error) {
      this.#logger.error({ err: error }, 'runs whose time is over could not be ended; it will be tried again')
    }
    if (!this.#stopped) await this.arm(store)
  }
}
