import type { Bucket } from '../../policy/admission/lane.ts'
import { decodeBucket, newBucket } from '../../policy/limits/bucket.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { NO_POLICY, type Timeline } from '../../policy/limits/timeline.ts'

/** A limit of scope `worker` has buckets of its own for each registration of a worker; the fleet's bucket then only stands for all of them. */
export const FLEET = 0

/** A bucket of the store within one transaction. */
export interface StoredBucket extends Bucket {
  /** Whose own it is; 0: the fleet's. */
  readonly worker: number
  /** Lanes that need it: one that many need is shared, and its lines are grouped by it. */
  readonly lanes: number
  /** `wakeAtUs` as it was loaded. */
  readonly wokeAtUs: number | null
  /** Jobs that waited for it and have started since it was last told of; below 0: so many were told of before they started. */
  deferred: number
  /** When it was last told of that jobs wait for it; null: nobody waits. */
  toldUs: number | null
  /** `deferred` or `toldUs` changed. */
  counted: boolean
}

/** What is told of a bucket: its limit and key, and whose it is unless it is the fleet's. */
export function namesOf(bucket: { readonly limit: string; readonly key: string; readonly worker: number }): {
  limit: string
  key: string
  worker?: number
} {
  const { limit, key, worker } = bucket
  return worker === FLEET ? { limit, key } : { limit, key, worker }
}

/** A bucket as it is read, without the worker whose own it may be. */
export type BucketRow = [
  id: number,
  limit: string,
  key: string,
  state: string | null,
  revision: number,
  active: number,
  lanes: number,
  wakeAt: number | null,
  deferred: number,
  told: number | null,
]

/** The columns of a bucket `b`. */
export const BUCKET_COLUMNS =
  'b.id, b.limit_name, b.key, b.state, b.revision, b.active, b.lanes, b.wake_at, b.deferred, b.told'

/** What both stores keep of a bucket. */
export interface BucketFields extends Pick<
  StoredBucket,
  'id' | 'limit' | 'key' | 'worker' | 'active' | 'lanes' | 'deferred' | 'toldUs' | 'wakeAtUs'
> {
  /** Null: it was never written. */
  readonly stored: string | null
  /** Of the limit, when it was written. */
  readonly revision: number
}

/** A bucket as it was read, carried over to the limit's current policy. @param wallOffsetUs how far the wall clock is ahead of the store's */
export function bucketOf(
  fields: BucketFields,
  timeline: Timeline,
  nowUs: number,
  wallOffsetUs: () => number,
): StoredBucket {
  const { id, limit, key, worker, stored, active, lanes, wakeAtUs, deferred, toldUs } = fields
  const inForce = timeline.at(key)
  const policy = onTheWall(inForce.policy, wallOffsetUs)
  const written = stored === null ? null : decodeBucket(stored)
  const state = timeline.carry(key, written, fields.revision, nowUs) ?? newBucket(NO_POLICY, nowUs)
  // Kept even when nothing is charged: a bucket that begins empty fills from the first look on, and a clock that went back over a
  // reboot is made up for once, or the wait would begin again at every look.
  const changed = written === null ? beginsEmpty(policy) : nowUs < written.atUs
  const named = { id, limit, key, worker, policy, revision: inForce.revision }
  const waits = { wakeAtUs, wokeAtUs: wakeAtUs, deferred, toldUs, counted: false }
  return { ...named, state, active, lanes, ...waits, granted: 0, grantedUnits: 0, changed }
}

/** Calendar windows follow the wall clock: their policy is given its distance from the store's. */
function onTheWall(policy: LimitPolicy | null, wallOffsetUs: () => number): LimitPolicy | null {
  if (policy?.rule?.kind !== 'fixed' || policy.rule.window.align !== 'calendar') return policy
  return { ...policy, rule: { ...policy.rule, window: { ...policy.rule.window, wallOffsetUs: wallOffsetUs() } } }
}

function beginsEmpty(policy: LimitPolicy | null): boolean {
  return policy?.rule?.kind === 'rate' && policy.rule.startEmpty
}
