import type { PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRecord } from '../../policy/limits/timeline.ts'

/** Summaries of a limit's budgets, which the store reads without loading each bucket. */

/** A filter of a limit's budgets. */
export interface KeyQuery {
  readonly limit: string
  /** `waiting`: the most waiting jobs first, then by key. */
  readonly sort: 'waiting' | 'key'
  /** The last row of the page before; null: the first page. */
  readonly after: KeyCount | null
  readonly rows: number
}

/** A partition key of a limit, with the number of jobs in its bucket's wait list. */
export interface KeyCount {
  readonly key: string
  readonly waiting: number
}

/** All budgets of a limit together. */
export interface LimitTotals {
  readonly limit: string
  /** Buckets that are or were in use. */
  readonly keys: number
  /** Permits held by active jobs. */
  readonly active: number
  readonly waiting: number
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
