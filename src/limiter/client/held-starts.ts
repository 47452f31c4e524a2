import type { Clock, Timer } from '../../base/clock.ts'
import { latenessOf } from '../../policy/limits/lateness.ts'
import { isStrict } from '../../policy/limits/limit.ts'
import type { BucketUse, Granted } from '../contract/limiter.ts'
import type { LimiterLimits } from './uses.ts'
import type { Waiter } from './waiter.ts'

/** The parts of held starts. */
export interface HeldStartsOptions {
  readonly clock: Clock
  readonly limits: LimiterLimits
  /** Gives back a grant that no caller uses. */
  readonly giveBack: (uses: readonly BucketUse[], granted: Granted) => Promise<void>
  /** Gives back a start that came too late, and lets its caller ask again after that. */
  readonly again: (waiter: Waiter, late: Granted) => void
}

/** Starts that were granted ahead: each caller gets its own at its instant. */
export class HeldStarts {
  readonly #options: HeldStartsOptions
  readonly #held = new Map<Waiter, readonly [Granted, Timer]>()

  constructor(options: HeldStartsOptions) {
    this.#options = options
  }

  /** Holds a grant until its instant. False: it has come. */
  hold(waiter: Waiter, granted: Granted): boolean {
    const { clock, limits } = this.#options
    const delayMs = (granted.startInUs ?? 0) / 1000
    if (delayMs <= 0) return false
    const policies = waiter.uses.flatMap(({ limit }) => limits.policy(limit) ?? [])
    const lateUs =
      clock.monotonicUs() + delayMs * 1000 + Math.min(...policies.map((policy) => latenessOf(policy, granted.atUs)))
    const begin = (): void => this.#begin(waiter, lateUs)
    const timer = (policies.some(isStrict) && clock.setFineTimer?.(begin, delayMs)) || clock.setTimer(begin, delayMs)
    this.#held.set(waiter, [granted, timer])
    return true
  }

  /** The start of a caller that has stopped waiting, which is to go back; null: none is held. */
  leave(waiter: Waiter): Granted | null {
    const [granted, timer] = this.#held.get(waiter) ?? []
    timer?.cancel()
    this.#held.delete(waiter)
    return granted ?? null
  }

  /** Refuses all callers, and gives their starts back. */
  end(error: Error): void {
    const { giveBack } = this.#options
    for (const [waiter, [granted, timer]] of this.#held) {
      timer.cancel()
      waiter.failed(error)
      void giveBack(waiter.uses, granted)
    }
    this.#held.clear()
  }

  /** @param lateUs the window does not bear a later start */
  #begin(waiter: Waiter, lateUs: number): void {
    const granted = this.leave(waiter)
    if (!granted) return
    if (this.#options.clock.monotonicUs() > lateUs) this.#options.again(waiter, granted)
    else waiter.granted(granted)
  }
}
