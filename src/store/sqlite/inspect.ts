import { view } from '../../policy/bucket.ts'
import { expectedStartUs } from '../../policy/forecast.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { BucketReport } from '../store.ts'
import { bucketsOf, findBucket, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'

/** The buckets of a limit, or the one of a key, as they stand now. */
export function inspect(context: Context, limit: string, key?: string): BucketReport[] {
  context.policies.refresh()
  const nowUs = context.clock.nowUs()
  const policy = context.policies.current(limit)?.policy
  if (!policy) return []
  if (key === undefined) return bucketsOf(context, limit, nowUs).map((bucket) => report(context, bucket, nowUs))
  const bucket = findBucket(context, limit, key, nowUs)
  if (bucket) return [report(context, bucket, nowUs)]
  const state = context.policies.carry(limit, null, 0, nowUs)
  if (!state) return []
  const { available, debt, capacity } = view(policy, state, 0, nowUs)
  return [{ limit, key, available, debt, capacity, active: 0, waiting: 0, nextStartUs: null, drainedUs: null }]
}

function report(context: Context, bucket: StoredBucket, nowUs: number): BucketReport {
  const { limit, key, policy, state, active, wakeAtUs } = bucket
  const [waiting] = context.db.get<[number]>(
    'SELECT count(*) FROM lanes l JOIN jobs j ON j.lane = l.id AND j.state = 1 WHERE l.bucket = ? AND l.state = 2',
    bucket.id,
  ) as [number]
  const nextStartUs = wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
  const seen = policy ? view(policy, state, active, nowUs) : { available: 0, debt: 0, capacity: 0 }
  const drainedUs =
    policy && waiting > 0 ? expectedStartUs(policy, state, active, nowUs, { count: waiting, weight: 1 }) : null
  return {
    limit,
    key,
    available: seen.available,
    debt: seen.debt,
    capacity: seen.capacity,
    active,
    waiting,
    nextStartUs,
    drainedUs,
  }
}
