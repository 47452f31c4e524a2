import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Throttled } from '../contract/waits.ts'
import { type Context, queueName } from './context.ts'
import { readName } from './own.ts'
import { LANE, STATE } from '../shared/state.ts'

type Row = [queue: number, limit: string, key: string, wakeAt: number | null, waiting: number, base: number | null]

/** Waiting jobs by queue and by the bucket in whose line they stand, the longest first. */
export function throttled(context: Context, rows: number): Throttled {
  const nowUs = context.clock.nowUs()
  const all = context.db.all<Row>(
    `SELECT l.queue, b.limit_name, b.key, b.wake_at, count(*) AS waiting, min(l.base)
     FROM lanes l JOIN buckets b ON b.id = l.bucket CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = ${STATE.available}
     WHERE l.state = ${LANE.waiting} GROUP BY l.bucket, l.queue ORDER BY waiting DESC, b.limit_name, b.key, l.queue`,
  )
  // Jobs of which each worker has a view wait in as many lines as there are workers: they are held back once none of these is open.
  const [apart] = context.db.get<[number]>(
    `SELECT count(*) FROM lanes l CROSS JOIN jobs j ON j.lane = l.id AND j.state = ${STATE.available} WHERE l.state = ${LANE.spread}
     AND EXISTS (SELECT 1 FROM lanes v WHERE v.base = l.id AND v.state = ${LANE.waiting})
     AND NOT EXISTS (SELECT 1 FROM lanes v WHERE v.base = l.id AND v.state = ${LANE.open})`,
  ) as [number]
  return {
    waiting: all.reduce((sum, [, , , , waiting, base]) => sum + (base === null ? waiting : 0), apart),
    rows: all.slice(0, rows).map(([queue, limit, key, wakeAt, waiting]) => ({
      queue: queueName(context, queue),
      ...ownerOf(limit),
      key,
      waiting,
      nextStartUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
    })),
  }
}

function ownerOf(name: string): { limit: string; worker?: number } {
  const { limit, worker } = readName(name)
  return worker === 0 ? { limit } : { limit, worker }
}
