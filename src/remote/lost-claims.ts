import type { Clock, Timer } from '../base/clock.ts'
import { isFinal } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { pauseAfter } from '../base/persist.ts'
import type { Wakeup } from '../engine/events/wakeup.ts'
import type { RemoteClaim, Store } from '../store/contract/store.ts'

/** What giving lost claims back needs. */
export interface LostClaimsHooks {
  readonly clock: Clock
  readonly logger: Logger
  readonly wakeup: Wakeup
}

interface Lost extends RemoteClaim {
  /** The store has taken back by itself, at this instant of the steady clock, what the claim took. */
  readonly untilUs: number
}

const FIRST_PAUSE_MS = 50
/** Jobs may have longer leases than the claim: it is asked for no shorter than this. */
const LEAST_US = 60_000_000
/** So many are remembered; those behind them wait for their leases. */
const REMEMBERED = 10_000

/**
 * Remote claims that failed, and that the store may have written all the same: no worker knows of their jobs. What they took is given
 * back, at once and again until their leases are over, since a server may write a claim long after it has failed here. One call asks for all.
 */
export class LostClaims {
  readonly #hooks: LostClaimsHooks
  readonly #lost = new Map<string, Lost>()
  #store: Store | null = null
  #timer: Timer | null = null
  #asked = 0
  #asking = false
  #stopped = false

  constructor(hooks: LostClaimsHooks) {
    this.#hooks = hooks
  }

  /** A claim has failed. */
  add(store: Store, worker: number, claimId: string, leaseUs: number): void {
    if (this.#stopped || this.#lost.size >= REMEMBERED) return
    const untilUs = this.#hooks.clock.monotonicUs() + Math.max(leaseUs, LEAST_US)
    this.#lost.set(claimId, { worker, claimId, untilUs })
    this.#store = store
    this.#asked = 0
    if (!this.#asking) void this.#ask()
  }

  /** Before a worker claims again: what its failed claims have taken is there for it. @throws as the store does */
  async settle(worker: number): Promise<void> {
    if (this.#lost.size === 0) return
    await this.#giveBack([...this.#lost.values()].filter((lost) => lost.worker === worker))
  }

  /** Asks no more: what is still to be given back waits for its lease. */
  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#lost.clear()
  }

  async #ask(): Promise<void> {
    const { clock } = this.#hooks
    this.#asking = true
    this.#timer?.cancel()
    const asked = [...this.#lost.values()]
    try {
      await this.#giveBack(asked)
    } catch (error) {
      // The claims have told of the store's trouble.
      if (isFinal(error)) this.#lost.clear()
    }
    this.#asking = false
    const nowUs = clock.monotonicUs()
    for (const { claimId, untilUs } of asked) if (untilUs <= nowUs) this.#lost.delete(claimId)
    if (this.#stopped || this.#lost.size === 0) return
    this.#timer = clock.setTimer(() => void this.#ask(), pauseAfter(++this.#asked, FIRST_PAUSE_MS))
    this.#timer.unref?.()
  }

  async #giveBack(claims: readonly Lost[]): Promise<void> {
    if (!this.#store || claims.length === 0) return
    const { jobs, claimIds } = await this.#store.releaseClaims(claims)
    // A claim is written once.
    for (const claimId of claimIds) this.#lost.delete(claimId)
    if (jobs === 0) return
    this.#hooks.logger.warn({ jobs }, 'jobs of a fetch whose answer was lost were given back; they never started')
    this.#hooks.wakeup.notify('work')
    this.#hooks.wakeup.notify('delayed')
  }
}
