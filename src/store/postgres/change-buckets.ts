import type { Statements } from '../../database/postgres.ts'
import type { BucketChange } from '../shared/stored-bucket.ts'
import { lockBuckets, saveBucket } from './buckets.ts'
import type { Context } from './context.ts'

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
  // Of several, a worker that left meanwhile has taken its own along.
  if (buckets.length === 0 && ids.length === 1)
    throw new RangeError(`Bucket ${ids.join()} was forgotten during its change`)
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
