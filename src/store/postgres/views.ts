import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { WorkerWait } from '../contract/waits.ts'

type Row = [worker: number, limit: string | null, key: string | null, wakeAt: number | null]

/** The wait of a spread lane at each worker, by worker. */
export async function waitsOfWorkers(db: Statements, lane: number, nowUs: number): Promise<WorkerWait[]> {
  const rows = await db.all<Row>(
    `SELECT l.worker, b.limit_name, b.key, b.wake_at FROM sluice.lanes l LEFT JOIN sluice.buckets b ON b.id = l.bucket WHERE l.base = (SELECT key FROM sluice.lanes WHERE id = $1)
     AND l.worker IN (SELECT id FROM sluice.workers WHERE alive_until > $2) ORDER BY l.worker`,
    lane,
    nowUs,
  )
  return rows.map(([worker, limit, key, wakeAt]) => ({
    worker,
    waitsOn: limit === null || key === null ? null : { limit, key },
    untilUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
  }))
}
