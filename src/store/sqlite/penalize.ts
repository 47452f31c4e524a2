import { debit, extendsPenalty, penalize as penalizeState, credit } from '../../policy/limits/bucket.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { bucketId, loadBucket, saveBucket, wakeLine } from './buckets.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'
import { nameFor, ownName } from './own.ts'

/**
 * Closes a bucket until `untilUs`; every lane that waits on it is re-timed by the next claim. True: that is news.
 * @param worker of a limit of scope `worker`: whose own; without one those of all workers.
 */
export function penalizeBucket(
  context: Context,
  limit: string,
  key: string,
  untilUs: number,
  nowUs: number,
  worker?: number,
): boolean {
  let news = false
  for (const name of namesFor(context, limit, key, worker))
    changeBucket(context, name, key, nowUs, ({ policy, state }) => {
      if (!policy) return
      news = extendsPenalty(state, untilUs, nowUs) || news
      penalizeState(policy, state, untilUs, nowUs)
    })
  return news
}

/** The buckets that are meant: the fleet's, or one worker's own, or without one those of all. */
function namesFor(context: Context, limit: string, key: string, worker: number | undefined): string[] {
  context.policies.refresh()
  if (worker !== undefined) return [nameFor(context, limit, key, worker)]
  if (context.policies.policy(limit, key)?.scope !== 'worker') return [limit]
  return context.db.all<[number]>('SELECT id FROM workers').map(([id]) => ownName(limit, id))
}

/** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. */
export function charge(
  context: Context,
  limit: string,
  key: string,
  units: number,
  chargedAtUs: number,
  worker = 0,
): void {
  const nowUs = context.clock.nowUs()
  context.policies.refresh()
  changeBucket(context, nameFor(context, limit, key, worker), key, nowUs, ({ policy, state }) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) credit(policy, state, nowUs, -units, chargedAtUs)
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
