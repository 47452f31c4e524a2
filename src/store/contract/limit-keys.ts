/** What a store tells of the budgets of a limit without loading each. */

/** Which budgets of a limit to list. */
export interface KeyQuery {
  readonly limit: string
  /** `waiting`: those with the most waiting jobs first, then by key. */
  readonly sort: 'waiting' | 'key'
  /** The last one that is known; null: from the first on. */
  readonly after: KeyCount | null
  readonly rows: number
}

/** A partition key of a limit, and how many jobs stand in the line of its bucket. */
export interface KeyCount {
  readonly key: string
  readonly waiting: number
}

/** All budgets of a limit together. */
export interface LimitTotals {
  readonly limit: string
  /** Buckets that are or were in use. */
  readonly keys: number
  /** Permits that are held. */
  readonly active: number
  readonly waiting: number
}
