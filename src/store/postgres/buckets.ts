import { BUCKET, bucketOf as bucketFrom, type StoredBucket, wallOffset } from '../shared/stored-bucket.ts'
import type { Statements } from '../../database/statements.ts'
import type { Instant } from '../../jobs/series.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { BucketName } from '../../limiter/contract/limiter.ts'
import { bucketsOf } from '../shared/buckets.ts'
import { STANDING } from '../shared/budgets/standing.ts'
import { GENERATION } from '../shared/limit-changes.ts'
import type { OpenBuckets, StandingRow } from '../shared/sql.ts'
import { BucketIds, type Context } from './context.ts'
import { limitsAt } from './limit-timelines.ts'

const LOCK = 'SELECT sluice.lock_buckets($1::bigint[])'
const CLOCK = 'SELECT sluice.now_us(), sluice.wall_us()'
const LOAD = `SELECT ${BUCKET.of('b')} FROM sluice.buckets b WHERE b.id = ANY ($1::bigint[])`
/** Each statement sees what was committed before it began: those behind the lock see the newest states. */
const OPEN = [LOCK, GENERATION, CLOCK, LOAD, STANDING].join('; ')

/** The id of a bucket, which is created if new. */
export async function bucketId(db: Statements, limit: string, key: string, worker: number): Promise<number> {
  const use = JSON.stringify([[limit, key, worker]])
  const [ids] = (await db.get<[number[]]>('SELECT sluice.own_buckets($1::json)', use)) as [number[]]
  return ids[0] as number
}

/** A stored bucket, carried over to the limit's current policy. */
export function bucketOf(limits: Timelines, row: readonly unknown[], { nowUs, wallUs }: Instant): StoredBucket {
  const fields = BUCKET.read(row)
  return bucketFrom(fields, limits.timeline(fields.limit), nowUs, () => wallOffset(nowUs, wallUs))
}

/** The rows of `OPEN`, by statement. */
type Opened = [unknown, [[number]?], [[number, number]], unknown[][], StandingRow[]]

/** A bucket is not there. Its transaction runs again: it must make no bucket while it holds the locks of others. */
class Forgotten extends Error {
  override readonly name = 'Forgotten'
  readonly code = '40001'
}

/** Locks buckets, and reads what a decision about them needs, in one round trip. */
export async function openBuckets(
  context: Context,
  db: Statements,
  names: readonly BucketName[],
): Promise<OpenBuckets> {
  const ids = await context.bucketIds.of(db, names)
  const opened = await db.script(OPEN, `{${ids.join()}}`)
  const [, [generation], [clock], rows, standing] = opened as unknown as Opened
  const [nowUs, wallUs] = clock
  context.clock.saw(nowUs)
  const limits = await limitsAt(context, db, generation?.[0] ?? 0)
  const instant = { nowUs, wallUs }
  const wanted = new Set(names.map(BucketIds.nameOf))
  const loaded = bucketsOf({ limitName: (stored) => stored }, limits, instant, rows)
  const buckets = loaded.filter((bucket) => wanted.has(BucketIds.nameOf(bucket)))
  if (buckets.length < ids.length) {
    context.bucketIds.forget()
    throw new Forgotten()
  }
  return { buckets, limits, instant, standing }
}
