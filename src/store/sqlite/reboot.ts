import type { Context } from './context.ts'
import { STATE } from '../shared/state.ts'
import { dropViewsOfTheGone } from './views.ts'

/**
 * Repairs instants after a reboot of the host. No worker of the last boot lives, and the clock may have gone back, so
 * that stored instants are too late. Leases end now, and every wait list is evaluated again. A retry waits for its
 * whole delay at most, a series of even distances for one of them.
 */
export function afterReboot(context: Context): void {
  const nowUs = context.clock.nowUs()
  context.db.run('DELETE FROM workers')
  dropViewsOfTheGone(context, nowUs)
  context.db.run(`UPDATE jobs SET due = ? WHERE state = ${STATE.active} AND due > ?`, nowUs, nowUs)
  context.db.run(
    `UPDATE jobs SET due = due - (since - ?1), since = ?1 WHERE state = ${STATE.retryable} AND since > ?1`,
    nowUs,
  )
  context.db.run('UPDATE buckets SET wake_at = ? WHERE wake_at > ?', nowUs, nowUs)
  context.db.run(
    `UPDATE schedules SET next_at = next_at - (next_at - ?1) / (spec ->> '$.recurrence.everyUs') * (spec ->> '$.recurrence.everyUs')
     WHERE wall = 0 AND CASE WHEN json_valid(spec) THEN next_at - ?1 > (spec ->> '$.recurrence.everyUs') END`,
    nowUs,
  )
  context.db.run('UPDATE lanes SET turn = ? WHERE turn > ?', nowUs, nowUs)
}
