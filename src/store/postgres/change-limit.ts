import type { Statements } from '../../database/postgres.ts'
import { comesToDrop, gainsPermits } from '../shared/limit-changes.ts'
import { LANE, STATE } from '../shared/state.ts'
import type { LimitChanges } from './limit-timelines.ts'
import { ownerFor } from './own.ts'

/**
 * Changes the policy in force for a limit, or for one key of it. Every affected wait list is due at once: the next
 * claims carry its buckets over and re-time them.
 *
 * @param key null: all keys
 */
export async function changeLimit(
  db: Statements,
  changes: LimitChanges,
  limit: string,
  key: string | null,
  nowUs: number,
  write: () => Promise<void>,
): Promise<void> {
  const before = changes.limits.timeline(limit)
  await write()
  const after = changes.limits.timeline(limit)
  const concerned = key === null ? after.keys() : [key]
  if (concerned.some((each) => gainsPermits(before, after, each)))
    await countPermits(db, limit, ownerFor(changes.limits, limit, '', 1) !== 0, (each) =>
      gainsPermits(before, after, each),
    )
  for (const each of concerned) if (comesToDrop(before, after, each)) await watchAll(db, limit, each, nowUs)
  const found = await db.all<[number]>(
    'SELECT id FROM sluice.buckets WHERE limit_name = $1 AND ($2::text IS NULL OR key = $2) AND wake_at IS NOT NULL',
    limit,
    key,
  )
  const ids = found.map(([id]) => id)
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', ids)
  await db.run(
    'UPDATE sluice.buckets SET wake_at = $2 WHERE id = ANY ($1::bigint[]) AND wake_at IS NOT NULL',
    ids,
    nowUs,
  )
}

/**
 * A limit now drops: the next claim evaluates the lanes that need its buckets and wait for others. No claim decides
 * meanwhile.
 */
async function watchAll(db: Statements, limit: string, key: string | null, nowUs: number): Promise<void> {
  await db.run(
    `INSERT INTO sluice.drop_watch (lane, bucket, need) SELECT l.id, b.id, 1 FROM sluice.buckets b JOIN sluice.lanes l ON b.id = ANY (l.buckets)
     WHERE l.state = ${LANE.waiting} AND l.bucket <> b.id AND b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) ON CONFLICT DO NOTHING`,
    limit,
    key,
  )
  const watched = await db.all<[number]>(
    `SELECT DISTINCT b.id FROM sluice.buckets b JOIN sluice.drop_watch w ON w.bucket = b.id
     WHERE b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) AND b.wake_at IS NULL`,
    limit,
    key,
  )
  const ids = watched.map(([id]) => id)
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', ids)
  await db.run('UPDATE sluice.buckets SET wake_at = $2 WHERE id = ANY ($1::bigint[]) AND wake_at IS NULL', ids, nowUs)
}

/**
 * Counts permits of a limit that had none: its active jobs now hold theirs. It locks jobs before buckets, as a
 * settlement does.
 */
async function countPermits(
  db: Statements,
  limit: string,
  apart: boolean,
  concerns: (key: string) => boolean,
): Promise<void> {
  const rows = await db.all<[seq: number, bucket: number, key: string, permits: number[] | null]>(
    `SELECT j.seq, b.id, b.key, j.permits FROM sluice.jobs j, json_array_elements(j.uses::json) u, sluice.buckets b
     WHERE j.state = ${STATE.active} AND j.uses IS NOT NULL AND u ->> 0 = $1 AND b.limit_name = $1 AND b.key = u ->> 1
     AND b.worker = CASE WHEN $2::boolean THEN j.worker ELSE 0 END ORDER BY j.seq FOR UPDATE OF j`,
    limit,
    apart,
  )
  const own = await db.all<[seq: number, bucket: number, key: string, permits: number[] | null]>(
    `SELECT j.seq, b.id, b.key, j.permits FROM sluice.jobs j, unnest(j.permits) e, sluice.buckets b
     WHERE j.state = ${STATE.active} AND b.id = -e AND b.limit_name = $1 ORDER BY j.seq FOR UPDATE OF j`,
    limit,
  )
  const held = [...rows, ...own].filter(
    ([, bucket, key, permits]) => concerns(key) && !(permits ?? []).includes(bucket),
  )
  if (held.length === 0) return
  const buckets = held.map(([, bucket]) => bucket)
  for (const [seq, bucket] of held)
    await db.run(
      'UPDATE sluice.jobs SET permits = array_append(array_remove(permits, -($2::bigint)), $2::bigint) WHERE seq = $1',
      seq,
      bucket,
    )
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', buckets)
  await db.run(
    `UPDATE sluice.buckets b SET active = b.active + g.n
     FROM (SELECT id, count(*) AS n FROM unnest($1::bigint[]) id GROUP BY id) g WHERE b.id = g.id`,
    buckets,
  )
}
