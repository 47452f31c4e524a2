import type { Clock, Timer } from '../base/clock.ts'
import { isFinal } from '../base/errors.ts'
import type { Store } from '../store/contract/store.ts'
import type { Trouble } from '../base/trouble.ts'

/** A run that could not be ended is tried again after at least this time. */
const SHORTEST_MS = 10
/** A store that does not answer is asked again after this time. */
const AGAIN_MS = 1000
const A_SWEEP = 'the end of overdue runs'
const LOOK_EVERY_US = 5_000_000

/** Ends runs at the instant at which their lease or timeout ends, since no process here watches them. */
export class Sweeper {
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #sweep: (store: Store) => Promise<void>
  #timer: Timer | null = null
  #atUs = Infinity
  #sweeping: Promise<void> | null = null
  #stopped = false

  constructor(clock: Clock, trouble: Trouble, sweep: (store: Store) => Promise<void>) {
    this.#clock = clock
    this.#trouble = trouble
    this.#sweep = sweep
  }

  /**
   * Schedules the next sweep. It also covers a run that another process hands out meanwhile, since that process may
   * die.
   */
  async arm(store: Store): Promise<void> {
    if (this.#stopped) return
    const { nextUs } = await store.overdueRuns(1)
    this.armAt(store, Math.min(nextUs ?? Infinity, store.nowUs() + LOOK_EVERY_US))
  }

  /** Schedules a sweep at this instant of the store's clock. */
  armAt(store: Store, nextUs: number): void {
    if (this.#stopped || nextUs >= this.#atUs) return
    this.#atUs = nextUs
    this.#sweepIn(store, Math.max(SHORTEST_MS, (nextUs - store.nowUs()) / 1000))
  }

  /** Sweeps at once. A call during a sweep waits for that sweep. */
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
      await this.arm(store)
      this.#trouble.over(A_SWEEP)
    } catch (error) {
      this.#trouble.failed(A_SWEEP, error)
      if (!isFinal(error)) this.#sweepIn(store, AGAIN_MS)
    }
  }

  #sweepIn(store: Store, delayMs: number): void {
    this.#timer?.cancel()
    if (!this.#stopped) this.#timer = this.#clock.setTimer(() => void this.now(store), delayMs)
  }
}
