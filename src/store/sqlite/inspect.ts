import type { BucketReport } from '../contract/store.ts'
import { inspection, type WeightsRow } from '../shared/inspect.ts'
import { readNow } from '../shared/reading.ts'
import { bucketsOf, ownBucketsOf } from './buckets.ts'
import type { Context } from './context.ts'

/** Reports the buckets of a limit, or the one of a key, in their present state. */
export function inspect(context: Context, limit: string, key?: string): BucketReport[] {
  const { db, policies } = context
  const nowUs = context.clock.nowUs()
  const queries = {
    limits: policies,
    nowUs,
    buckets: (own: boolean) => (own ? ownBucketsOf : bucketsOf)(context, limit, key, nowUs),
    waiting: (bucket: number) =>
      (
        db.get<[number]>(
          `SELECT count(*) FROM lanes l JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1
           WHERE l.bucket = ? AND l.state = 2`,
          bucket,
        ) as [number]
      )[0],
    weights: (bucket: number, atMost: number) =>
      db.get<[...WeightsRow]>(
        `SELECT avg(units), min(units), max(units), min(given), max(given) FROM
         (SELECT coalesce(j.weights ->> (SELECT key FROM json_each(l.buckets) WHERE value = l.bucket), 1) AS units,
            coalesce(j.asked, j.priority) AS given
          FROM lanes l CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1
          WHERE l.bucket = ? AND l.state = 2 LIMIT ?)`,
        bucket,
        atMost,
      ) as WeightsRow,
  }
  return readNow(inspection(queries, limit, key))
}
