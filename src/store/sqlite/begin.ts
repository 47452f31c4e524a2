import type { FlowJob } from '../../jobs/new-flow.ts'
import type { Context } from './context.ts'
import { type Placed, placeOf } from './enqueue.ts'
import { arrive } from './lanes.ts'
import { STATE } from '../shared/state.ts'
import type { Instant } from '../../jobs/series.ts'

/**
 * The stored plan of a pending job: all data of its lane, since the lane itself may be forgotten before the job starts.
 */
type Plan = Placed & { readonly delayUs: number | null }

/** The plan of a pending job. */
export function planOf({ job, delayUs }: FlowJob): string {
  const { id: _id, task: _task, input: _input, extra: _extra, unique: _unique, ...rest } = job
  const plan: Plan = { ...rest, delayUs }
  return JSON.stringify(plan)
}

/** Starts a pending job: it joins its lane, at its old place, or is scheduled. */
export function begin(context: Context, seq: number, planText: string, instant: Instant): void {
  const plan = JSON.parse(planText) as Plan
  context.policies.refresh()
  const { state, lane, level, due } = placeOf(context, plan, instant, plan.delayUs ?? 0)
  context.db.run(
    'UPDATE jobs SET state = ?, lane = ?, priority = ?, asked = ?, due = ?, since = ?, plan = NULL WHERE seq = ?',
    state,
    lane,
    level,
    level === plan.priority ? null : plan.priority,
    due,
    instant.nowUs,
    seq,
  )
  if (state === STATE.available) arrive(context, lane, level, seq, instant.nowUs, due !== null)
}
