import type { Clock } from '../../base/clock.ts'
import { persist } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { GrantedJob, SettleResult } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Dispatcher } from './dispatch.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Outcome } from './outcome.ts'

/** Where the runs of one worker are settled. */
export interface SettleContext {
  readonly store: Store
  readonly clock: Clock
  readonly trouble: Trouble
  readonly worker: number
  readonly leaseUs: number
  readonly held: HeldRuns
  readonly dispatcher: Dispatcher
}

/** A run that ended is settled as long as its lease holds, and for so long at least: if no other worker took the job, it still counts. */
const SETTLES_FOR_MS = 120_000
const A_SETTLEMENT = 'the settlement of a run'

/**
 * Writes the outcome of a run, again as long as the store is in trouble: guarded by its lease, it counts once or not at all. Answers null
 * when it was given up.
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
