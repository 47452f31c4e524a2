import { STATE } from '../shared/state.ts'
import { bucketId } from './buckets.ts'
import type { Context } from './context.ts'
import { ownName, ownRange } from './own.ts'

/** Counts permits of a limit that had none: its active jobs now hold theirs. */
export function countPermits(context: Context, limit: string, concerns: (key: string) => boolean): void {
  const rows = context.db.all<
    [seq: number, bucket: number, key: string, permits: string | null, worker: number | null]
  >(
    `SELECT j.seq, b.id, b.key, j.permits, j.worker FROM jobs j, lanes l, json_each(l.buckets) e, buckets b
     WHERE j.state = ${STATE.active} AND j.due IS NOT NULL AND l.id = j.lane AND b.id = e.value AND b.limit_name = ?1
     UNION ALL SELECT j.seq, b.id, b.key, j.permits, j.worker FROM jobs j, json_each(j.permits) e, buckets b
     WHERE j.state = ${STATE.active} AND j.due IS NOT NULL AND b.id = -e.value
       AND (b.limit_name = ?1 OR (b.limit_name > ?2 AND b.limit_name < ?3))`,
    limit,
    ...ownRange(limit),
  )
  const nowUs = context.clock.nowUs()
  const holds = new Map<number, number[]>()
  for (const [seq, named, key, permits, worker] of rows) {
    const apart = context.policies.current.policy(limit, key)?.scope === 'worker' && worker !== null
    const bucket = bucketId(context, apart ? ownName(limit, worker) : limit, key, nowUs)
    const held = holds.get(seq) ?? (permits === null ? [] : (JSON.parse(permits) as number[]))
    if (!concerns(key) || held.includes(bucket)) continue
    holds.set(seq, [...held.filter((id) => id !== -named), bucket])
    context.db.run('UPDATE buckets SET active = active + 1 WHERE id = ?', bucket)
  }
  for (const [seq, held] of holds)
    context.db.run('UPDATE jobs SET permits = ? WHERE seq = ?', JSON.stringify(held), seq)
}
