import { STATE } from '../shared/state.ts'
import { bucketId, loadBucket, saveBucket, wakeLine } from './buckets.ts'
import type { Context } from './context.ts'
import { ownName, ownRange } from './own.ts'
import type { BucketChange } from '../shared/stored-bucket.ts'

const WAKE = 'UPDATE buckets SET wake_at = ?1 WHERE wake_at IS NOT NULL AND key = coalesce(?2, key) AND'

/** Makes the wait lists of a limit, or of one key, due at once. */
export function wakeLimit({ db }: Context, limit: string, key: string | null, nowUs: number): void {
  db.run(`${WAKE} limit_name = ?3`, nowUs, key, limit)
  db.run(`${WAKE} limit_name > ?3 AND limit_name < ?4`, nowUs, key, ...ownRange(limit))
}

/** Writes buckets of a limit again that were last written before a revision. Returns their number. */
export function carryOver(context: Context, limit: string, untilRevision: number, atMost: number): number {
  const nowUs = context.clock.nowUs()
  const behind = context.db.all<[number]>(
    'SELECT id FROM buckets WHERE limit_name = ? AND revision < ? AND state IS NOT NULL LIMIT ?',
    limit,
    untilRevision,
    atMost,
  )
  for (const [id] of behind) {
    const bucket = loadBucket(context, id, nowUs)
    bucket.changed = true
    saveBucket(context, bucket, nowUs)
  }
  return behind.length
}

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

/** Changes buckets, and makes the next claim evaluate the heads of their wait lists. True: a reason to emit an event. */
export function changeBuckets(context: Context, ids: readonly number[], change: BucketChange): boolean {
  const nowUs = context.clock.nowUs()
  let news = false
  for (const id of ids) {
    const bucket = loadBucket(context, id, nowUs)
    const changed = change(bucket, nowUs)
    if (changed === 'no') continue
    news ||= changed === 'news'
    bucket.changed = true
    saveBucket(context, bucket, nowUs)
    wakeLine(context, id, nowUs)
  }
  return news
}
