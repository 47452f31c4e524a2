import type { Context } from './context.ts'
import { depart } from './lanes.ts'
import { STATE } from '../shared/state.ts'

/** Cancels a job that has not started: the jobs behind it move up, and nothing is charged. */
export function cancelWaiting(
  context: Context,
  job: { readonly seq: number; readonly state: number; readonly lane: number },
  nowUs: number,
): void {
  context.db.run(
    `UPDATE jobs SET state = ${STATE.cancelled}, finished = ?, due = ? WHERE seq = ?`,
    nowUs,
    nowUs + context.retention.cancelledUs,
    job.seq,
  )
  if (job.state === STATE.available) depart(context, job.lane, job.seq, nowUs)
}
