import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Throttled } from '../contract/waits.ts'
import { namesOf } from '../shared/stored-bucket.ts'
import { sharedQueue } from './own.ts'
import { LANE, STATE } from '../shared/state.ts'

type Row = [
  queue: string,
  limit: string,
  key: string,
  wakeAt: number | null,
  waiting: number,
  worker: number,
  base: string | null,
]

/** Waiting jobs by queue and by the bucket in whose line they stand, the longest first. */
export async function throttled(db: Statements, rows: number): Promise<Throttled> {
  const all = await db.all<[...Row, number]>(
    `SELECT l.queue, b.limit_name, b.key, b.wake_at, count(*) AS waiting, b.worker, min(l.base), sluice.now_us()
     FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = ${STATE.available}
     WHERE l.state = ${LANE.waiting} GROUP BY b.id, l.queue ORDER BY waiting DESC, b.limit_name, b.key, l.queue`,
  )
  // Jobs of which each worker has a view wait in as many lines as there are workers: they are held back once none of these is open.
  const [apart] = (await db.get<[number]>(
    `SELECT count(*) FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = l.key AND j.state = ${STATE.available} WHERE l.state = ${LANE.spread}
     AND EXISTS (SELECT 1 FROM sluice.lanes v WHERE v.base = l.key AND v.state = ${LANE.waiting})
     AND NOT EXISTS (SELECT 1 FROM sluice.lanes v WHERE v.base = l.key AND v.state = ${LANE.open})`,
  )) as [number]
  return {
    waiting: all.reduce((sum, [, , , , waiting, , base]) => sum + (base === null ? waiting : 0), apart),
    rows: all.slice(0, rows).map(([queue, limit, key, wakeAt, waiting, worker, , nowUs]) => ({
      queue: sharedQueue(queue),
      ...namesOf({ limit, key, worker }),
      waiting,
      nextStartUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
    })),
  }
}
