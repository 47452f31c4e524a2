import type { Instant } from '../../jobs/series.ts'
import type { Reading } from './reading.ts'
import { type Access, all, type SqlValue } from './sql.ts'
import { BUCKET, bucketOf, type StoredBucket, wallOffset } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

/** Selects the fleet's buckets of a limit, by one key or all. */
export const OF_THE_FLEET = 'b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) AND b.worker = 0 ORDER BY b.key'

/** The buckets `b` that match a condition. */
export function* loadBuckets(
  { db, limitName }: Access,
  limits: Pick<Timelines, 'timeline'>,
  { nowUs, wallUs }: Instant,
  where: string,
  ...values: SqlValue[]
): Reading<StoredBucket[]> {
  const rows = yield* all(db, `SELECT ${BUCKET.list} FROM sluice.buckets b WHERE ${where}`, ...values)
  return rows.map((row) => {
    const fields = BUCKET.read(row)
    const limit = limitName(fields.limit)
    return bucketOf({ ...fields, limit }, limits.timeline(limit), nowUs, () => wallOffset(nowUs, wallUs))
  })
}
