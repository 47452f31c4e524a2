import type { CancelAnswer } from '../store.ts'
import type { Context } from './context.ts'
import { depart } from './lanes.ts'
import { STATE, stateName } from './state.ts'

/** Ends a job that has not started at once; an active one is marked, and ends when its handler does. */
export function cancel(context: Context, id: string): CancelAnswer {
  const row = context.db.get<[number, number, number]>('SELECT seq, state, lane FROM jobs WHERE id = ?', id)
  if (!row) return { kind: 'missing' }
  const [seq, state, lane] = row
  if (state === STATE.completed || state === STATE.cancelled || state === STATE.discarded)
    return { kind: 'finished', state: stateName(state) }
  if (state === STATE.active) {
    context.db.run('UPDATE jobs SET cancelling = 1 WHERE seq = ?', seq)
    return { kind: 'requested' }
  }
  cancelWaiting(context, { seq, state, lane }, context.clock.nowUs())
  return { kind: 'cancelled' }
}

/** Cancels a job that has not started: everyone behind it moves up, nothing is charged. */
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
