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
