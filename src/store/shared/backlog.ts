import type { BucketBacklog } from '../contract/waits.ts'
import { loadBuckets, ofTheFleet } from './buckets.ts'
import { columns, numbers } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, now } from './sql.ts'
import { LANE, STATE } from './state.ts'

/** The jobs that wait for one bucket, with their units and given priorities. */
const BACKLOG = columns(numbers('bucket', 'jobs', 'units', 'least', 'most', 'lowest', 'highest', 'needs'))
const SUMS = `bucket, count(*) AS jobs, sum(units)::bigint AS units, min(units) AS least, max(units) AS most,
  min(given) AS lowest, max(given) AS highest, max(needs) AS needs`
const NONE = { jobs: 0, units: 0, least: 1, most: 1, lowest: 0, highest: 0, needs: 1 }
/** The buckets of a lane: one more than there are commas. */
const NEEDS = `length(array_to_json(l.buckets)::text) - length(replace(array_to_json(l.buckets)::text, ',', '')) + 1`

/** The backlog of a limit's buckets, counted over all lanes that are not empty. */
export function* backlog(access: Access, limit: string, key?: string): Reading<BucketBacklog[] | null> {
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  if (limits.policy(limit, key ?? '') === null) return null
  const buckets = yield* loadBuckets(access, limits, instant, ofTheFleet(key ?? null), limit, key ?? null)
  const rows = yield* all(
    access.db,
    `SELECT ${SUMS} FROM (SELECT e.value AS bucket, coalesce((j.weights::json ->> (e.n - 1)::int)::int, 1) AS units,
       coalesce(j.asked, j.priority) AS given, ${NEEDS} AS needs
     FROM sluice.lanes l CROSS JOIN unnest(l.buckets) WITH ORDINALITY e(value, n) CROSS JOIN sluice.jobs j
     WHERE j.lane = l.${access.laneKey} AND j.state = ${STATE.available}
     AND l.state IN (${LANE.open}, ${LANE.waiting}, ${LANE.spread}, ${LANE.parked})
     AND l.buckets && $1::bigint[] AND e.value = ANY ($1::bigint[])) s GROUP BY bucket`,
    buckets.map(({ id }) => id),
  )
  const found = new Map(rows.map(BACKLOG.read).map((row) => [row.bucket, row]))
  return buckets.map(({ id, key: of, policy, state, active }) => {
    const { jobs, units, least, most, lowest, highest, needs } = found.get(id) ?? NONE
    return { key: of, policy, state, active, jobs, units, even: least === most, lowest, highest, needs }
  })
}
