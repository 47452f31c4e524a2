import type { Statements } from '../../database/postgres.ts'
import type { Contender } from '../../policy/admission/wait-order.ts'
import type { CostRow, PlaceQueries } from '../shared/wait-place.ts'

const UNITS =
  'CASE WHEN $1::boolean AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1 ELSE (weights::json ->> $2::int)::int END'
const OF_LANE = 'lane = (SELECT key FROM sluice.lanes WHERE id = $3) AND state = 1 ORDER BY priority DESC, seq LIMIT $4'

type LaneRow = [id: number, turn: number, taken: number, share: number, head: number, key: string]

/** The queries for the place of a job. */
export function placeQueries(db: Statements): PlaceQueries {
  return {
    // With empty lanes, since the bucket counts them too.
    async contenders({ id: bucket }) {
      const found = await db.all<LaneRow>(
        `SELECT id, turn, taken, share, head, key FROM sluice.lanes
         WHERE buckets = ARRAY[$1::bigint] ORDER BY state = 0, id LIMIT 1000`,
        bucket,
      )
      const contenders: Contender[] = []
      for (const [id, turn, taken, share, head, key] of found) {
        const rows = await db.all<[number, number]>(
          `SELECT priority, count(*) FROM sluice.jobs WHERE lane = $1 AND state = 1
           GROUP BY priority ORDER BY priority DESC`,
          key,
        )
        const levels = rows.map(([priority, count]) => ({ priority, count }))
        contenders.push({ id, turn, taken, share, head, levels })
      }
      return contenders
    },
    costOf: async ({ id, count, at }, free, keptUs) =>
      (await db.get<[...CostRow]>(
        `SELECT count(nullif(units, 0)), sum(units)::bigint, min(nullif(units, 0)), max(units), max(given), min(due) FROM
         (SELECT ${UNITS} AS units, coalesce(asked, priority)::int AS given, due FROM sluice.jobs WHERE ${OF_LANE}) s
         WHERE due IS NULL OR due >= $5`,
        free,
        at,
        id,
        count,
        keptUs,
      )) as CostRow,
    async jobsOf({ id, count, at }, free) {
      const rows = await db.all<[seq: number, priority: number, units: number]>(
        `SELECT seq, priority, ${UNITS} FROM sluice.jobs WHERE ${OF_LANE}`,
        free,
        at,
        id,
        count,
      )
      return rows.map(([seq, priority, units]) => ({ seq, priority, units }))
    },
  }
}
