import type { LimitDefinition } from '../store.ts'
import type { Context } from './context.ts'

/**
 * Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides.
 * Every line of a changed limit is due at once: the next claims carry its buckets over and re-time them.
 */
export function define(context: Context, limits: readonly LimitDefinition[]): string[] {
  context.policies.refresh()
  const nowUs = context.clock.nowUs()
  const changed: string[] = []
  for (const { name, policy, version } of limits) {
    const current = context.policies.current(name)
    if (current && (current.version > version || JSON.stringify(current.policy) === JSON.stringify(policy))) continue
    context.policies.add(name, policy, version, nowUs)
    context.db.run('UPDATE buckets SET wake_at = ? WHERE limit_name = ? AND wake_at IS NOT NULL', nowUs, name)
    if (current?.policy.concurrency === null && policy.concurrency !== null) countPermits(context, name)
    changed.push(name)
  }
  return changed
}

/** A limit without permits now has some: jobs that are active already hold theirs. */
function countPermits(context: Context, limit: string): void {
  const rows = context.db.all<[seq: number, bucket: number, permits: string | null]>(
    `SELECT j.seq, b.id, j.permits FROM jobs j, lanes l, json_each(l.buckets) e, buckets b
     WHERE j.state = 2 AND j.due IS NOT NULL AND l.id = j.lane AND b.id = e.value AND b.limit_name = ?`,
    limit,
  )
  for (const [seq, bucket, permits] of rows) {
    const held = permits === null ? [] : (JSON.parse(permits) as number[])
    context.db.run('UPDATE jobs SET permits = ? WHERE seq = ?', JSON.stringify([...held, bucket]), seq)
    context.db.run('UPDATE buckets SET active = active + 1 WHERE id = ?', bucket)
  }
}
