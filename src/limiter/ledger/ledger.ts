import type { Timeline } from '../../policy/limits/timeline.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { BucketState } from '../../policy/limits/bucket.ts'

/** A bucket within one step of a backend. The step changes `state` in place, or puts another in its place. */
export interface LedgerBucket {
  readonly limit: string
  readonly key: string
  /** The policy in force. */
  readonly policy: LimitPolicy
  state: BucketState
  /** Permits held, by unexpired leases. */
  readonly active: number
  /** The state differs from the stored one. */
  changed: boolean
  /** Takes a permit until then. The same id again takes no second one. */
  takePermit(id: string, untilUs: number): void
  /** Notes a caller that was refused, and answers how many were lately. Absent: one process has the bucket alone. */
  refused?(caller: string, retryAfterUs: number | null): number
}

/** The buckets as of one instant of the backend's clock. */
export interface Ledger {
  readonly nowUs: number
  /** Null: the limit is not defined. */
  bucket(limit: string, key: string): LedgerBucket | null
  /** The changes of a limit, the ends among them that are over. */
  timeline(limit: string): Timeline
}
