import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Throttled } from '../waits.ts'
import { LANE } from './state.ts'

type Row = [queue: string, limit: string, key: string, wakeAt: number | null, waiting: number]

/** Waiting jobs by queue and by the bucket in whose line they stand, the longest first. */
export async function throttled(db: Statements, rows: number): Promise<Throttled> {
  const all = await db.all<[...Row, number]>(
    `SELECT l.queue, b.limit_name, b.key, b.wake_at, count(*) AS waiting, sluice.now_us()
     FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket JOIN sluice.jobs j ON j.lane = l.key AND j.state = 1
     WHERE l.state = ${LANE.waiting} GROUP BY b.id, l.queue ORDER BY waiting DESC, b.limit_name, b.key, l.queue`,
  )
  return {
    waiting: all.reduce((sum, [, , , , waiting]) => sum + waiting, 0),
    rows: all.slice(0, rows).map(([queue, limit, key, wakeAt, waiting, nowUs]) => ({
      queue,
      limit,
      key,
      waiting,
      nextStartUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
    })),
  }
}
