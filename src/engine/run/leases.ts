import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Dispatcher } from './dispatch.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Reporter } from './report.ts'

/** What keeping leases needs of a worker. */
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
const CANCELLATIONS = 'the look for cancelled jobs'

/** Extends the leases of this process, learns which of its runs have to end, and takes back what other workers lost. */
export class Leases {
  readonly #options: LeasesOptions
  /** When leases were extended last, by the steady clock. */
  #beatenUs: number
  /** Until then it takes nothing back: the store was in trouble, and other workers may be about to extend their leases. */
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
    // What runs now may be a later run of the same job.
    const abort = (seq: number, by: 'cancel' | 'lease'): void => {
      const call = calls.get(seq)
      if (call && call === held.calls.get(seq)) call.abort(by, by === 'cancel')
    }
    for (const seq of cancelled) abort(seq, 'cancel')
    for (const seq of lost) abort(seq, 'lease')
  }

  /** Takes back the jobs of dead workers and of leases that ran out. */
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

  /** Aborts the runs that somebody asked to cancel. */
  async endCancelled(): Promise<void> {
    const { held, store, trouble, worker } = this.#options
    if (held.calls.size === 0) return
    try {
      for (const seq of await store.cancellations(worker)) held.calls.get(seq)?.abort('cancel', true)
      trouble.over(CANCELLATIONS)
    } catch (error) {
      trouble.failed(CANCELLATIONS, error)
    }
  }

  /** After trouble with the store, or a halt of this process, leases may be over though their runs are not. */
  #isLate(): boolean {
    const { clock, heartbeatMs } = this.#options
    return clock.monotonicUs() - this.#beatenUs > 2000 * heartbeatMs
  }
}
