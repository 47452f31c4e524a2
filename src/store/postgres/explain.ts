import type { Statements } from '../../database/postgres.ts'
import type { Explanation } from '../contract/waits.ts'
import { explanation, type WaitRow } from '../shared/explain.ts'
import type { LimitedQueue } from '../shared/queue-limits.ts'
import { readAsync } from '../shared/reading.ts'
import { loadBuckets } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { get } from './get.ts'
import { currentLimits } from './limit-timelines.ts'
import { accessOf } from './shared-sql.ts'
import { waitsOfWorkers } from './views.ts'
import { placeQueries } from './wait-place.ts'

const LANE_OF = '(SELECT lane FROM sluice.jobs WHERE seq = $1)'

/** Explains why a job waits. */
export async function explain(context: Context, db: Statements, id: string): Promise<Explanation | null> {
  const instant = await readClock(context, db)
  const { nowUs } = instant
  const limits = await currentLimits(context, db)
  return readAsync(
    explanation(
      {
        ...placeQueries(db),
        limits,
        nowUs,
        access: accessOf(context, db),
        job: (of) => get(db, of),
        wait: async (seq) =>
          (await db.get<[...WaitRow]>(
            `SELECT l.id, l.state, l.bucket, j.fair, l.share,
             j.state, j.priority, j.weights, j.attempt, j.since, j.due, starts_with(j.lane, '?')
             FROM sluice.jobs j LEFT JOIN sluice.lanes l ON l.key = j.lane WHERE j.seq = $1`,
            seq,
          )) as WaitRow,
        async buckets(lane) {
          const [ids] = (await db.get<[number[]]>('SELECT buckets FROM sluice.lanes WHERE id = $1', lane)) ?? [[]]
          const found = await loadBuckets(db, limits, instant, 'b.id = ANY ($1::bigint[])', ids)
          return ids.flatMap((bucket) => found.find((each) => each.id === bucket) ?? [])
        },
        countAhead: async (seq, priority) => {
          // Two ranges instead of an OR, since an OR would use only the lane of the index.
          const [count] = (await db.get<[number]>(
            `SELECT (SELECT count(*) FROM sluice.jobs WHERE lane = ${LANE_OF} AND state = 1 AND priority > $2)
             + (SELECT count(*) FROM sluice.jobs WHERE lane = ${LANE_OF} AND state = 1 AND priority = $2 AND seq < $1)`,
            seq,
            priority,
          )) as [number]
          return count
        },
        workerWaits: (lane) => waitsOfWorkers(db, lane, nowUs),
        limitedQueues: () =>
          db.all<[...LimitedQueue]>(
            `SELECT name, limits, limit_name FROM sluice.queues WHERE limit_name IS NOT NULL OR limits <> '[]'`,
          ),
      },
      id,
    ),
  )
}
