import type { Clock, Timer } from '../base/clock.ts'
import { isFinal } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { pauseAfter } from '../base/persist.ts'
import type { Wakeup } from '../engine/events/wakeup.ts'
import type { RemoteClaim } from '../store/contract/remote-claims.ts'
import type { Store } from '../store/contract/store.ts'

/** The engine's parts that the return of lost claims uses. */
export interface LostClaimsHooks {
  readonly clock: Clock
  readonly logger: Logger
  readonly wakeup: Wakeup
}

interface Lost extends RemoteClaim {
  /** The store has taken the jobs back by itself at this instant, by the steady clock. */
  readonly untilUs: number
}

const FIRST_PAUSE_MS = 50
/** The shortest time during which a claim is checked, since its jobs may have longer leases than the claim. */
const LEAST_US = 60_000_000
/** The most claims kept in memory. Jobs of further ones wait until their leases end. */
const REMEMBERED = 10_000

/**
 * Remote claims that failed here, but that the store may have written: no worker knows their jobs. This class gives
 * those jobs back, at once and again until their leases end, since a server may write a claim long after its failure.
 * One call covers all claims.
 */
export class LostClaims {
  readonly #hooks: LostClaimsHooks
  readonly #lost = new Map<string, Lost>()
  #store: Store | null = null
  #timer: Timer | null = null
  #tries = 0
  #asking = false
  #stopped = false

  constructor(hooks: LostClaimsHooks) {
    this.#hooks = hooks
  }

  /** Adds a claim that failed. */
  add(store: Store, worker: number, claimId: string, leaseUs: number): void {
    if (this.#stopped || this.#lost.size >= REMEMBERED) return
    const untilUs = this.#hooks.clock.monotonicUs() + Math.max(leaseUs, LEAST_US)
    this.#lost.set(claimId, { worker, claimId, untilUs })
    this.#store = store
    this.#tries = 0
    if (!this.#asking) void this.#ask()
  }

  /**
   * Gives back the jobs of a worker's failed claims before it claims again. @throws {SluiceError} the codes of the
   * store
   */
  async settle(worker: number): Promise<void> {
    if (this.#lost.size === 0) return
    await this.#giveBack([...this.#lost.values()].filter((lost) => lost.worker === worker))
  }

  /** Stops asking. Jobs not yet given back wait until their leases end. */
  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    this.#lost.clear()
  }

  async #ask(): Promise<void> {
    const { clock } = this.#hooks
    this.#asking = true
    this.#timer?.cancel()
    const claims = [...this.#lost.values()]
    try {
      await this.#giveBack(claims)
    } catch (error) {
      // The claims have already reported the store's trouble.
      if (isFinal(error)) this.#lost.clear()
    }
    this.#asking = false
    const nowUs = clock.monotonicUs()
    for (const { claimId, untilUs } of claims) if (untilUs <= nowUs) this.#lost.delete(claimId)
    if (this.#stopped || this.#lost.size === 0) return
    this.#timer = clock.setTimer(() => void this.#ask(), pauseAfter(++this.#tries, FIRST_PAUSE_MS))
    this.#timer.unref?.()
  }

  async #giveBack(claims: readonly Lost[]): Promise<void> {
    if (!this.#store || claims.length === 0) return
    const { jobs, claimIds } = await this.#store.releaseClaims(claims)
    // A claim is written once only.
    for (const claimId of claimIds) this.#lost.delete(claimId)
    if (jobs === 0) return
    this.#hooks.logger.warn({ jobs }, 'jobs of a fetch with a lost answer were given back; they never started')
    this.#hooks.wakeup.notify('work')
    this.#hooks.wakeup.notify('delayed')
  }
}
