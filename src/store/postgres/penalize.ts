import type { Statements } from '../../database/postgres.ts'
import type { CalibrationReport } from '../contract/waits.ts'
import { type BucketChange, calibrateTo, closeUntil, correctBy } from '../shared/bucket-change.ts'
import { FLEET } from '../shared/stored-bucket.ts'
import { bucketId, lockBuckets, saveBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { ownerFor } from './own.ts'

/** The bucket to change. `worker`, for a limit of scope `worker`: the owner; undefined: the buckets of all workers. */
export interface BucketRef {
  readonly limit: string
  readonly key: string
  readonly worker: number | undefined
}

/** Closes a bucket; the next claim re-times every lane that waits for it. True: a reason to emit an event. */
export async function penalize(context: Context, db: Statements, ref: BucketRef, untilUs: number): Promise<boolean> {
  const { limit, key, worker } = ref
  const limits = await currentLimits(context, db)
  const close = closeUntil(() => untilUs)
  if (worker !== undefined || ownerFor(limits, limit, key, 1) === FLEET) return changeBucket(context, db, ref, close)
  const ids: number[] = []
  for (const [each] of await db.all<[number]>('SELECT id FROM sluice.workers ORDER BY id'))
    ids.push(await bucketId(db, limit, key, each))
  // A worker that left meanwhile has taken its bucket along.
  const { buckets } = await lockBuckets(context, db, ids)
  const there = buckets.map(({ id }) => id)
  return changeBuckets(context, db, there, close)
}

/** Corrects a charge: positive units are taken, into debt if need be; negative ones return. */
export async function charge(
  context: Context,
  db: Statements,
  ref: BucketRef,
  units: number,
  chargedAtUs: number,
): Promise<void> {
  await changeBucket(context, db, ref, correctBy(units, chargedAtUs))
}

/**
 * Corrects a bucket by the budget that an API reported; an unchanged bucket is not written. True: a reason to emit an
 * event.
 */
export function calibrate(
  context: Context,
  db: Statements,
  ref: BucketRef,
  report: CalibrationReport,
): Promise<boolean> {
  return changeBucket(context, db, ref, calibrateTo(report))
}

/**
 * Changes existing buckets, and makes the next claim evaluate the heads of their wait lists. True: a reason to emit an
 * event.
 */
export async function changeBuckets(
  context: Context,
  db: Statements,
  ids: readonly number[],
  change: BucketChange,
): Promise<boolean> {
  const { buckets, limits, instant } = await lockBuckets(context, db, ids)
  // A bucket was forgotten between its creation and its lock: it equalled a new one, and the next charge creates it
  // again.
  if (buckets.length < ids.length)
    throw new RangeError(`One of the buckets ${ids.join()} was forgotten during its change`)
  let news = false
  for (const bucket of buckets) {
    const changed = change(bucket, instant.nowUs)
    if (changed === 'no') continue
    news ||= changed === 'news'
    bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
    await saveBucket(db, limits, bucket, instant.nowUs)
  }
  return news
}

async function changeBucket(
  context: Context,
  db: Statements,
  { limit, key, worker = FLEET }: BucketRef,
  change: BucketChange,
): Promise<boolean> {
  const owner = ownerFor(await currentLimits(context, db), limit, key, worker)
  return changeBuckets(context, db, [await bucketId(db, limit, key, owner)], change)
}
