import type { Context } from './context.ts'
import { rejoin } from './rejoin.ts'
import { STATE } from './state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export function retry(context: Context, id: string): boolean {
  const row = context.db.get<[number, number, number]>(
    `SELECT seq, lane, priority FROM jobs WHERE id = ? AND state = ${STATE.discarded}`,
    id,
  )
  if (!row) return false
  const [seq, lane, priority] = row
  context.db.run(
    'UPDATE jobs SET attempt = 0, pushed_back = 0, cancelling = 0, expires = NULL, finished = NULL, error = NULL WHERE seq = ?',
    seq,
  )
  rejoin(context, { seq, lane, priority, expires: null }, context.clock.read())
  return true
}
