import { BUCKET, bucketOf as bucketFrom, type StoredBucket, wallOffset } from '../shared/stored-bucket.ts'
import type { Statements } from '../../database/postgres.ts'
import { encodeBucket } from '../../policy/limits/bucket.ts'
import type { Instant } from '../../jobs/series.ts'
import type { Timelines } from '../shared/timelines.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'

const SELECT = `SELECT ${BUCKET.list} FROM sluice.buckets b`

/** The buckets that match a condition, in the order of their ids. */
export async function loadBuckets(
  db: Statements,
  limits: Timelines,
  instant: Instant,
  where: string,
  ...values: (string | number | null | readonly number[])[]
): Promise<StoredBucket[]> {
  const rows = await db.all(`${SELECT} WHERE ${where}`, ...values)
  return rows.map((row) => bucketOf(limits, row, instant))
}

/** The fleet's bucket by limit and key; null: no job has ever needed it. */
export async function findBucket(
  db: Statements,
  limits: Timelines,
  instant: Instant,
  limit: string,
  key: string,
): Promise<StoredBucket | null> {
  const [found] = await loadBuckets(
    db,
    limits,
    instant,
    'b.limit_name = $1 AND b.key = $2 AND b.worker = 0',
    limit,
    key,
  )
  return found ?? null
}

/** The id of a bucket, which is created if new. */
export async function bucketId(db: Statements, limit: string, key: string, worker: number): Promise<number> {
  const use = JSON.stringify([[limit, key, worker]])
  const [ids] = (await db.get<[number[]]>('SELECT sluice.own_buckets($1::json)', use)) as [number[]]
  return ids[0] as number
}

/**
 * Locks buckets, in the order of their ids, and loads them. A bucket that another transaction has just forgotten is
 * missing.
 */
export async function lockBuckets(
  context: Context,
  db: Statements,
  ids: readonly number[],
): Promise<{ readonly buckets: StoredBucket[]; readonly limits: Timelines; readonly instant: Instant }> {
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', ids)
  const limits = await currentLimits(context, db)
  const instant = await readClock(context, db)
  return { buckets: await loadBuckets(db, limits, instant, 'b.id = ANY ($1::bigint[])', ids), limits, instant }
}

/** Writes one changed bucket. */
export async function saveBucket(
  db: Statements,
  limits: Timelines,
  bucket: StoredBucket,
  nowUs: number,
): Promise<void> {
  await db.run(
    'UPDATE sluice.buckets SET state = $2, revision = $3, active = $4, wake_at = $5, touched = $6 WHERE id = $1',
    bucket.id,
    encodeBucket(bucket.state),
    limits.timeline(bucket.limit).revision,
    bucket.active,
    bucket.wakeAtUs,
    nowUs,
  )
}

/** A stored bucket, carried over to the limit's current policy. */
export function bucketOf(limits: Timelines, row: readonly unknown[], { nowUs, wallUs }: Instant): StoredBucket {
  const fields = BUCKET.read(row)
  return bucketFrom(fields, limits.timeline(fields.limit), nowUs, () => wallOffset(nowUs, wallUs))
}
