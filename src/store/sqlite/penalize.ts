import { debit, extendsPenalty, penalize as penalizeState, refund } from '../../policy/bucket.ts'
import { bucketId, loadBucket, saveBucket, type StoredBucket, wakeLine } from './buckets.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'

/** Closes a bucket until `untilUs`; every lane that waits on it is re-timed by the next claim. True: that is news. */
export function penalizeBucket(context: Context, limit: string, key: string, untilUs: number, nowUs: number): boolean {
  let news = false
  changeBucket(context, limit, key, nowUs, ({ policy, state }) => {
    if (!policy) return
    news = extendsPenalty(state, untilUs, nowUs)
    penalizeState(policy, state, untilUs, nowUs)
  })
  return news
}

/** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. */
export function charge(context: Context, limit: string, key: string, units: number, chargedAtUs: number): void {
  const nowUs = context.clock.nowUs()
  changeBucket(context, limit, key, nowUs, ({ policy, state }) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) refund(policy, state, nowUs, -units, chargedAtUs)
  })
}

/** Changes one bucket, unless `apply` answers that it did not; whoever waits for it is looked at again. */
export function changeBucket(
  context: Context,
  limit: string,
  key: string,
  nowUs: number,
  apply: (bucket: StoredBucket) => boolean | void,
): void {
  endOverdue(context)
  const bucket = loadBucket(context, bucketId(context, limit, key, nowUs), nowUs)
  if (apply(bucket) === false) return
  bucket.changed = true
  saveBucket(context, bucket, nowUs)
  wakeLine(context, bucket.id, nowUs)
}
