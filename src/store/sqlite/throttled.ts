import { NEVER_US } from '../../policy/lane.ts'
import type { Throttled } from '../waits.ts'
import { type Context, queueName } from './context.ts'
import { LANE } from './state.ts'

type Row = [queue: number, limit: string, key: string, wakeAt: number | null, waiting: number]

/** Waiting jobs by queue and by the bucket in whose line they stand, the longest first. */
export function throttled(context: Context, rows: number): Throttled {
  const nowUs = context.clock.nowUs()
  const all = context.db.all<Row>(
    `SELECT l.queue, b.limit_name, b.key, b.wake_at, count(*) AS waiting
     FROM lanes l JOIN buckets b ON b.id = l.bucket CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1
     WHERE l.state = ${LANE.waiting} GROUP BY l.bucket, l.queue ORDER BY waiting DESC, b.limit_name, b.key, l.queue`,
  )
  return {
    waiting: all.reduce((sum, [, , , , waiting]) => sum + waiting, 0),
    rows: all.slice(0, rows).map(([queue, limit, key, wakeAt, waiting]) => ({
      queue: queueName(context, queue),
      limit,
      key,
      waiting,
      nextStartUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
    })),
  }
}
