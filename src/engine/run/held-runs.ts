import type { GrantedJob } from '../../jobs/job.ts'
import type { Run } from '../../store/contract/store.ts'
import type { EndReason } from '../events/run-end.ts'

/** Of the runs whose settlement was given up the oldest are forgotten first: their leases are long over. */
const GIVEN_UP_AT_MOST = 10_000

/** A handler at work. */
export interface RunningCall {
  readonly job: GrantedJob
  /** Aborts the handler's signal; with `now`, does not wait for the handler. */
  abort(by: EndReason, now: boolean): void
}

/** The runs that this process holds, from their claim until they are settled. */
export class HeldRuns {
  /** Handlers that are running, by the `seq` of their jobs. */
  readonly calls: Map<number, RunningCall> = new Map()
  /** Runs that ended and could not be settled yet: their leases are extended too. */
  readonly unsettled: Set<GrantedJob> = new Set()
  readonly #held = new Set<GrantedJob>()
  /** Runs whose settlement was given up: they have cost their attempt, and wait for the end of their lease. */
  #givenUp: readonly Run[] = []
  #whenIdle: (() => void) | null = null

  add(job: GrantedJob): void {
    this.#held.add(job)
  }

  /** The run was settled, or given up. */
  remove(job: GrantedJob): void {
    this.#held.delete(job)
    if (this.#held.size === 0) this.#whenIdle?.()
  }

  /** The run could not be settled in time. */
  giveUp({ seq, attempt }: GrantedJob): void {
    this.#givenUp = [...this.#givenUp.slice(1 - GIVEN_UP_AT_MOST), { seq, attempt }]
  }

  /** Whether the handler of this run is still at work. */
  isRunning(job: GrantedJob): boolean {
    return this.calls.get(job.seq)?.job === job
  }

  /** All that this process answers for in the store. */
  get all(): readonly Run[] {
    return [...this.#held, ...this.#givenUp]
  }

  /** Runs whose leases are to be extended. */
  get leased(): readonly GrantedJob[] {
    return [...[...this.calls.values()].map((call) => call.job), ...this.unsettled]
  }

  /** Answers once nothing runs and nothing is being settled. */
  async idle(): Promise<void> {
    while (this.#held.size > 0)
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve
      })
  }
}
