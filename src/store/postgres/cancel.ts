import type { Statements } from '../../database/postgres.ts'
import type { CancelAnswer } from '../store.ts'
import { type Context, readClock } from './context.ts'
import { STATE, stateName } from './state.ts'

type Row = [seq: number, state: number, ...Place]

/** Ends a job that has not started at once; an active one is marked, and ends when its handler does. */
export async function cancel(context: Context, db: Statements, id: string): Promise<CancelAnswer> {
  const row = await db.get<Row>(
    'SELECT seq, state, queue, lane, uses, fair FROM sluice.jobs WHERE id = $1::uuid FOR UPDATE',
    id,
  )
  if (!row) return { kind: 'missing' }
  const [seq, state] = row
  if (state === STATE.completed || state === STATE.cancelled || state === STATE.discarded)
    return { kind: 'finished', state: stateName(state) }
  if (state === STATE.active) {
    await db.run('UPDATE sluice.jobs SET cancelling = true WHERE seq = $1', seq)
    return { kind: 'requested' }
  }
  const { nowUs } = await readClock(context, db)
  await db.run(
    `UPDATE sluice.jobs SET state = ${STATE.cancelled}, finished = $2, due = $3 WHERE seq = $1`,
    seq,
    nowUs,
    nowUs + context.retention.cancelledUs,
  )
  if (state === STATE.available) await announce(db, [row[2], row[3], row[4], row[5]])
  return { kind: 'cancelled' }
}

/** Where a job stands. */
export type Place = readonly [queue: string, lane: string, uses: string | null, fair: string | null]

/** Has the next claim look at what is first in a lane now. */
export async function announce(db: Statements, [queue, lane, uses, fair]: Place, look = false): Promise<void> {
  if (uses === null) return
  await db.run(
    'INSERT INTO sluice.arrivals (queue, lane, uses, fair, look) VALUES ($1, $2, $3, $4, $5)',
    queue,
    lane,
    uses,
    fair,
    look,
  )
}
