// Buckets and lanes as a decision has read them.
import type { Bucket, Head, Lane } from '../../src/policy/admission/lane.ts'
import { charge, newBucket } from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { EPOCH_US, policyOf, rate, SECOND } from './histories.ts'

export const STRICT: LimitPolicy = policyOf(rate(100, SECOND, 1))
let ids = 0

/** A bucket of whose units these many have been taken at the clock. */
export function bucketOf(policy: LimitPolicy | null, taken = 0, lanes = 1): Bucket {
  const state = newBucket(policy ?? STRICT, EPOCH_US)
  for (let i = 0; i < taken; i++) charge(policy ?? STRICT, state, EPOCH_US, 1)
  return {
    id: ++ids,
    limit: 'r',
    key: String(ids),
    policy,
    revision: 0,
    state,
    active: 0,
    lanes,
    wakeAtUs: null,
    granted: 0,
    grantedUnits: 0,
    changed: false,
  }
}

/** The first job of a lane. */
export function headWith(more: Partial<Head> = {}): Head {
  return { seq: 1, priority: 0, given: 0, weights: null, attempt: 0, sinceUs: EPOCH_US, latestUs: null, ...more }
}

/** A waiting lane that needs these buckets. */
export function laneOf(...buckets: readonly Bucket[]): Lane {
  return {
    id: ++ids,
    queue: 1,
    bucketIds: buckets.map(({ id }) => id),
    buckets,
    state: 'waiting',
    on: null,
    deputyOf: null,
    priority: 0,
    turn: 0,
    taken: 0,
    share: 1,
    head: 1,
    heads: [],
    next: 0,
    loaded: 0,
    ended: false,
    gone: new Set(),
    scanCursor: null,
    changed: false,
  }
}
