import type { Context } from './context.ts'
import { rejoin } from './rejoin.ts'
import { mayReopen, reopen } from './reopen.ts'
import { columns, numbers, numbersOrNull } from '../shared/columns.ts'
import { STATE } from '../shared/state.ts'

const DISCARDED = columns({ ...numbers('seq', 'lane', 'priority'), ...numbersOrNull('flow', 'node') })
const FIND = `SELECT ${DISCARDED.list} FROM jobs WHERE id = ? AND state = ${STATE.discarded}`

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export function retry(context: Context, id: string): boolean {
  const row = DISCARDED.read(context.db.get(FIND, id))
  if (!row) return false
  const { seq, lane, priority, flow, node } = row
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
