import type { Statements } from '../../database/postgres.ts'
import { type Context, readClock } from './context.ts'
import { LIVE_STATES } from '../shared/state.ts'

const HOUR_US = 3_600_000_000
const DELETE_JOBS = `WITH gone AS (DELETE FROM sluice.jobs WHERE seq = ANY (ARRAY(SELECT seq FROM sluice.jobs WHERE flow = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING seq),
  edges AS (DELETE FROM sluice.flow_edges e USING gone g WHERE e.before = g.seq)
  SELECT count(*) FROM gone`

/**
 * Deletes flows whose retention is over with all their jobs, up to `limit` rows. While one of these lives (a callback, a straggler of a flow
 * that was cancelled), it may need the others. What somebody holds is left for the next time.
 */
export async function pruneFlows(context: Context, db: Statements, limit: number): Promise<number> {
  const { nowUs } = await readClock(context, db)
  const over = await db.all<[number]>(
    'SELECT seq FROM sluice.flows WHERE due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED',
    nowUs,
    limit,
  )
  let gone = 0
  for (const [flow] of over) {
    if (gone >= limit) break
    if (await db.get(`SELECT 1 FROM sluice.jobs WHERE flow = $1 AND state IN (${LIVE_STATES}) LIMIT 1`, flow)) {
      await db.run('UPDATE sluice.flows SET due = $2 WHERE seq = $1', flow, nowUs + HOUR_US)
      continue
    }
    const [jobs] = (await db.get<[number]>(DELETE_JOBS, flow, limit - gone)) as [number]
    gone += jobs
    if (await db.get('SELECT 1 FROM sluice.jobs WHERE flow = $1 LIMIT 1', flow)) continue
    gone += await db.run('DELETE FROM sluice.flows WHERE seq = $1', flow)
  }
  return gone
}
