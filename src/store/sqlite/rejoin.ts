import type { Context } from './context.ts'
import { latestStartUs } from './enqueue.ts'
import { arrive } from './lanes.ts'
import { STATE } from '../shared/state.ts'
import type { Instant } from '../../jobs/series.ts'

/** A stored job that may start, for the first time or again. */
export interface Rejoining {
  readonly seq: number
  readonly lane: number
  readonly priority: number
  /** Wall clock, µs. */
  readonly expires: number | null
}

/** Makes a job available in its lane, at its old place. The bound on its wait starts again; its expiry stays. */
export function rejoin(context: Context, { seq, lane, priority, expires }: Rejoining, instant: Instant): void {
  context.policies.refresh()
  const latest = latestStartUs(context, limitsOf(context, lane), expires === null ? null : expires / 1000, instant)
  context.db.run(
    `UPDATE jobs SET state = ${STATE.available}, since = ?, due = ?, booked = NULL WHERE seq = ?`,
    instant.nowUs,
    latest,
    seq,
  )
  arrive(context, lane, priority, seq, instant.nowUs, latest !== null)
}

/** The limits of a lane's buckets; none for the unlimited lane. */
function limitsOf(context: Context, lane: number): { limit: string; key: string }[] {
  if (lane < 0) return []
  return context.db
    .all<[string, string]>(
      'SELECT b.limit_name, b.key FROM lanes l, json_each(l.buckets) e, buckets b WHERE l.id = ? AND b.id = e.value',
      lane,
    )
    .map(([limit, key]) => ({ limit, key }))
}
