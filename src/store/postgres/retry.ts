import type { Statements } from '../../database/postgres.ts'
import { announce, type Place } from './cancel.ts'
import { STATE } from '../shared/state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export async function retry(db: Statements, id: string): Promise<boolean> {
  const [seq, flow = null] =
    (await db.get<[seq: number, flow: number | null]>(
      `SELECT seq, flow FROM sluice.jobs WHERE id = $1::uuid AND state = ${STATE.discarded} FOR UPDATE`,
      id,
    )) ?? []
  if (seq === undefined || (flow !== null && !(await mayReopen(db, flow)))) return false
  const [queue, lane, uses, fair, due] = (await db.get<[...Place, due: number | null]>(
    `UPDATE sluice.jobs SET state = ${STATE.available}, attempt = 0, pushed_back = 0, cancelling = false, booked = NULL, expires = NULL, finished = NULL, error = NULL,
     since = sluice.now_us(), due = sluice.latest_start(uses, NULL, sluice.now_us(), sluice.wall_us())
     WHERE seq = $1 RETURNING queue, lane, uses, fair, due`,
    seq,
  )) as [...Place, due: number | null]
  await announce(db, [queue, lane, uses, fair], due !== null)
  if (flow !== null) await reopen(db, seq)
  return true
}

/**
 * Locks the flow of a discarded job. Returns whether that may run again: once a flow's retention is over, parts of it
 * may be gone.
 */
async function mayReopen(db: Statements, flow: number): Promise<boolean> {
  const row = await db.get<[boolean]>(
    'SELECT due IS NULL OR due > sluice.now_us() FROM sluice.flows WHERE seq = $1 FOR UPDATE',
    flow,
  )
  return row?.[0] ?? false
}

/** Reopens the flow of a discarded node that a caller retries: the jobs that its failure cancelled wait again. */
async function reopen(db: Statements, seq: number): Promise<void> {
  await db.run('SELECT sluice.reopen($1::bigint)', seq)
}
