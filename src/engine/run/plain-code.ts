import type { Clock } from '../../base/clock.ts'
import { Once } from '../../base/promises.ts'
import type { Changing } from '../../jobs/hold.ts'
import type { Limiter } from '../../limiter/client/limiter.ts'
import { failModeOf } from '../../limiter/client/options.ts'
import type { Use } from '../../limiter/client/uses.ts'
import type { LimitBackend } from '../../limiter/contract/limiter.ts'
import { isLimitUse, useOf } from '../../policy/limits/define.ts'
import type { StoreLimiter } from '../../store/limiter/store-limiter.ts'
import type { Store } from '../../store/contract/store.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Reporter } from './report.ts'

/** The engine's parts that plain code uses. */
export interface PlainCodeOptions {
  readonly clock: Clock
  readonly limits: LimitRegistry
  readonly wakeup: Wakeup
  readonly aheadUs?: number | undefined
  /** Runs a change of limits, before which the granted starts of jobs that use them go back. */
  readonly changing: Changing
  /** Opens the store, or throws `engine.stopped`. */
  readonly open: () => Promise<{ readonly store: Store; readonly reporter: Reporter }>
}

/** As a limiter has by default. */
const MOST_WAITING = 10_000
const LEASE_US = 30_000_000

/** Plain code that shares the budgets of an engine's jobs. Its parts are loaded by their first use. */
export class PlainCode {
  readonly #options: PlainCodeOptions
  readonly #backend: Once<LimitBackend>
  readonly #limiter: Once<Limiter>
  #loading = 0
  #used: StoreLimiter | null = null
  readonly #detach: (() => void) | undefined

  constructor(options: PlainCodeOptions) {
    this.#options = options
    this.#backend = new Once(() => this.#load(() => this.#open()))
    this.#limiter = new Once(() => this.#load(() => this.#create()))
    this.#detach = options.clock.attach?.({ pending: () => this.#loading > 0, running: () => 0 })
  }

  /** The store's budgets as a backend of limits, under the names that the store knows. */
  backend(): Promise<LimitBackend> {
    return this.#backend.done()
  }

  /** The limiter of this engine. A limit that it does not know yet is defined by this use. */
  async limiter(uses: readonly Use[]): Promise<Limiter> {
    const { limits, open } = this.#options
    if (Array.isArray(uses))
      for (const use of uses as readonly unknown[]) if (isLimitUse(use)) limits.add(useOf(use), 'sluice.limits')
    const limiter = await this.#limiter.done()
    if (!limits.isStored) await this.#load(async () => limits.store((await open()).store))
    return limiter
  }

  /** Runs a change of limits, before which the granted starts of calls that use them go back. */
  readonly changing: Changing = (uses, change) => this.#used?.changing(uses, change) ?? change()

  /** Refuses all that wait, and returns all permits. */
  async close(): Promise<void> {
    this.#detach?.()
    if (!this.#used) return
    await this.#limiter.settled()
    await this.#backend.settled()
    await (await this.#limiter.done()).close()
  }

  async #open(): Promise<LimitBackend> {
    const { StoreLimiter } = await import('../../store/limiter/store-limiter.ts')
    const { aheadUs, changing, clock, open, wakeup } = this.#options
    const { store, reporter } = await open()
    return (this.#used = new StoreLimiter({
      store,
      clock,
      aheadUs,
      engine: {
        claimed: (claim) => reporter.claimed(claim),
        changing,
        changed: () => wakeup.notify('work'),
        subscribe: (listener) => wakeup.subscribe((reason) => (reason === 'storing' ? undefined : listener())),
      },
    }))
  }

  async #create(): Promise<Limiter> {
    const { Limiter: Made } = await import('../../limiter/client/limiter.ts')
    const backend = await this.#backend.done()
    const options = {
      backend,
      limits: [],
      adopts: true as const,
      namespace: null,
      maxWaiting: MOST_WAITING,
      leaseUs: LEASE_US,
      failMode: failModeOf(),
      clock: this.#options.clock,
    }
    return new Made(options, { isLocal: true, hasWaitLists: true, load: async () => backend })
  }

  /** A manual clock stands still meanwhile. */
  async #load<T>(work: () => Promise<T>): Promise<T> {
    this.#loading++
    try {
      return await work()
    } finally {
      this.#loading--
    }
  }
}
