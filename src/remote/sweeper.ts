import type { Clock, Timer } from '../base/clock.ts'
import { isFinal } from '../base/errors.ts'
import type { Store } from '../store/contract/store.ts'
import type { Trouble } from '../base/trouble.ts'

/** What could not be ended is not tried again sooner. */
const SHORTEST_MS = 10
/** A store that cannot be asked now is asked again so soon. */
const AGAIN_MS = 1000
const A_SWEEP = 'the end of runs whose time is over'
const LOOK_EVERY_US = 5_000_000

/** Ends runs whose lease or timeout is over at that instant, since no process here keeps an eye on them. */
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

  /** Sees to it that the next end is not missed, nor for long one of a run that another process hands out meanwhile, which may die. */
  async arm(store: Store): Promise<void> {
    if (this.#stopped) return
    const { nextUs } = await store.overdueRuns(1)
    this.armAt(store, Math.min(nextUs ?? Infinity, store.nowUs() + LOOK_EVERY_US))
  }

  /** Sees to it that an end at this instant of the store's clock is not missed. */
  armAt(store: Store, nextUs: number): void {
    if (this.#stopped || nextUs >= this.#atUs) return
    this.#atUs = nextUs
    this.#sweepIn(store, Math.max(SHORTEST_MS, (nextUs - store.nowUs()) / 1000))
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
