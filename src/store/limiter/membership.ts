import type { Clock, Timer } from '../../base/clock.ts'
import { Once } from '../../base/promises.ts'
import type { Store } from '../contract/store.ts'

/** A process that stops without leaving is forgotten after this time. */
export const LEASE_US = 30_000_000
const BEAT_MS = 5000
/** Calls that wait for a permit look this often at most for the lease that ends next. */
const LOOK_MS = 250
/** Cold buckets are pruned at every beat of so many. */
const PRUNED_EVERY = 12
const PRUNED_AT_ONCE = 1000

/** The parts of the membership of a process. */
export interface MembershipOptions {
  readonly store: Store
  readonly clock: Clock
  readonly queue: string
  /** No engine of this process keeps the store in order. */
  readonly alone: boolean
  /** A lane may start. */
  readonly woke: () => void
  /** Called at each beat. Answers whether a call waits. */
  readonly beat: () => Promise<boolean>
}

/** The registration of a process that takes budgets without jobs: others know that it lives, and wake it. */
export class Membership {
  readonly #options: MembershipOptions
  readonly #joining: Once<number>
  #worker: number | null = null
  #timer: Timer | null = null
  #looking: Timer | null = null
  #beats = 0
  #calls = 0
  /** It does not beat, since nothing happened: it holds nothing that others wait for. */
  #isIdle = false
  #left = false

  constructor(options: MembershipOptions) {
    this.#options = options
    this.#joining = new Once(async () => {
      const { store, queue } = options
      this.#worker = await store.join([queue], LEASE_US)
      this.#next(BEAT_MS)
      return this.#worker
    })
  }

  /** The number of this process as a worker. A call that waits keeps it: from now on the process beats. */
  join(): Promise<number> {
    this.begin()
    return this.#joining.done()
  }

  /** Lets others know that this process takes budgets, if they do not yet. A failure shows at the call itself. */
  begin(): void {
    this.#calls++
    if (this.#left) return
    if (this.#worker === null) this.#joining.done().catch(() => undefined)
    else if (this.#isIdle) {
      this.#isIdle = false
      void this.#beat()
    }
  }

  /** A call waits for a permit: the next beat comes when the lease ends that is over next, if that is sooner. */
  watch(): void {
    if (this.#left || this.#looking) return
    this.#looking = this.#options.clock.setTimer(() => {
      this.#looking = null
      this.#tidy().then(
        (delayMs) => delayMs < BEAT_MS && this.#next(delayMs),
        // The next beat tries again.
        () => undefined,
      )
    }, LOOK_MS)
    this.#looking.unref?.()
  }

  async leave(): Promise<void> {
    this.#left = true
    const stop = (): void => [this.#timer, this.#looking].forEach((timer) => timer?.cancel())
    stop()
    await this.#joining.settled()
    stop()
    if (this.#worker !== null) await this.#options.store.leave(this.#worker)
  }

  /** Returns what is over. Answers when to look again, in ms; Infinity: no lease is to end. */
  async #tidy(): Promise<number> {
    const { store, woke: wake } = this.#options
    const { woke, nextUs } = await store.budgets.tidy()
    if (woke) wake()
    return nextUs === null ? Infinity : Math.max(1, (nextUs - store.nowUs()) / 1000)
  }

  #next(delayMs: number): void {
    this.#timer?.cancel()
    if (this.#left) return
    this.#timer = this.#options.clock.setTimer(() => void this.#beat(), delayMs)
    this.#timer.unref?.()
  }

  async #beat(): Promise<void> {
    const { store, alone, beat } = this.#options
    let delayMs = BEAT_MS
    const calls = this.#calls
    try {
      if (this.#worker !== null) await store.heartbeat(this.#worker, [], LEASE_US)
      if (alone) await store.recover()
      const nextMs = await this.#tidy()
      delayMs = Math.min(BEAT_MS, nextMs)
      const waits = await beat()
      this.#isIdle = !waits && nextMs === Infinity && this.#calls === calls
      this.#beats++
      if (alone && this.#beats % PRUNED_EVERY === 0) while ((await store.prune(PRUNED_AT_ONCE)) >= PRUNED_AT_ONCE);
    } catch {
      // The store is away: the next beat tries again.
    }
    if (!this.#isIdle) this.#next(delayMs)
  }
}
