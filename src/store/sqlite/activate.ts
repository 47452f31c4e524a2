import type { JobState } from '../../jobs/job-state.ts'
import type { Context } from './context.ts'
import { rejoin } from './rejoin.ts'
import { STATE, stateName } from './state.ts'

/** A pending job goes to its lane, or is scheduled. Answers the state that it was in. */
export function activate(context: Context, id: string, runAtMs: number | null): JobState | null {
  const row = context.db.get<[number, number, number, number, number | null]>(
    'SELECT seq, state, lane, priority, expires FROM jobs WHERE id = ?',
    id,
  )
  if (!row) return null
  const [seq, state, lane, priority, expires] = row
  if (state !== STATE.pending) return stateName(state)
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
