import type { Statements } from '../../database/postgres.ts'
import type { BucketReport } from '../contract/store.ts'
import { inspection, type WeightsRow } from '../shared/inspect.ts'
import { readAsync } from '../shared/reading.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { loadBuckets } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'

/** Reports the buckets of a limit, or the one of a key, in their present state. */
export async function inspect(context: Context, db: Statements, limit: string, key?: string): Promise<BucketReport[]> {
  const limits = await currentLimits(context, db)
  const instant = await readClock(context, db)
  const queries = {
    limits,
    nowUs: instant.nowUs,
    buckets(own: boolean): Promise<StoredBucket[]> {
      const whose = own ? 'b.worker IN (SELECT id FROM sluice.workers)' : 'b.worker = 0'
      const where = `b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) AND ${whose} ORDER BY b.worker, b.key`
      return loadBuckets(db, limits, instant, where, limit, key ?? null)
    },
    waiting: async (bucket: number) =>
      (
        (await db.get<[number]>(
          `SELECT count(*) FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = 1
           WHERE l.bucket = $1 AND l.state = 2`,
          bucket,
        )) as [number]
      )[0],
    weights: async (bucket: number, atMost: number) =>
      (await db.get<[...WeightsRow]>(
        `SELECT avg(units)::float8, min(units), max(units), min(given), max(given) FROM
         (SELECT coalesce((j.weights::json ->> (array_position(l.buckets, l.bucket) - 1))::int, 1) AS units,
            coalesce(j.asked, j.priority) AS given
          FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = 1
          WHERE l.bucket = $1 AND l.state = 2 LIMIT $2) s`,
        bucket,
        atMost,
      )) as WeightsRow,
  }
  return readAsync(inspection(queries, limit, key))
}
