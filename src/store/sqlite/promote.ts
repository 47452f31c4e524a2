import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Context } from './context.ts'
import { readAhead } from './read-ahead.ts'
import { rejoin } from './rejoin.ts'
import { STATE } from '../shared/state.ts'
import type { Instant } from '../../jobs/series.ts'

type Row = [seq: number, lane: number, priority: number, expires: number | null]

/** Moves due jobs to their lanes: scheduled ones by the wall clock, retries by the store's. Returns their number. */
export function promote(context: Context, instant: Instant, limit: number): number {
  const scheduled = promoteFrom(context, STATE.scheduled, instant.wallUs, instant, limit)
  return scheduled + promoteFrom(context, STATE.retryable, instant.nowUs, instant, limit - scheduled)
}

/** The first due time of each kind; null: none. */
export type FirstDue = readonly [scheduled: number | null, retryable: number | null, available: number | null]

// States are written into the text, here and below. With partial indexes for some states, SQLite prepares a statement
// again whenever a state is bound.
const first = (state: number): string =>
  `(SELECT due FROM jobs WHERE state = ${state} AND due IS NOT NULL ORDER BY due LIMIT 1)`
const FIRST_DUE = `SELECT ${first(STATE.scheduled)}, ${first(STATE.retryable)}, ${first(STATE.available)}`

/** Reads the first due times: of scheduled jobs by the wall clock, of all others by the store's. */
export function firstDue({ db }: Context): FirstDue {
  return db.get<[number | null, number | null, number | null]>(FIRST_DUE) ?? [null, null, null]
}

/** Whether jobs are due that `promote` moves. */
export function mayPromote([scheduled, retryable]: FirstDue, { nowUs, wallUs }: Instant): boolean {
  return (scheduled !== null && scheduled <= wallUs) || (retryable !== null && retryable <= nowUs)
}

/** The next due time of a job, on the store's clock. */
export function nextDueUs([scheduled, retryable, available]: FirstDue, { nowUs, wallUs }: Instant): number {
  return Math.min(
    scheduled === null ? NEVER_US : nowUs + Math.max(0, scheduled - wallUs),
    retryable ?? NEVER_US,
    // A job may still start at its latest start itself.
    (available ?? NEVER_US) + 1,
  )
}

function promoteFrom(context: Context, state: number, untilUs: number, instant: Instant, limit: number): number {
  const rows = context.db.all<Row>(
    `SELECT seq, lane, priority, expires FROM jobs WHERE state = ${state} AND due <= ? ORDER BY due LIMIT ${readAhead(limit)}`,
    untilUs,
  )
  for (const [seq, lane, priority, expires] of rows) rejoin(context, { seq, lane, priority, expires }, instant)
  return rows.length
}
