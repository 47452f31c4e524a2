import { rulesHere } from '../../policy/admission/elsewhere.ts'
import type { Bucket } from '../../policy/admission/lane.ts'
import { newBucket } from '../../policy/limits/bucket.ts'
import { decodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { column, type Columns, columns, numbers, texts } from './columns.ts'
import { NO_POLICY, type Timeline } from '../../policy/limits/timeline.ts'

/**
 * A limit of scope `worker` has buckets of its own for each registration of a worker. The fleet's bucket then only
 * stands for all of them.
 */
export const FLEET = 0

/** A bucket of the store within one transaction. */
export interface StoredBucket extends Bucket {
  /** The worker that owns it; 0: the fleet. */
  readonly worker: number
  /** `wakeAtUs` as it was loaded. */
  readonly wokeAtUs: number | null
  /**
   * Jobs that had waited for it and have started since its last event; below 0: the events counted that many jobs
   * before they started.
   */
  deferred: number
  /** The time of its last event about waiting jobs; null: no job waits. */
  toldUs: number | null
  /** `deferred` or `toldUs` changed. */
  counted: boolean
}

/**
 * Changes a bucket within one transaction. `no`: nothing changed, and the store writes nothing; `news`: the change is a
 * reason to emit an event.
 */
export type BucketChange = (bucket: StoredBucket, nowUs: number) => 'no' | 'yes' | 'news'

/** The instant of a start, or the end of the override in force if that is sooner: other rules hold from there on. */
export function atEndOfOverride<T extends number | null>(
  startUs: T,
  { endsUs = Infinity }: Pick<StoredBucket, 'endsUs'>,
): T | number {
  return startUs === null ? startUs : Math.min(startUs, endsUs)
}

/** The names of a bucket in an event: its limit and key, and its owner unless that is the fleet. */
export function namesOf(bucket: { readonly limit: string; readonly key: string; readonly worker: number }): {
  limit: string
  key: string
  worker?: number
} {
  const { limit, key, worker } = bucket
  return worker === FLEET ? { limit, key } : { limit, key, worker }
}

/** The columns of a bucket, in the order in which `claim_read` of PostgreSQL answers them too. */
export const BUCKET: Columns<BucketFields> = columns({
  ...numbers('id'),
  limit: column<string>('limit_name'),
  ...texts('key'),
  stored: column<string | null>('state'),
  ...numbers('revision', 'active', 'lanes'),
  wakeAtUs: column<number | null>('wake_at'),
  ...numbers('deferred'),
  toldUs: column<number | null>('told'),
  ...numbers('worker'),
})

/** The fields of a bucket that both stores keep. */
export interface BucketFields extends Pick<
  StoredBucket,
  'id' | 'limit' | 'key' | 'worker' | 'active' | 'lanes' | 'deferred' | 'toldUs' | 'wakeAtUs'
> {
  /** Null: the store has never written it. */
  readonly stored: string | null
  /** The limit's revision at the last write. */
  readonly revision: number
}

/** A stored bucket, carried over to the limit's current policy. @param wallOffsetUs the wall clock minus the store's */
export function bucketOf(
  fields: BucketFields,
  timeline: Timeline,
  nowUs: number,
  wallOffsetUs: () => number,
): StoredBucket {
  const { id, limit, key, worker, stored, active, lanes, wakeAtUs, deferred, toldUs } = fields
  const inForce = timeline.at(key)
  const policy = onTheWall(rulesHere(inForce.policy), wallOffsetUs)
  const written = stored === null ? null : decodeBucket(stored)
  const state = timeline.carry(key, written, fields.revision, nowUs) ?? newBucket(NO_POLICY, nowUs)
  // Written even without a charge. A bucket that begins empty fills from its first read on. A clock that went back over
  // a reboot is corrected once; otherwise the wait would restart at every read.
  // A changed limit makes what its backend said about it void.
  if (policy?.backend !== undefined && fields.revision !== inForce.revision) delete state.allowance
  const changed = written === null ? beginsEmpty(policy) : nowUs < written.atUs && policy?.mode !== 'shadow'
  const { revision, endsUs } = inForce
  const named = { id, limit, key, worker, policy, revision, ...(endsUs !== undefined && { endsUs }) }
  const waits = { wakeAtUs, wokeAtUs: wakeAtUs, deferred, toldUs, counted: false }
  return { ...named, state, active, lanes, ...waits, granted: 0, grantedUnits: 0, changed }
}

/** The id of a bucket that is not stored. */
export const UNUSED = 0

/** A bucket that no job has needed yet; it is not stored. */
export function unusedBucket(
  limit: string,
  key: string,
  timeline: Timeline,
  { nowUs, wallUs }: { readonly nowUs: number; readonly wallUs: number },
): StoredBucket {
  const fields = { id: UNUSED, limit, key, worker: FLEET, stored: null, revision: 0, active: 0, lanes: 0 }
  const waits = { wakeAtUs: null, deferred: 0, toldUs: null }
  return bucketOf({ ...fields, ...waits }, timeline, nowUs, () => wallOffset(nowUs, wallUs))
}

/**
 * The wall clock minus the store's, to a tenth of a second: a wall clock is read in ms, and a window's edge must not
 * vary by that.
 */
export function wallOffset(nowUs: number, wallUs: number): number {
  return Math.round((wallUs - nowUs) / 100_000) * 100_000
}

/** Calendar windows follow the wall clock: their policy gets its distance from the store's. */
function onTheWall(policy: LimitPolicy | null, wallOffsetUs: () => number): LimitPolicy | null {
  if (policy?.rule?.kind !== 'fixed' || policy.rule.window.align !== 'calendar') return policy
  return { ...policy, rule: { ...policy.rule, window: { ...policy.rule.window, wallOffsetUs: wallOffsetUs() } } }
}

function beginsEmpty(policy: LimitPolicy | null): boolean {
  return policy?.rule?.kind === 'rate' && policy.rule.startEmpty
}

/** The parts of a job by which it reaches the reserves of its limits. */
export interface Reaching {
  readonly uses: readonly { readonly limit: string; readonly key: string }[]
  readonly priority: number
}
