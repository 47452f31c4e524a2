import type { BucketBacklog } from '../contract/waits.ts'
import { bucketsOf } from './buckets.ts'
import type { Context } from './context.ts'
import { type BacklogRow, backlogs } from '../shared/backlog.ts'
import { LANE, STATE } from '../shared/state.ts'

/** The backlog of a limit's buckets, counted over all lanes that are not empty. */
export function backlog(context: Context, limit: string, key?: string): BucketBacklog[] | null {
  context.policies.refresh()
  const nowUs = context.clock.nowUs()
  if (context.policies.policy(limit, key ?? '') === null) return null
  const buckets = bucketsOf(context, limit, key, nowUs)
  const rows = context.db.all<BacklogRow>(
    `SELECT bucket, count(*), sum(units), min(units), max(units), min(given), max(given) FROM
     (SELECT e.value AS bucket, coalesce(j.weights ->> e.key, 1) AS units, coalesce(j.asked, j.priority) AS given
      FROM lanes l CROSS JOIN json_each(l.buckets) e CROSS JOIN jobs j ON j.lane = l.id AND j.state = ${STATE.available}
      WHERE l.state IN (${LANE.open}, ${LANE.waiting}, ${LANE.spread}, ${LANE.parked}) AND e.value IN (SELECT value FROM json_each(?)))
     GROUP BY bucket`,
    JSON.stringify(buckets.map(({ id }) => id)),
  )
  return backlogs(buckets, rows)
}
