import { credit, debit, extendsPenalty, penalize as closeBucket } from '../../policy/limits/bucket.ts'
import { checkCorrection } from '../../policy/limits/limit.ts'
import { calibrate as calibrateWindow, setLevel } from '../../policy/limits/calibrate.ts'
import type { BucketUse } from '../contract/store.ts'
import type { CalibrationReport } from '../contract/waits.ts'
import { changeBuckets } from './buckets.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all } from './sql.ts'
import { type BucketChange, FLEET } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

/**
 * Closes a bucket until `untilUs`; the next claim re-times every lane that waits for it. True: a reason to emit an
 * event.
 * @param worker for a limit of scope `worker`: the owner; absent: the buckets of all workers
 */
export function* penalize(
  access: Access,
  limit: string,
  key: string,
  untilUs: number,
  worker?: number,
): Reading<boolean> {
  const close = closeUntil(() => untilUs)
  const limits = yield* ask(() => access.limits())
  if (worker !== undefined || ownerOf(limits, limit, key, 1) === FLEET)
    return yield* change(access, limit, key, worker ?? FLEET, close)
  const ids: number[] = []
  for (const [each] of yield* all<[number]>(access.db, 'SELECT id FROM sluice.workers ORDER BY id'))
    ids.push(yield* ask(() => access.bucketId(limit, key, each)))
  return yield* changeBuckets(access, ids, close)
}

/**
 * Corrects a charge: positive units are taken, into debt if need be; negative ones return.
 * @throws {SluiceError} `option.invalid` for a limit that counts no units
 */
export function* charge(
  access: Access,
  limit: string,
  key: string,
  units: number,
  chargedAtUs: number,
  worker: number = FLEET,
): Reading<void> {
  const policy = (yield* ask(() => access.limits())).policy(limit, key)
  if (policy) checkCorrection(limit, policy, units)
  yield* change(access, limit, key, worker, correctBy(units, chargedAtUs))
}

/** Gives back what a start took of a bucket. */
export function* giveBack(
  access: Access,
  { limit, key, weight }: BucketUse,
  takenAtUs: number,
  worker: number,
): Reading<void> {
  yield* change(access, limit, key, worker, correctBy(-weight, takenAtUs))
}

/**
 * Corrects a bucket by the budget that an API reported; an unchanged bucket is not written. True: a reason to emit an
 * event.
 */
export function calibrate(
  access: Access,
  limit: string,
  key: string,
  report: CalibrationReport,
  worker: number = FLEET,
): Reading<boolean> {
  return change(access, limit, key, worker, calibrateTo(report))
}

/** Makes the wait lists of buckets due, and forgets what their backend refused. */
export function* reopen(
  access: Access,
  buckets: readonly { readonly limit: string; readonly key: string }[],
): Reading<void> {
  const ids: number[] = []
  for (const { limit, key } of buckets) ids.push(yield* ask(() => access.bucketId(limit, key, FLEET)))
  yield* changeBuckets(access, ids, ({ state }) => {
    delete state.allowance
    return 'yes'
  })
}

function* change(access: Access, limit: string, key: string, worker: number, how: BucketChange): Reading<boolean> {
  const owner = ownerOf(yield* ask(() => access.limits()), limit, key, worker)
  const id = yield* ask(() => access.bucketId(limit, key, owner))
  return yield* changeBuckets(access, [id], how)
}

/** The owner of the bucket that a worker uses: the worker itself, or the fleet. */
function ownerOf(limits: Timelines, limit: string, key: string, worker: number): number {
  return limits.policy(limit, key)?.scope === 'worker' ? worker : FLEET
}

/** Closes a bucket. */
export function closeUntil(untilUs: (nowUs: number) => number): BucketChange {
  return ({ policy, state }, nowUs) => {
    if (!policy) return 'yes'
    const isNews = extendsPenalty(state, untilUs(nowUs), nowUs)
    closeBucket(policy, state, untilUs(nowUs), nowUs)
    return isNews ? 'news' : 'yes'
  }
}

/** Corrects a charge: positive units are taken, into debt if need be; negative ones return. */
function correctBy(units: number, chargedAtUs: number): BucketChange {
  return ({ policy, state }, nowUs) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) credit(policy, state, nowUs, -units, chargedAtUs)
    return 'yes'
  }
}

/** Corrects a bucket by the budget that an API reported. */
function calibrateTo(report: CalibrationReport): BucketChange {
  const isWindow = report.reset === 'window'
  return ({ policy, state }, nowUs) => {
    if (!policy || (isWindow && report.resetUs <= nowUs)) return 'no'
    const directions = { down: !isWindow, up: report.direction === 'both' }
    const leveled = setLevel(policy, state, report.remaining, directions, nowUs)
    const bounded = isWindow ? calibrateWindow(policy, state, report, nowUs) : 'no'
    if (leveled === 'news' || bounded === 'news') return 'news'
    return leveled === 'no' && bounded === 'no' ? 'no' : 'yes'
  }
}
