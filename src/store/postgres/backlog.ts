import type { Statements } from '../../database/postgres.ts'
import type { BucketBacklog } from '../contract/waits.ts'
import { loadBuckets } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { type BacklogRow, backlogs } from '../shared/backlog.ts'
import { LANE, STATE } from '../shared/state.ts'

/** The backlog of a limit's buckets, counted over all lanes that are not empty. */
export async function backlog(
  context: Context,
  db: Statements,
  limit: string,
  key?: string,
): Promise<BucketBacklog[] | null> {
  const limits = await currentLimits(context, db)
  const instant = await readClock(context, db)
  if (limits.policy(limit, key ?? '') === null) return null
  const where = `b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) AND b.worker = 0 ORDER BY b.key`
  const buckets = await loadBuckets(db, limits, instant, where, limit, key ?? null)
  const rows = await db.all<BacklogRow>(
    `SELECT bucket, count(*), sum(units)::bigint, min(units), max(units), min(given), max(given) FROM
     (SELECT e.bucket, coalesce((j.weights::json ->> (e.n - 1)::int)::int, 1) AS units, coalesce(j.asked, j.priority) AS given
      FROM sluice.lanes l CROSS JOIN unnest(l.buckets) WITH ORDINALITY e(bucket, n) JOIN sluice.jobs j ON j.lane = l.key AND j.state = ${STATE.available}
      WHERE l.state IN (${LANE.open}, ${LANE.waiting}, ${LANE.spread}, ${LANE.parked}) AND l.buckets && $1::bigint[] AND e.bucket = ANY ($1::bigint[])) s
     GROUP BY bucket`,
    buckets.map(({ id }) => id),
  )
  return backlogs(buckets, rows)
}
