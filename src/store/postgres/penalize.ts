import type { Statements } from '../../database/postgres.ts'
import { debit, penalize as penalizeState, refund } from '../../policy/bucket.ts'
import { lockBuckets, saveBucket, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'

/** Closes a bucket; every lane that waits on it is re-timed by the next claim. */
export async function penalizeBucket(
  context: Context,
  db: Statements,
  bucket: number,
  untilUs: (nowUs: number) => number,
): Promise<void> {
  await change(context, db, bucket, ({ policy, state }, nowUs) => {
    if (policy) penalizeState(policy, state, untilUs(nowUs), nowUs)
  })
}

/** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. */
export async function charge(
  context: Context,
  db: Statements,
  bucket: number,
  units: number,
  chargedAtUs: number,
): Promise<void> {
  await change(context, db, bucket, ({ policy, state }, nowUs) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) refund(policy, state, nowUs, -units, chargedAtUs)
  })
}

async function change(
  context: Context,
  db: Statements,
  id: number,
  apply: (bucket: StoredBucket, nowUs: number) => void,
): Promise<void> {
  const { buckets, limits, instant } = await lockBuckets(context, db, [id])
  const [bucket] = buckets
  // Forgotten between its making and its lock: it was as new, and is so again; whoever charges it then finds it so.
  if (!bucket) throw new RangeError(`Bucket ${id} was forgotten while it was to be changed`)
  apply(bucket, instant.nowUs)
  bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
  await saveBucket(db, limits, bucket, instant.nowUs)
}
