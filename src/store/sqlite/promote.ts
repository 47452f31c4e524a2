import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Context } from './context.ts'
import { readAhead } from './read-ahead.ts'
import { rejoin } from './rejoin.ts'
import { STATE } from '../shared/state.ts'
import type { Instant } from './store-clock.ts'

type Row = [seq: number, lane: number, priority: number, expires: number | null]

/** Moves due jobs to their lanes: scheduled ones by the wall clock, retries by the store's. Returns their number. */
export function promote(context: Context, instant: Instant, limit: number): number {
  const scheduled = promoteFrom(context, STATE.scheduled, instant.wallUs, instant, limit)
  return scheduled + promoteFrom(context, STATE.retryable, instant.nowUs, instant, limit - scheduled)
}

/** The next due time of a job, on the store's clock. */
export function nextDueUs(context: Context, { nowUs, wallUs }: Instant): number {
  // States are written into the text, here and below. With partial indexes for some states, SQLite prepares a statement
  // again whenever a state is bound.
  const first = (state: number): number | undefined =>
    context.db.get<[number]>(
      `SELECT due FROM jobs WHERE state = ${state} AND due IS NOT NULL ORDER BY due LIMIT 1`,
    )?.[0]
  const scheduled = first(STATE.scheduled)
  return Math.min(
    scheduled === undefined ? NEVER_US : nowUs + Math.max(0, scheduled - wallUs),
    first(STATE.retryable) ?? NEVER_US,
    // A job may still start at its latest start itself.
    (first(STATE.available) ?? NEVER_US) + 1,
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
