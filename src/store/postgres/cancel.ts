import type { Statements } from '../../database/postgres.ts'
import type { CancelAnswer } from '../contract/store.ts'
import { advance } from './advance.ts'
import { type Context, readClock } from './context.ts'
import { STATE, stateName } from '../shared/state.ts'

type Row = [seq: number, state: number, flow: number | null, ...Place]

const FIND = 'SELECT seq, state, flow, queue, lane, uses, fair FROM sluice.jobs WHERE id = $1::uuid'

/** A row changed between its read and its lock: the transaction starts again, as after a deadlock. */
export class Again extends Error {
  readonly code = '40001'

  constructor() {
    super('A flow changed again and again while one of its jobs, or all of them, were to be cancelled. Try again.')
  }
}

/** Ends a waiting job at once; an active one is marked, and ends with its handler. */
export async function cancel(context: Context, db: Statements, id: string): Promise<CancelAnswer> {
  const held = await lockFlowOfPending(db, id)
  const row = await db.get<Row>(`${FIND} FOR UPDATE`, id)
  if (!row) return { kind: 'missing' }
  const [seq, state, flow, ...place] = row
  if (flow !== null && held !== (state === STATE.pending)) throw new Again()
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
  if (state === STATE.available) await announce(db, place)
  const news = flow === null ? undefined : (await advance(context, db, [seq])).get(seq)
  return { kind: 'cancelled', ...(news && { flow: news }) }
}

/** Locks the flow of a pending job, which comes before the job in the order of locks. */
async function lockFlowOfPending(db: Statements, id: string): Promise<boolean> {
  const [flow] =
    (await db.get<[number]>(
      `SELECT flow FROM sluice.jobs WHERE id = $1::uuid AND state = ${STATE.pending} AND flow IS NOT NULL`,
      id,
    )) ?? []
  if (flow === undefined) return false
  await db.run('SELECT 1 FROM sluice.flows WHERE seq = $1 FOR UPDATE', flow)
  // The job may have started by now. Its holder may then wait for this flow.
  if (await db.get(`SELECT 1 FROM sluice.jobs WHERE id = $1::uuid AND state <> ${STATE.pending}`, id)) throw new Again()
  return true
}

/** The place of a job. */
export type Place = readonly [queue: string, lane: string, uses: string | null, fair: string | null]

/** Makes the next claim evaluate the head of a lane. */
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
