import { NEVER_US } from '../../policy/lane.ts'
import type { Context } from './context.ts'
import { latestStartUs } from './enqueue.ts'
import { arrive } from './lanes.ts'
import { portion } from './portion.ts'
import { STATE } from './state.ts'
import type { Instant } from './store-clock.ts'

type Row = [seq: number, lane: number, priority: number, expires: number | null]

/** Moves jobs whose time has come to their lanes: scheduled ones by the wall clock, retries by the store's. Answers how many. */
export function promote(context: Context, instant: Instant, limit: number): number {
  const scheduled = promoteFrom(context, STATE.scheduled, instant.wallUs, instant, limit)
  return scheduled + promoteFrom(context, STATE.retryable, instant.nowUs, instant, limit - scheduled)
}

/** When the next job's time comes, on the store's clock. */
export function nextDueUs(context: Context, { nowUs, wallUs }: Instant): number {
  const first = (state: number): number | undefined =>
    context.db.get<[number]>(
      'SELECT due FROM jobs WHERE state = ? AND due IS NOT NULL ORDER BY due LIMIT 1',
      state,
    )?.[0]
  const scheduled = first(STATE.scheduled)
  return Math.min(
    scheduled === undefined ? NEVER_US : nowUs + Math.max(0, scheduled - wallUs),
    first(STATE.retryable) ?? NEVER_US,
    // At its latest start itself a job may still start.
    (first(STATE.available) ?? NEVER_US) + 1,
  )
}

function promoteFrom(context: Context, state: number, untilUs: number, instant: Instant, limit: number): number {
  const rows = context.db.all<Row>(
    `SELECT seq, lane, priority, expires FROM jobs WHERE state = ? AND due <= ? ORDER BY due LIMIT ${portion(limit)}`,
    state,
    untilUs,
  )
  for (const [seq, lane, priority, expires] of rows) {
    const latest = latestStartUs(context, limitsOf(context, lane), expires === null ? null : expires / 1000, instant)
    context.db.run(
      `UPDATE jobs SET state = ${STATE.available}, since = ?, due = ? WHERE seq = ?`,
      instant.nowUs,
      latest,
      seq,
    )
    arrive(context, lane, priority, seq, instant.nowUs, latest !== null)
  }
  return rows.length
}

/** The limits of a lane's buckets; none for the open line. */
export function limitsOf(context: Context, lane: number): { limit: string }[] {
  if (lane < 0) return []
  return context.db
    .all<[string]>(
      'SELECT b.limit_name FROM lanes l, json_each(l.buckets) e, buckets b WHERE l.id = ? AND b.id = e.value',
      lane,
    )
    .map(([limit]) => ({ limit }))
}
