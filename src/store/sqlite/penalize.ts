import type { CalibrationReport } from '../contract/waits.ts'
import { type BucketChange, calibrateTo, closeUntil, correctBy } from '../shared/bucket-change.ts'
import { bucketId, loadBucket, saveBucket, wakeLine } from './buckets.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'
import { nameFor, ownName } from './own.ts'

/**
 * Closes a bucket until `untilUs`; the next claim re-times every lane that waits for it. True: a reason to emit an
 * event.
 * @param worker for a limit of scope `worker`: the owner; absent: the buckets of all workers
 */
export function penalizeBucket(
  context: Context,
  limit: string,
  key: string,
  untilUs: number,
  nowUs: number,
  worker?: number,
): boolean {
  const close = closeUntil(() => untilUs)
  return namesFor(context, limit, key, worker)
    .map((name) => changeBucket(context, name, key, nowUs, close))
    .includes(true)
}

/** The stored names of the buckets: the fleet's, one worker's own, or without a worker all of them. */
function namesFor(context: Context, limit: string, key: string, worker: number | undefined): string[] {
  context.policies.refresh()
  if (worker !== undefined) return [nameFor(context, limit, key, worker)]
  if (context.policies.policy(limit, key)?.scope !== 'worker') return [limit]
  return context.db.all<[number]>('SELECT id FROM workers').map(([id]) => ownName(limit, id))
}

/** Corrects a charge: positive units are taken, into debt if need be; negative ones return. */
export function charge(
  context: Context,
  limit: string,
  key: string,
  units: number,
  chargedAtUs: number,
  worker = 0,
): void {
  changeOwn(context, limit, key, worker, correctBy(units, chargedAtUs))
}

/**
 * Corrects a bucket by the budget that an API reported; an unchanged bucket is not written. True: a reason to emit an
 * event.
 */
export function calibrate(
  context: Context,
  limit: string,
  key: string,
  report: CalibrationReport,
  worker = 0,
): boolean {
  return changeOwn(context, limit, key, worker, calibrateTo(report))
}

function changeOwn(context: Context, limit: string, key: string, worker: number, change: BucketChange): boolean {
  const nowUs = context.clock.nowUs()
  context.policies.refresh()
  return changeBucket(context, nameFor(context, limit, key, worker), key, nowUs, change)
}

/** Changes one bucket, and makes the next claim evaluate the head of its wait list. True: a reason to emit an event. */
function changeBucket(context: Context, limit: string, key: string, nowUs: number, change: BucketChange): boolean {
  endOverdue(context)
  const bucket = loadBucket(context, bucketId(context, limit, key, nowUs), nowUs)
  const changed = change(bucket, nowUs)
  if (changed === 'no') return false
  bucket.changed = true
  saveBucket(context, bucket, nowUs)
  wakeLine(context, bucket.id, nowUs)
  return changed === 'news'
}
