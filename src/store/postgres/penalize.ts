import type { Statements } from '../../database/postgres.ts'
import { debit, extendsPenalty, penalize as penalizeState, credit } from '../../policy/limits/bucket.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { bucketId, lockBuckets, saveBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { FLEET } from '../shared/stored-bucket.ts'
import { ownerFor } from './own.ts'

/** Which bucket is meant: of a limit of scope `worker` that of the worker; undefined: those of all workers. */
export interface Meant {
  readonly limit: string
  readonly key: string
  readonly worker: number | undefined
}

/** Closes a bucket; every lane that waits on it is re-timed by the next claim. True: that is news. */
export async function penalize(context: Context, db: Statements, meant: Meant, untilUs: number): Promise<boolean> {
  const { limit, key, worker } = meant
  const limits = await currentLimits(context, db)
  if (worker !== undefined || ownerFor(limits, limit, key, 1) === FLEET)
    return penalizeBuckets(context, db, [await idOf(context, db, meant)], () => untilUs)
  const ids: number[] = []
  for (const [each] of await db.all<[number]>('SELECT id FROM sluice.workers ORDER BY id'))
    ids.push(await bucketId(db, limit, key, each))
  // A worker that has left meanwhile has taken its bucket along.
  const { buckets } = await lockBuckets(context, db, ids)
  const there = buckets.map(({ id }) => id)
  return penalizeBuckets(context, db, there, () => untilUs)
}

/** The same for buckets that are there already. */
export async function penalizeBuckets(
  context: Context,
  db: Statements,
  ids: readonly number[],
  untilUs: (nowUs: number) => number,
): Promise<boolean> {
  let news = false
  await changeBuckets(context, db, ids, ({ policy, state }, nowUs) => {
    if (!policy) return
    news = extendsPenalty(state, untilUs(nowUs), nowUs) || news
    penalizeState(policy, state, untilUs(nowUs), nowUs)
  })
  return news
}

/** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. */
export async function charge(
  context: Context,
  db: Statements,
  meant: Meant,
  units: number,
  chargedAtUs: number,
): Promise<void> {
  await changeBucket(context, db, meant, ({ policy, state }, nowUs) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) credit(policy, state, nowUs, -units, chargedAtUs)
  })
}

/** Changes one bucket, unless `apply` answers that it did not; whoever waits for it is looked at again. */
export async function changeBucket(
  context: Context,
  db: Statements,
  meant: Meant,
  apply: (bucket: StoredBucket, nowUs: number) => boolean | void,
): Promise<void> {
  await changeBuckets(context, db, [await idOf(context, db, meant)], apply)
}

async function changeBuckets(
  context: Context,
  db: Statements,
  ids: readonly number[],
  apply: (bucket: StoredBucket, nowUs: number) => boolean | void,
): Promise<void> {
  const { buckets, limits, instant } = await lockBuckets(context, db, ids)
  // Forgotten between its making and its lock: it was as new, and is so again; whoever charges it then finds it so.
  if (buckets.length < ids.length)
    throw new RangeError(`Of the buckets ${ids.join()} one was forgotten while it was to be changed`)
  for (const bucket of buckets) {
    if (apply(bucket, instant.nowUs) === false) continue
    bucket.wakeAtUs = bucket.wakeAtUs === null ? null : Math.min(bucket.wakeAtUs, instant.nowUs)
    await saveBucket(db, limits, bucket, instant.nowUs)
  }
}

async function idOf(context: Context, db: Statements, { limit, key, worker = FLEET }: Meant): Promise<number> {
  return bucketId(db, limit, key, ownerFor(await currentLimits(context, db), limit, key, worker))
}
