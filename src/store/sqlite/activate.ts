import type { JobState } from '../../jobs/job-state.ts'
import type { Context } from './context.ts'
import { rejoin } from './rejoin.ts'
import { STATE, stateName } from '../shared/state.ts'

/**
 * Moves a pending job to its lane, or schedules it. Returns its state before; null: it does not exist, or waits for
 * others of its flow.
 */
export function activate(context: Context, id: string, runAtMs: number | null): JobState | null {
  const row = context.db.get<[number, number, number, number, number | null, string | null]>(
    'SELECT seq, state, lane, priority, expires, plan FROM jobs WHERE id = ?',
    id,
  )
  if (!row) return null
  const [seq, state, lane, priority, expires, plan] = row
  if (state !== STATE.pending) return stateName(state)
  if (plan !== null) return null
  const instant = context.clock.read()
  context.db.run(
    `UPDATE jobs SET extra = json_set(coalesce(extra, '{}'), '$.activatedUs', ?) WHERE seq = ?`,
    instant.nowUs,
    seq,
  )
  if (runAtMs !== null && runAtMs * 1000 > instant.wallUs)
    context.db.run(
      `UPDATE jobs SET state = ${STATE.scheduled}, since = ?, due = ? WHERE seq = ?`,
      instant.nowUs,
      Math.round(runAtMs * 1000),
      seq,
    )
  else rejoin(context, { seq, lane, priority, expires }, instant)
  return 'pending'
}
