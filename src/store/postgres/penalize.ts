import type { Statements } from '../../database/postgres.ts'
import { debit, extendsPenalty, penalize as penalizeState, refund } from '../../policy/bucket.ts'
import { lockBuckets, saveBucket, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'

/** Closes a bucket; every lane that waits on it is re-timed by the next claim. True: that is news. */
export async function penalizeBucket(
  context: Context,
  db: Statements,
  bucket: number,
  untilUs: (nowUs: number) => number,
): Promise<boolean> {
  let news = false
  await changeBucket(context, db, bucket, ({ policy, state }, nowUs) => {
    if (!policy) return
    news = extendsPenalty(state, untilUs(nowUs), nowUs)
    penalizeState(policy, state, untilUs(nowUs), nowUs)
  })
  return news
}

/** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. */
export async function charge(
  context: Context,
  db: Statements,
  bucket: number,
  units: number,
  chargedAtUs: number,
): Promise<void> {
  await changeBucket(context, db, bucket, ({ policy, state }, nowUs) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) refund(policy, state, nowUs, -units, chargedAtUs)
  })
}

/** Changes one bucket, unless `apply` answers that it did not; whoever waits for it is looked at again. */
export async function changeBucket(
  context: Context,
  db: Statements,
  id: number,
  apply: (bucket: StoredBucket, nowUs: number) => boolean | void,
): Promise<void> {
  const { buckets, limits, instant } = await lockBuckets(context, db, [id])
  const [bucket] = buckets
  // Forgotten between its making and its lock: it was as new, and is so again; whoever charges it then finds it so.
  if (!bucket) throw new RangeError(`Bucket ${id} was forgotten while it was to be changed`)
  if (apply(bucket, instant.nowUs) === false) return
  bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
  await saveBucket(db, limits, bucket, instant.nowUs)
}
