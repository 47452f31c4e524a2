import type { Statements } from '../../database/statements.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import { STATE } from '../shared/state.ts'
import type { Timelines } from '../shared/timelines.ts'
import { ownerFor } from './own.ts'

/**
 * Counts permits of a limit that had none: its active jobs now hold theirs. It locks jobs before buckets, as a
 * settlement does.
 */
export async function countPermits(
  db: Statements,
  limit: string,
  limits: Timelines,
  concerns: (key: string) => boolean,
): Promise<void> {
  const rows = await db.all<[seq: number, bucket: number, key: string, permits: number[] | null]>(
    `SELECT j.seq, b.id, b.key, j.permits FROM sluice.jobs j, json_array_elements(j.uses::json) u, sluice.buckets b
     WHERE j.state = ${STATE.active} AND j.uses IS NOT NULL AND u ->> 0 = $1 AND b.limit_name = $1 AND b.key = u ->> 1
     AND b.worker = CASE WHEN $2::boolean THEN j.worker ELSE 0 END ORDER BY j.seq FOR UPDATE OF j`,
    limit,
    ownerFor(limits, limit, '', 1) !== 0,
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

/** Writes what SQL statements need to know of a limit: its longest waits, and whether workers have buckets of their own. */
export async function writeLimit(db: Statements, name: string, timeline: Timeline): Promise<void> {
  await setApart(db, name, timeline.definition?.policy.scope === 'worker')
  const waits = timeline.keys().map((key) => [key, timeline.at(key).policy?.maxWaitUs ?? null] as const)
  await db.run('DELETE FROM sluice.max_waits WHERE limit_name = $1', name)
  if (waits.every(([, maxWaitUs]) => maxWaitUs === null)) return
  await db.run(
    'INSERT INTO sluice.max_waits (limit_name, key, max_wait) SELECT $1, k, w FROM unnest($2::text[], $3::bigint[]) u(k, w)',
    name,
    waits.map(([key]) => key),
    waits.map(([, maxWaitUs]) => maxWaitUs),
  )
}

/**
 * Records which limits have a bucket for each worker, since SQL statements need that too. The next claims recreate
 * lanes made without it.
 */
async function setApart(db: Statements, name: string, apart: boolean): Promise<void> {
  const changed = await db.run(
    `INSERT INTO sluice.apart AS a (limit_name, apart) SELECT $1, $2 WHERE $2 OR EXISTS (SELECT 1 FROM sluice.apart WHERE limit_name = $1)
     ON CONFLICT (limit_name) DO UPDATE SET apart = excluded.apart WHERE a.apart <> excluded.apart`,
    name,
    apart,
  )
  if (changed > 0)
    await db.run(
      `SELECT sluice.announce_lanes(ARRAY(SELECT l.id FROM sluice.lanes l WHERE l.base IS NULL AND l.buckets && ARRAY(SELECT id FROM sluice.buckets WHERE limit_name = $1)))`,
      name,
    )
}
