import type { Clock } from '../../base/clock.ts'
import { persist } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { GrantedJob, SettleResult } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Dispatcher } from './dispatch.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Outcome } from './outcome.ts'

/** The parts that settle the runs of one worker. */
export interface SettleContext {
  readonly store: Store
  readonly clock: Clock
  readonly trouble: Trouble
  readonly worker: number
  readonly leaseUs: number
  readonly held: HeldRuns
  readonly dispatcher: Dispatcher
}

/**
 * A run that ended is settled while its lease holds, and for at least this time: if no other worker took the job, it
 * still counts.
 */
const SETTLES_FOR_MS = 120_000
const A_SETTLEMENT = 'the settlement of a run'

/**
 * Writes the outcome of a run, with retries while the store is in trouble. The lease guards it, so it counts once or
 * not at all. Returns null if it was abandoned.
 */
export async function settle(
  context: SettleContext,
  job: GrantedJob,
  { settlement }: Outcome,
): Promise<SettleResult | null> {
  const { clock, dispatcher, held, leaseUs, store, trouble, worker } = context
  const run = { ...settlement, startedUs: job.startedUs }
  try {
    const settled = await persist(
      clock,
      Math.max(leaseUs / 1000, SETTLES_FOR_MS),
      (again) => store.settle(worker, run, again),
      (error) => {
        // Its slot is taken until the run is settled.
        if (!held.unsettled.has(job)) dispatcher.hold(job.queue)
        held.unsettled.add(job)
        trouble.failed(A_SETTLEMENT, error)
      },
    )
    trouble.over(A_SETTLEMENT)
    return settled
  } catch (error) {
    held.giveUp(job)
    const about = { job: job.id, task: job.task }
    trouble.report('error', error, about, 'a run could not be settled; its lease will end and the job runs again')
    return null
  } finally {
    if (held.unsettled.delete(job)) dispatcher.finished(job.queue)
  }
}
