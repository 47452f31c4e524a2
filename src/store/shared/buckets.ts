import { encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { Instant } from '../../jobs/series.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, now, run, type SqlValue } from './sql.ts'
import { LANE } from './state.ts'
import { BUCKET, type BucketChange, bucketOf, type StoredBucket, unusedBucket, wallOffset } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

const OF_ONE_KEY = '($2::text IS NULL OR b.key = $2)'
const OF_THE_FLEET = {
  one: 'b.limit_name = $1 AND b.key = $2 AND b.worker = 0',
  all: 'b.limit_name = $1 AND $2::text IS NULL AND b.worker = 0 ORDER BY b.key',
}

const SAVE = `UPDATE sluice.buckets SET state = $2, revision = $3, active = $4, wake_at = $5, touched = $6 WHERE id = $1`

/** The buckets `b` that match a condition. */
export function* loadBuckets(
  { db, limitName }: Access,
  limits: Pick<Timelines, 'timeline'>,
  { nowUs, wallUs }: Instant,
  where: string,
  ...values: SqlValue[]
): Reading<StoredBucket[]> {
  const rows = yield* all(db, `SELECT ${BUCKET.of('b')} FROM sluice.buckets b WHERE ${where}`, ...values)
  return bucketsOf({ limitName }, limits, { nowUs, wallUs }, rows)
}

/** Buckets of rows with the columns of `BUCKET`. */
export function bucketsOf(
  { limitName }: Pick<Access, 'limitName'>,
  limits: Pick<Timelines, 'timeline'>,
  { nowUs, wallUs }: Instant,
  rows: readonly (readonly unknown[])[],
): StoredBucket[] {
  return rows.map((row) => {
    const fields = BUCKET.read(row)
    const limit = limitName(fields.limit)
    return bucketOf({ ...fields, limit }, limits.timeline(limit), nowUs, () => wallOffset(nowUs, wallUs))
  })
}

/** Selects the fleet's buckets of a limit: that of a key, by the index, or all. */
export function ofTheFleet(key: string | null): string {
  return key === null ? OF_THE_FLEET.all : OF_THE_FLEET.one
}

/** The fleet's bucket by limit and key, also if no job has needed it yet; null: its limit was never defined. */
export function* findBucket(
  access: Access,
  instant: Instant,
  limit: string,
  key: string,
): Reading<StoredBucket | null> {
  const limits = yield* ask(() => access.limits())
  const [known] = yield* loadBuckets(access, limits, instant, ofTheFleet(key), limit, key)
  if (known) return known
  return limits.policy(limit, key) && unusedBucket(limit, key, limits.timeline(limit), instant)
}

/**
 * Locks buckets, in the order of their ids, and loads them. A bucket that another transaction has just forgotten is
 * missing.
 */
export function* lockBuckets(
  access: Access,
  ids: readonly number[],
): Reading<{ readonly buckets: StoredBucket[]; readonly limits: Timelines; readonly instant: Instant }> {
  yield* ask(() => access.lockBuckets(ids))
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  const buckets = yield* loadBuckets(access, limits, instant, 'b.id = ANY ($1::bigint[])', ids)
  return { buckets, limits, instant }
}

/** Writes one changed bucket. */
export function* saveBucket(
  { db }: Access,
  limits: Pick<Timelines, 'timeline'>,
  { id, limit, state, active, wakeAtUs }: StoredBucket,
  nowUs: number,
): Reading<void> {
  yield* run(db, SAVE, id, encodeBucket(state), limits.timeline(limit).revision, active, wakeAtUs, nowUs)
}

/**
 * Changes existing buckets, and makes the next claim evaluate the heads of their wait lists. True: a reason to emit an
 * event.
 */
export function* changeBuckets(access: Access, ids: readonly number[], change: BucketChange): Reading<boolean> {
  const { buckets, limits, instant } = yield* lockBuckets(access, ids)
  // A bucket was forgotten between its creation and its lock: it equalled a new one, and the next charge creates it
  // again. Of several, a worker that left meanwhile has taken its own along.
  if (buckets.length === 0 && ids.length === 1)
    throw new RangeError(`Bucket ${ids.join()} was forgotten during its change`)
  let news = false
  for (const bucket of buckets) {
    const changed = change(bucket, instant.nowUs)
    if (changed === 'no') continue
    news ||= changed === 'news'
    bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
    yield* saveBucket(access, limits, bucket, instant.nowUs)
  }
  return news
}

/** Writes buckets of a limit again that were last written before a revision. Returns their number. */
export function* carryOver(
  access: Access,
  limits: Timelines,
  limit: string,
  untilRevision: number,
  atMost: number,
): Reading<number> {
  const instant = yield* now(access)
  const where = `${access.ofLimit} AND b.revision < $2 AND b.state IS NOT NULL ORDER BY b.id LIMIT $3 FOR UPDATE`
  const behind = yield* loadBuckets(access, limits, instant, where, limit, untilRevision, atMost)
  for (const bucket of behind) yield* saveBucket(access, limits, bucket, instant.nowUs)
  return behind.length
}

/** Makes the wait lists of a limit, or of one key, due at once. */
export function* wakeLimit(access: Access, limit: string, key: string | null, nowUs: number): Reading<void> {
  const waiting = `SELECT b.id FROM sluice.buckets b WHERE ${access.ofLimit} AND ${OF_ONE_KEY} AND b.wake_at IS NOT NULL`
  const found = yield* all<[number]>(access.db, waiting, limit, key)
  const ids = found.map(([id]) => id)
  yield* ask(() => access.wakeWaitLists(ids, nowUs))
}

/**
 * A limit now drops: the next claim evaluates the lanes that need its buckets and wait for others. No claim decides
 * meanwhile.
 */
export function* watchDrops(access: Access, limit: string, key: string | null, nowUs: number): Reading<void> {
  const { db, ofLimit } = access
  const concerned = `${ofLimit} AND ${OF_ONE_KEY}`
  const watch = `INSERT INTO sluice.drop_watch (lane, bucket, need) SELECT l.id, b.id, 1
    FROM sluice.lanes l CROSS JOIN unnest(l.buckets) WITH ORDINALITY e(value, n) JOIN sluice.buckets b ON b.id = e.value
    WHERE l.state = ${LANE.waiting} AND l.bucket <> b.id AND ${concerned}
    ON CONFLICT (lane, bucket) DO UPDATE SET need = greatest(drop_watch.need, 1)`
  yield* run(db, watch, limit, key)
  const watched = `SELECT DISTINCT b.id FROM sluice.buckets b JOIN sluice.drop_watch w ON w.bucket = b.id
    WHERE ${concerned} AND b.wake_at IS NULL`
  const ids = (yield* all<[number]>(db, watched, limit, key)).map(([id]) => id)
  yield* ask(() => access.lockBuckets(ids))
  yield* run(db, 'UPDATE sluice.buckets SET wake_at = $2 WHERE id = ANY ($1::bigint[]) AND wake_at IS NULL', ids, nowUs)
}
