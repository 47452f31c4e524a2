import type { Context } from './context.ts'
import { latestStartUs } from './enqueue.ts'
import { arrive } from './lanes.ts'
import { limitsOf } from './promote.ts'
import { STATE } from './state.ts'

/** Makes a discarded job available again, with a fresh attempt count and its old place. */
export function retry(context: Context, id: string): boolean {
  const instant = context.clock.read()
  context.policies.refresh()
  const row = context.db.get<[number, number, number]>(
    `SELECT seq, lane, priority FROM jobs WHERE id = ? AND state = ${STATE.discarded}`,
    id,
  )
  if (!row) return false
  const [seq, lane, priority] = row
  const latest = latestStartUs(context, limitsOf(context, lane), null, instant)
  context.db.run(
    `UPDATE jobs SET state = ${STATE.available}, attempt = 0, pushed_back = 0, cancelling = 0, since = ?, due = ?, expires = NULL, finished = NULL, error = NULL WHERE seq = ?`,
    instant.nowUs,
    latest,
    seq,
  )
  arrive(context, lane, priority, seq, instant.nowUs, latest !== null)
  return true
}
