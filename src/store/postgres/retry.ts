import type { Statements } from '../../database/postgres.ts'
import { announce, type Place } from './cancel.ts'
import { STATE } from './state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export async function retry(db: Statements, id: string): Promise<boolean> {
  const row = await db.get<[...Place, due: number | null]>(
    `UPDATE sluice.jobs SET state = ${STATE.available}, attempt = 0, pushed_back = 0, cancelling = false, booked = NULL, expires = NULL, finished = NULL, error = NULL,
     since = sluice.now_us(), due = sluice.latest_start(uses, NULL, sluice.now_us(), sluice.wall_us())
     WHERE id = $1::uuid AND state = ${STATE.discarded} RETURNING queue, lane, uses, fair, due`,
    id,
  )
  if (!row) return false
  const [queue, lane, uses, fair, due] = row
  await announce(db, [queue, lane, uses, fair], due !== null)
  return true
}
