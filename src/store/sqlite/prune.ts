import { NEVER_US } from '../../policy/admission/lane.ts'
import { type PruneAccess, pruneBuckets, pruneFlows, pruneJobs } from '../shared/prune.ts'
import { pruneEvents } from '../shared/event-log.ts'
import { pruneOverrides } from '../shared/limits.ts'
import { readNow } from '../shared/reading.ts'
import type { Context } from './context.ts'
import { accessOf, endOverdue } from './shared-sql.ts'
import { LANE, STATE } from '../shared/state.ts'
import { deleteLane, dropSpread, MAY_COME_BACK } from './views.ts'

const IDLE_LANE_US = 60_000_000
const DELETE_JOBS_OF = 'DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE flow = ? LIMIT ?)'

/**
 * Deletes up to `limit` finished jobs whose retention is over, idle lanes, and buckets equal to a new one. Returns the
 * number of rows deleted.
 */
export function prune(context: Context, limit: number): number {
  const { db } = context
  endOverdue(context)
  const nowUs = context.clock.nowUs()
  const access: PruneAccess = {
    ...accessOf(context),
    deleteJobsOf: (flow, most) => db.run(DELETE_JOBS_OF, flow, most),
    deleteFlow(flow) {
      for (const table of ['flow_edges', 'flow_steps', 'flow_signals'])
        db.run(`DELETE FROM ${table} WHERE flow = ?`, flow)
      return db.run('DELETE FROM flows WHERE seq = ?', flow)
    },
  }
  readNow(pruneEvents(access))
  return (
    readNow(pruneJobs(access, limit)) +
    readNow(pruneFlows(access, limit)) +
    pruneLanes(context, nowUs, limit) +
    readNow(pruneBuckets(access, limit)) +
    readNow(pruneOverrides(access, limit))
  )
}

/**
 * Deletes lanes that have been empty for a minute, unless a job may return to them, as a discarded one does by a manual
 * retry.
 */
function pruneLanes(context: Context, nowUs: number, limit: number): number {
  const rows = context.db.all<[number, string, number | null]>(
    `SELECT id, buckets, base FROM lanes l WHERE state = ${LANE.empty} AND emptied <= ?
     AND NOT EXISTS (SELECT 1 FROM jobs WHERE lane = coalesce(l.base, l.id) AND (${MAY_COME_BACK}))
     AND coalesce(base, id) NOT IN (SELECT lane FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL) ORDER BY emptied LIMIT ?`,
    nowUs - IDLE_LANE_US,
    limit,
  )
  for (const [id, buckets, base] of rows) {
    deleteLane(context, id, buckets)
    // A bucket that drops stays marked as needed elsewhere until a claim finds that it is not.
    context.db.run(
      `UPDATE buckets SET wake_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND lanes = 0 AND wake_at = ${NEVER_US}`,
      nowUs,
      buckets,
    )
    if (base !== null) dropSpread(context, base)
  }
  return rows.length
}
