import { BUCKET, bucketOf, type StoredBucket } from '../shared/stored-bucket.ts'
import { encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { ClaimRequest } from '../contract/store.ts'
import type { HeldBucket } from '../shared/throttling.ts'
import type { Context } from './context.ts'
import { nameFor, readName } from './own.ts'

/** Loads a bucket by its id, carried over to the limit's current policy. */
export function loadBucket(context: Context, id: number, nowUs: number): StoredBucket {
  const row = context.db.get(`SELECT ${BUCKET.of('b')} FROM buckets b WHERE b.id = ?`, id)
  if (!row) throw new RangeError(`Bucket ${id} is named by a lane, but it is not stored`)
  return fromRow(context, row, nowUs)
}

/** Loads many buckets by their ids. */
export function loadBuckets(context: Context, ids: readonly number[], nowUs: number): StoredBucket[] {
  return context.db
    .all(`SELECT ${BUCKET.of('b')} FROM json_each(?) e CROSS JOIN buckets b ON b.id = e.value`, JSON.stringify(ids))
    .map((row) => fromRow(context, row, nowUs))
}

/** Loads a bucket by limit and key; null: no job has ever needed it. */
export function findBucket(context: Context, limit: string, key: string, nowUs: number): StoredBucket | null {
  const sql = `SELECT ${BUCKET.of('b')} FROM buckets b WHERE limit_name = ? AND key = ?`
  const row = context.db.get(sql, limit, key)
  return row ? fromRow(context, row, nowUs) : null
}

/** The buckets of the starts that a claimer holds. */
export function heldBuckets(context: Context, { holds = [], worker }: ClaimRequest): HeldBucket[] {
  if (holds.length === 0) return []
  const names = holds.map(({ limit, key }) => [limit, key, nameFor(context, limit, key, worker)])
  return context.db.all<[string, string, string | null]>(
    `SELECT h.value ->> 0, h.value ->> 1, b.state FROM json_each(?) h
     CROSS JOIN buckets b ON b.limit_name = h.value ->> 2 AND b.key = h.value ->> 1`,
    JSON.stringify(names),
  )
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
    const { revision } = context.policies.current.timeline(bucket.limit)
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

/**
 * Returns a permit to each bucket of a stored list (a negative number held none), and wakes their wait lists. False:
 * none of them held one.
 */
export function returnPermits(context: Context, permits: string, nowUs: number): boolean {
  const held = (JSON.parse(permits) as number[]).filter((id) => id > 0)
  for (const id of held)
    context.db.run('UPDATE buckets SET active = max(active - 1, 0), wake_at = min(wake_at, ?) WHERE id = ?', nowUs, id)
  return held.length > 0
}

function fromRow(context: Context, row: readonly unknown[], nowUs: number): StoredBucket {
  const fields = BUCKET.read(row)
  const { limit } = readName(fields.limit)
  return bucketOf({ ...fields, limit }, context.policies.current.timeline(limit), nowUs, () =>
    context.clock.wallOffsetUs(),
  )
}
