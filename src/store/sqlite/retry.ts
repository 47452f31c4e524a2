import type { Context } from './context.ts'
import { rejoin } from './rejoin.ts'
import { mayReopen, reopen } from './reopen.ts'
import { STATE } from '../shared/state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export function retry(context: Context, id: string): boolean {
  const row = context.db.get<[number, number, number, number | null, number | null]>(
    `SELECT seq, lane, priority, flow, node FROM jobs WHERE id = ? AND state = ${STATE.discarded}`,
    id,
  )
  if (!row) return false
  const [seq, lane, priority, flow, node] = row
  const instant = context.clock.read()
  if (flow !== null && !mayReopen(context, flow, instant.nowUs)) return false
  context.db.run(
    'UPDATE jobs SET attempt = 0, pushed_back = 0, cancelling = 0, expires = NULL, finished = NULL, error = NULL WHERE seq = ?',
    seq,
  )
  rejoin(context, { seq, lane, priority, expires: null }, instant)
  if (flow !== null && node !== null) reopen(context, flow, node)
  return true
}
