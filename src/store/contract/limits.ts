import type { GuardInForce, Headroom } from '../../policy/limits/limit.ts'
import type { ShadowTally } from '../../policy/limits/bucket.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRecord } from '../../policy/limits/timeline.ts'

/** Summaries of a limit's budgets, which the store reads without loading each bucket. */

/** A filter of a limit's budgets. */
export interface KeyQuery {
  readonly limit: string
  /**
   * `waiting`: the most waiting jobs first, then by key. `next`: by the first start of its wait list, then those without
   * one, each by key.
   */
  readonly sort: 'waiting' | 'key' | 'next'
  /** The last row of the page before; null: the first page. */
  readonly after: Partial<KeyCount> | null
  readonly rows: number
}

/** A partition key of a limit, with the number of jobs in its bucket's wait list. */
export interface KeyCount {
  readonly key: string
  readonly waiting: number
  /** Permits held by active jobs. */
  readonly active: number
  /** When the next claim looks at its wait list; `NEVER_US`: when a permit returns; null: nothing waits in it. */
  readonly wakeAtUs: number | null
  /** The possible start of the first in its wait list; null: nothing waits, or a permit has to return first. */
  readonly nextStartUs: number | null
}

/** All budgets of a limit together. */
export interface LimitTotals {
  readonly limit: string
  /** Buckets that are or were in use. */
  readonly keys: number
  /** Permits held by active jobs. */
  readonly active: number
  readonly waiting: number
  /** Buckets with jobs in their wait lists. */
  readonly heldKeys: number
  /** The soonest possible start of the first in one of these lists; null: no job waits, or permits have to return. */
  readonly nextStartUs: number | null
}

/** A change of a limit while it runs, for all keys or for one. */
export interface OverrideRequest {
  readonly limit: string
  /** Null: all keys. */
  readonly key: string | null
  /** The limit and each key of it have at most one of each kind: a new one replaces the old. */
  readonly kind: 'override' | 'pause'
  /** Null ends the current one. A pause only uses whether this is null. */
  readonly change: PolicyChange | null
  /** On the store's clock; null: until a caller ends it. */
  readonly untilUs: number | null
  readonly by: string | null
  readonly reason: string | null
}

/** An override or a pause on record. */
export interface Override extends OverrideRecord {
  readonly limit: string
}

/** The present state of one bucket. */
export interface BucketReport {
  readonly limit: string
  readonly key: string
  /** The owner, for a limit of scope `worker`; null: no worker has used it yet; absent: all workers share it. */
  readonly worker?: number | null
  /** Units that could start now; ≥ 0. */
  readonly available: number
  /** Units owed beyond the budget; ≥ 0. */
  readonly debt: number
  readonly capacity: number
  /** Permits held by active jobs. */
  readonly active: number
  /** Jobs that wait in lanes of this bucket. */
  readonly waiting: number
  /** The possible start of the first in its wait list; null: no job waits, or a permit has to return. */
  readonly nextStartUs: number | null
  /** The earliest instant by which all waiting jobs can have started; null: unknown. */
  readonly drainedUs: number | null
  /** The budget reserved for urgent jobs; absent: none. */
  readonly headroom?: Headroom
  /** The name of the backend that keeps it; absent: the store does. */
  readonly backend?: string
  /** The common limit of which it has a share, and when its next start is within that; null: when a permit returns. */
  readonly guarantee?: { readonly limit: string; readonly fromUs: number | null }
  /** The guard in force; absent: none. */
  readonly guard?: GuardInForce
  /** Of a limit in shadow mode: its tally, and how long a start would wait now; absent: it is enforced. */
  readonly shadow?: ShadowTally & { readonly waitUs: number | null }
  /** The overrides and pauses in force for it. */
  readonly overrides: readonly Override[]
}
