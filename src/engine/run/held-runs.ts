import { PassingMap } from '../../base/passing-map.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Run } from '../../store/contract/store.ts'
import type { EndReason } from '../events/instrumentation.ts'

/** The most abandoned settlements kept. The oldest go first, since their leases ended long ago. */
const GIVEN_UP_AT_MOST = 10_000

/** A running handler. */
export interface RunningCall {
  readonly job: GrantedJob
  /** Aborts the handler's signal; with `now`, does not wait for the handler. */
  abort(by: EndReason, now: boolean): void
}

/** The runs that this process holds, from their claim until they are settled. */
export class HeldRuns {
  /** Running handlers, by the `seq` of their jobs. */
  readonly calls: PassingMap<number, RunningCall> = new PassingMap()
  /** Runs that ended and could not be settled yet: their leases are extended too. */
  readonly unsettled: Set<GrantedJob> = new Set()
  readonly #held = new PassingMap<GrantedJob, GrantedJob>()
  /** Runs with an abandoned settlement: they have used their attempt, and wait for the end of their lease. */
  #givenUp: readonly Run[] = []
  #whenIdle: (() => void) | null = null

  add(job: GrantedJob): void {
    this.#held.set(job, job)
  }

  /** A handler begins. An earlier run of the same job that is still at work has lost its lease. */
  begin(call: RunningCall): void {
    const { seq } = call.job
    this.calls.get(seq)?.abort('lease', false)
    this.calls.set(seq, call)
  }

  /** A handler has ended. */
  end({ job }: RunningCall): void {
    if (this.isRunning(job)) this.calls.delete(job.seq)
  }

  /** Removes a run that was settled or abandoned. */
  remove(job: GrantedJob): void {
    this.#held.delete(job)
    if (this.#held.size === 0) this.#whenIdle?.()
  }

  /** Keeps a run that could not be settled in time. */
  giveUp({ seq, attempt }: GrantedJob): void {
    this.#givenUp = [...this.#givenUp.slice(1 - GIVEN_UP_AT_MOST), { seq, attempt }]
  }

  /** Returns whether the handler of this run still runs. */
  isRunning(job: GrantedJob): boolean {
    return this.calls.get(job.seq)?.job === job
  }

  /** All runs that this process holds in the store. */
  get all(): readonly Run[] {
    return [...this.#held.values(), ...this.#givenUp]
  }

  /** Runs whose leases need extending. */
  get leased(): readonly GrantedJob[] {
    return [...[...this.calls.values()].map((call) => call.job), ...this.unsettled]
  }

  /** Resolves once no run is active or being settled. */
  async idle(): Promise<void> {
    while (this.#held.size > 0)
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve
      })
  }
}
