import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Dispatcher } from './dispatch.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Reporter } from './report.ts'

/** The worker's parts that keep leases. */
export interface LeasesOptions {
  readonly store: Store
  readonly clock: Clock
  readonly trouble: Trouble
  readonly worker: number
  readonly leaseUs: number
  readonly heartbeatMs: number
  readonly held: HeldRuns
  readonly dispatcher: Dispatcher
  readonly reporter: Reporter
  readonly wakeup: Wakeup
}

/** Longer than the longest pause between two tries of a heartbeat. */
const GRACE_US = 2_500_000
const CANCELLATIONS = 'the check for cancelled jobs'

/** Extends the leases of this process, aborts cancelled or lost runs, and recovers the lost jobs of other workers. */
export class Leases {
  readonly #options: LeasesOptions
  /** The last extension of leases, by the steady clock. */
  #beatenUs: number
  /**
   * No recovery before this instant: after trouble with the store, other workers may be about to extend their leases.
   */
  #graceUntilUs = 0

  constructor(options: LeasesOptions) {
    this.#options = options
    this.#beatenUs = options.clock.monotonicUs()
  }

  /** Extends the leases of all runs; aborts those that were cancelled or lost. */
  async beat(): Promise<void> {
    const { clock, dispatcher, held, leaseUs, store, worker } = this.#options
    dispatcher.check()
    const calls = new Map(held.calls)
    const { cancelled, lost } = await store.heartbeat(worker, held.leased, leaseUs)
    if (this.#isLate()) this.#graceUntilUs = clock.monotonicUs() + GRACE_US
    this.#beatenUs = clock.monotonicUs()
    // The process may run a later run of the same job now.
    const abort = (seq: number, by: 'cancel' | 'lease'): void => {
      const call = calls.get(seq)
      if (call && call === held.calls.get(seq)) call.abort(by, by === 'cancel')
    }
    for (const seq of cancelled) abort(seq, 'cancel')
    for (const seq of lost) abort(seq, 'lease')
  }

  /** Recovers the jobs of dead workers and of expired leases. */
  async recover(): Promise<void> {
    const { clock, reporter, store, wakeup } = this.#options
    if (this.#isLate())
      try {
        await this.beat()
      } catch (error) {
        if (mayPass(error)) throw error
      }
    if (clock.monotonicUs() < this.#graceUntilUs) return
    const recovered = await store.recover()
    reporter.recovered(recovered)
    if (recovered.length > 0) wakeup.notify('work')
  }

  /** Aborts the runs that a caller has cancelled. */
  async endCancelled(): Promise<void> {
    const { dispatcher, held, store, trouble, worker } = this.#options
    if (held.calls.size === 0 && !dispatcher.holds) return
    try {
      const cancelled = new Set(await store.cancellations(worker))
      for (const seq of cancelled) held.calls.get(seq)?.abort('cancel', true)
      await dispatcher.cancelHeld(({ seq }) => cancelled.has(seq))
      trouble.over(CANCELLATIONS)
    } catch (error) {
      trouble.failed(CANCELLATIONS, error)
    }
  }

  /** After trouble with the store, or a halt of this process, leases may have ended before their runs. */
  #isLate(): boolean {
    const { clock, heartbeatMs } = this.#options
    return clock.monotonicUs() - this.#beatenUs > 2000 * heartbeatMs
  }
}
