import { isCold } from '../../policy/limits/bucket.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { bucketsById } from './buckets.ts'
import type { Context } from './context.ts'
import { endOverdue, pruneOverrides } from './override.ts'
import { LANE, LIVE_STATES, STATE } from '../shared/state.ts'
import { deleteLane, dropSpread } from './views.ts'

const IDLE_LANE_US = 60_000_000

/** Deletes up to `limit` finished jobs whose retention is over, idle lanes, and buckets that a new one would equal. Answers how many rows went. */
export function prune(context: Context, limit: number): number {
  const nowUs = endOverdue(context)
  return (
    pruneJobs(context, nowUs, limit) +
    pruneFlows(context, nowUs, limit) +
    pruneLanes(context, nowUs, limit) +
    pruneBuckets(context, nowUs, limit) +
    pruneOverrides(context, limit, nowUs)
  )
}

function pruneJobs(context: Context, nowUs: number, limit: number): number {
  let gone = 0
  for (const state of [STATE.completed, STATE.cancelled, STATE.discarded])
    gone += context.db.run(
      'DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE state = ? AND due <= ? ORDER BY due LIMIT ?)',
      state,
      nowUs,
      limit,
    )
  return gone
}

const HOUR_US = 3_600_000_000

/** A flow goes with all its jobs; while one of them lives (a callback, a straggler of a flow that was cancelled), it may need the others. */
function pruneFlows(context: Context, nowUs: number, limit: number): number {
  let gone = 0
  for (const [flow] of context.db.all<[number]>(
    'SELECT seq FROM flows WHERE due <= ? ORDER BY due LIMIT ?',
    nowUs,
    limit,
  )) {
    if (gone >= limit) break
    if (context.db.get(`SELECT 1 FROM jobs WHERE flow = ? AND state IN (${LIVE_STATES}) LIMIT 1`, flow)) {
      context.db.run('UPDATE flows SET due = ? WHERE seq = ?', nowUs + HOUR_US, flow)
      continue
    }
    gone += context.db.run(
      'DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE flow = ? LIMIT ?)',
      flow,
      limit - gone,
    )
    if (context.db.get('SELECT 1 FROM jobs WHERE flow = ? LIMIT 1', flow)) break
    context.db.run('DELETE FROM flow_edges WHERE flow = ?', flow)
    gone += context.db.run('DELETE FROM flows WHERE seq = ?', flow)
  }
  return gone
}

/** A lane goes when it has been empty for a minute and no job can come back to it, as a discarded one does by a manual retry. */
function pruneLanes(context: Context, nowUs: number, limit: number): number {
  const rows = context.db.all<[number, string, number | null]>(
    `SELECT id, buckets, base FROM lanes l WHERE state = ${LANE.empty} AND emptied <= ?
     AND NOT EXISTS (SELECT 1 FROM jobs WHERE lane = coalesce(l.base, l.id) AND state IN (${STATE.scheduled}, ${STATE.retryable}, ${STATE.pending}, ${STATE.discarded}))
     AND coalesce(base, id) NOT IN (SELECT lane FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL) ORDER BY emptied LIMIT ?`,
    nowUs - IDLE_LANE_US,
    limit,
  )
  for (const [id, buckets, base] of rows) {
    deleteLane(context, id, buckets)
    // One that drops says that it is waited for elsewhere until a claim finds that it is not.
    context.db.run(
      `UPDATE buckets SET wake_at = ? WHERE id IN (SELECT value FROM json_each(?)) AND lanes = 0 AND wake_at = ${NEVER_US}`,
      nowUs,
      buckets,
    )
    if (base !== null) dropSpread(context, base)
  }
  return rows.length
}

function pruneBuckets(context: Context, nowUs: number, limit: number): number {
  let gone = 0
  for (const bucket of bucketsById(
    context,
    'SELECT id FROM buckets WHERE lanes = 0 AND wake_at IS NULL ORDER BY touched LIMIT ?',
    limit,
    nowUs,
  ))
    if (isForgettable(context, bucket, nowUs)) gone += context.db.run('DELETE FROM buckets WHERE id = ?', bucket.id)
    // One that must be kept goes to the back, or so many of them would hide all others for ever.
    else context.db.run('UPDATE buckets SET touched = ? WHERE id = ?', nowUs, bucket.id)
  return gone
}

/** Under an override a bucket may be full and still hold less than a new one would when that ends. */
function isForgettable(context: Context, { limit, key, policy, state, active }: StoredBucket, nowUs: number): boolean {
  if (!policy || context.policies.timeline(limit).overridesOf(key).length > 0) return false
  return isCold(policy, state, active, nowUs)
}
