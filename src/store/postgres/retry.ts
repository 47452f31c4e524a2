import type { Statements } from '../../database/postgres.ts'
import { announce } from './cancel.ts'
import { STATE } from './state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export async function retry(db: Statements, id: string): Promise<boolean> {
  const row = await db.get<[queue: string, lane: string, uses: string | null, due: number | null]>(
    `UPDATE sluice.jobs SET state = ${STATE.available}, attempt = 0, pushed_back = 0, cancelling = false, expires = NULL, finished = NULL, error = NULL,
     since = sluice.now_us(), due = sluice.latest_start(uses, NULL, sluice.now_us(), sluice.wall_us())
     WHERE id = $1::uuid AND state = ${STATE.discarded} RETURNING queue, lane, uses, due`,
    id,
  )
  if (!row) return false
  const [queue, lane, uses, due] = row
  await announce(db, queue, lane, uses, due !== null)
  return true
}
