import type { Statements } from '../../database/statements.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { PruneAccess } from '../shared/prune.ts'
import { type Context, readClock } from './context.ts'
import { sharedQueue } from './own.ts'
import { accessOf } from './shared-sql.ts'
import { LANE } from '../shared/state.ts'

const IDLE_LANE_US = 60_000_000
const DELETE_JOBS_OF = `WITH gone AS (DELETE FROM sluice.jobs WHERE seq = ANY (ARRAY(
    SELECT seq FROM sluice.jobs WHERE flow = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING seq),
  edges AS (DELETE FROM sluice.flow_edges e USING gone g WHERE e.before = g.seq)
  SELECT count(*) FROM gone`

/** Forgets views of workers that are gone: a claim may have created them while their worker left. */
export async function pruneViews(context: Context, db: Statements): Promise<number> {
  const { nowUs } = await readClock(context, db)
  // Steps from one worker to the next in the index of views: few lanes are views, and the query must not read the
  // others.
  const gone = await db.all<[worker: number]>(
    `WITH RECURSIVE w AS (SELECT (SELECT min(worker) FROM sluice.lanes WHERE worker IS NOT NULL) AS id
     UNION ALL SELECT (SELECT min(l.worker) FROM sluice.lanes l WHERE l.worker > w.id) FROM w WHERE w.id IS NOT NULL)
     SELECT w.id FROM w WHERE w.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sluice.workers o WHERE o.id = w.id)`,
  )
  if (gone.length === 0) return 0
  const workers = gone.map(([worker]) => worker)
  const stood = await db.all<[string]>(
    'SELECT DISTINCT queue FROM sluice.lanes WHERE worker = ANY ($1::bigint[])',
    workers,
  )
  const queues = [...new Set(stood.map(([queue]) => sharedQueue(queue)))]
  await db.run('SELECT sluice.leave_views($1::bigint[], $2::text[], $3::bigint)', workers, queues, nowUs)
  return workers.length
}

/**
 * Forgets lanes that have been empty for a minute, unless they keep a share for a job that may come back. It holds the
 * lock of their queue, since a claim may be about to open them.
 */
export async function pruneLanes(context: Context, db: Statements, limit: number): Promise<number> {
  const { nowUs } = await readClock(context, db)
  const idle = await db.all<[id: number, queue: string]>(
    `SELECT id, queue FROM sluice.lanes WHERE state = ${LANE.empty} AND emptied <= $1 ORDER BY emptied LIMIT $2`,
    nowUs - IDLE_LANE_US,
    limit,
  )
  if (idle.length === 0) return 0
  await db.run('SELECT sluice.lock_queues($1::text[])', [...new Set(idle.map(([, queue]) => sharedQueue(queue)))])
  const ids = idle.map(([id]) => id)
  const [kept] = (await db.get<[number[]]>('SELECT sluice.kept_lanes($1::bigint[])', ids)) as [number[]]
  const gone = await db.all<[buckets: number[], base: string | null]>(
    `DELETE FROM sluice.lanes WHERE id = ANY ($1::bigint[]) AND id <> ALL ($3::bigint[]) AND state = ${LANE.empty} AND emptied <= $2 RETURNING buckets, base`,
    ids,
    nowUs - IDLE_LANE_US,
    kept,
  )
  // A lane that must stay moves to the back. Otherwise such lanes would hide all others for ever.
  await db.run(
    `UPDATE sluice.lanes SET emptied = $2 WHERE id = ANY ($1::bigint[]) AND state = ${LANE.empty}`,
    kept,
    nowUs,
  )
  const bases = gone.flatMap(([, base]) => base ?? [])
  const [spread] =
    bases.length === 0
      ? [[]]
      : ((await db.get<[number[]]>('SELECT sluice.forget_spread($1::text[])', bases)) as [number[]])
  const buckets = [...gone.flatMap(([ids]) => ids), ...spread]
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', buckets)
  await db.run(
    `UPDATE sluice.buckets b SET lanes = b.lanes - g.n
     FROM (SELECT id, count(*) AS n FROM unnest($1::bigint[]) id GROUP BY id) g WHERE b.id = g.id`,
    buckets,
  )
  // A bucket that drops stays marked as needed elsewhere until a claim finds that it is not.
  await db.run(
    'UPDATE sluice.buckets SET wake_at = $2 WHERE id = ANY ($1::bigint[]) AND lanes = 0 AND wake_at = $3',
    buckets,
    nowUs,
    NEVER_US,
  )
  return gone.length
}

/** The parts of this store that pruning needs. */
export function pruneAccess(context: Context, db: Statements): PruneAccess {
  return {
    ...accessOf(context, db),
    deleteJobsOf: async (flow, limit) => ((await db.get<[number]>(DELETE_JOBS_OF, flow, limit)) as [number])[0],
    async deleteFlow(flow) {
      for (const table of ['flow_steps', 'flow_signals'])
        await db.run(`DELETE FROM sluice.${table} WHERE flow = $1`, flow)
      return db.run('DELETE FROM sluice.flows WHERE seq = $1', flow)
    },
  }
}
