import { comesToDrop, gainsPermits } from '../shared/limit-changes.ts'
import { STATE } from '../shared/state.ts'
import { bucketId } from './buckets.ts'
import type { Context } from './context.ts'
import { watchAll } from './drop-watch.ts'
import { ownName, ownRange } from './own.ts'

/**
 * Changes the policy in force for a limit, or for one key of it. Every affected wait list is due at once: the next
 * claims carry its buckets over and re-time them.
 *
 * @param key null: all keys
 */
export function changeLimit(
  context: Context,
  limit: string,
  key: string | null,
  nowUs: number,
  write: () => void,
): void {
  const before = context.policies.timeline(limit)
  write()
  const after = context.policies.timeline(limit)
  if (key === null)
    context.db.run('UPDATE buckets SET wake_at = ? WHERE limit_name = ? AND wake_at IS NOT NULL', nowUs, limit)
  else
    context.db.run(
      'UPDATE buckets SET wake_at = ? WHERE limit_name = ? AND key = ? AND wake_at IS NOT NULL',
      nowUs,
      limit,
      key,
    )
  context.db.run(
    'UPDATE buckets SET wake_at = ? WHERE limit_name > ? AND limit_name < ? AND wake_at IS NOT NULL AND key = coalesce(?, key)',
    nowUs,
    ...ownRange(limit),
    key,
  )
  const concerned = key === null ? after.keys() : [key]
  for (const each of concerned) if (comesToDrop(before, after, each)) watchAll(context, limit, each, nowUs)
  if (concerned.some((each) => gainsPermits(before, after, each)))
    countPermits(context, limit, (each) => gainsPermits(before, after, each))
}

/** Counts permits of a limit that had none: its active jobs now hold theirs. */
function countPermits(context: Context, limit: string, concerns: (key: string) => boolean): void {
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
    const apart = context.policies.policy(limit, key)?.scope === 'worker' && worker !== null
    const bucket = bucketId(context, apart ? ownName(limit, worker) : limit, key, nowUs)
    const held = holds.get(seq) ?? (permits === null ? [] : (JSON.parse(permits) as number[]))
    if (!concerns(key) || held.includes(bucket)) continue
    holds.set(seq, [...held.filter((id) => id !== -named), bucket])
    context.db.run('UPDATE buckets SET active = active + 1 WHERE id = ?', bucket)
  }
  for (const [seq, held] of holds)
    context.db.run('UPDATE jobs SET permits = ? WHERE seq = ?', JSON.stringify(held), seq)
}
