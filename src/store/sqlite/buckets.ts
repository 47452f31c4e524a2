import { BUCKET_COLUMNS, bucketOf, type BucketRow, type StoredBucket } from '../shared/stored-bucket.ts'
import { encodeBucket } from '../../policy/limits/bucket.ts'
import type { Context } from './context.ts'
import { ownRange, readName } from './own.ts'

/** Loads a bucket by its id, carried over to the limit's current policy. */
export function loadBucket(context: Context, id: number, nowUs: number): StoredBucket {
  const row = context.db.get<BucketRow>(`SELECT ${BUCKET_COLUMNS} FROM buckets b WHERE b.id = ?`, id)
  if (!row) throw new RangeError(`Bucket ${id} is named by a lane, but it is not stored`)
  return fromRow(context, row, nowUs)
}

/** Loads many buckets by their ids. */
export function loadBuckets(context: Context, ids: readonly number[], nowUs: number): StoredBucket[] {
  return context.db
    .all<BucketRow>(
      `SELECT ${BUCKET_COLUMNS} FROM json_each(?) e CROSS JOIN buckets b ON b.id = e.value`,
      JSON.stringify(ids),
    )
    .map((row) => fromRow(context, row, nowUs))
}

/** Loads a bucket by limit and key; null: no job has ever needed it. */
export function findBucket(context: Context, limit: string, key: string, nowUs: number): StoredBucket | null {
  return bucketsOf(context, limit, key, nowUs)[0] ?? null
}

/** The fleet's buckets of a limit, in the order of their keys; of one key or of all. */
export function bucketsOf(context: Context, limit: string, key: string | undefined, nowUs: number): StoredBucket[] {
  return context.db
    .all<BucketRow>(
      `SELECT ${BUCKET_COLUMNS} FROM buckets b WHERE limit_name = ?${key === undefined ? '' : ' AND key = ?'} ORDER BY key`,
      limit,
      ...(key === undefined ? [] : [key]),
    )
    .map((row) => fromRow(context, row, nowUs))
}

/** The live workers' own buckets of a limit, by worker; of one key or of all. */
export function ownBucketsOf(context: Context, limit: string, key: string | undefined, nowUs: number): StoredBucket[] {
  const workers = new Set(context.db.all<[number]>('SELECT id FROM workers').map(([id]) => id))
  return context.db
    .all<BucketRow>(
      `SELECT ${BUCKET_COLUMNS} FROM buckets b WHERE limit_name > ? AND limit_name < ?`,
      ...ownRange(limit),
    )
    .map((row) => fromRow(context, row, nowUs))
    .filter((bucket) => workers.has(bucket.worker) && (key === undefined || bucket.key === key))
    .sort((a, b) => a.worker - b.worker || (a.key < b.key ? -1 : 1))
}

/** The buckets whose ids a query returns. */
export function bucketsById(context: Context, query: string, limit: number, nowUs: number): StoredBucket[] {
  return context.db.all<[number]>(query, limit).map(([id]) => loadBucket(context, id, nowUs))
}

/** The id of a bucket, which is created if new. */
export function bucketId(context: Context, limit: string, key: string, nowUs: number): number {
  const found = context.db.get<[number]>('SELECT id FROM buckets WHERE limit_name = ? AND key = ?', limit, key)
  if (found) return found[0]
  return Number(
    context.db
      .prepare('INSERT INTO buckets (limit_name, key, worker, touched) VALUES (?, ?, ?, ?)')
      .run(limit, key, readName(limit).worker, nowUs).lastInsertRowid,
  )
}

/** Writes a bucket that a decision changed. */
export function saveBucket(context: Context, bucket: StoredBucket, nowUs: number): void {
  if (bucket.changed) {
    const { revision } = context.policies.timeline(bucket.limit)
    context.db.run(
      'UPDATE buckets SET state = ?, revision = ?, active = ?, wake_at = ?, deferred = ?, told = ?, touched = ? WHERE id = ?',
      encodeBucket(bucket.state),
      revision,
      bucket.active,
      bucket.wakeAtUs,
      bucket.deferred,
      bucket.toldUs,
      nowUs,
      bucket.id,
    )
  } else if (bucket.wakeAtUs !== bucket.wokeAtUs || bucket.counted)
    context.db.run(
      'UPDATE buckets SET wake_at = ?, deferred = ?, told = ? WHERE id = ?',
      bucket.wakeAtUs,
      bucket.deferred,
      bucket.toldUs,
      bucket.id,
    )
}

/** Makes the next claim evaluate the head of a bucket's wait list, if any lane waits there. */
export function wakeLine(context: Context, bucket: number, nowUs: number): void {
  context.db.run('UPDATE buckets SET wake_at = min(wake_at, ?) WHERE id = ? AND wake_at IS NOT NULL', nowUs, bucket)
}

/** Returns a permit to each bucket of a stored list (a negative number held none), and wakes their wait lists. */
export function returnPermits(context: Context, permits: string, nowUs: number): void {
  for (const id of JSON.parse(permits) as number[])
    if (id > 0)
      context.db.run(
        'UPDATE buckets SET active = max(active - 1, 0), wake_at = min(wake_at, ?) WHERE id = ?',
        nowUs,
        id,
      )
}

function fromRow(context: Context, row: BucketRow, nowUs: number): StoredBucket {
  const [id, name, key, stored, revision, active, lanes, wakeAtUs, deferred, toldUs] = row
  const { limit, worker } = readName(name)
  const fields = { id, limit, key, worker, stored, revision, active, lanes, wakeAtUs, deferred, toldUs }
  return bucketOf(fields, context.policies.timeline(limit), nowUs, () => context.clock.wallOffsetUs())
}
