import { isCold } from '../../policy/limits/bucket.ts'
import type { KeepUs, Retained, RetainedPage } from '../contract/retained.ts'
import { USUAL_RETENTION } from '../contract/retention.ts'
import { loadBuckets } from './buckets.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get, now, run } from './sql.ts'
import { LIVE_STATES, STATE } from './state.ts'
import type { StoredBucket } from './stored-bucket.ts'

const HOUR_US = 3_600_000_000

const DELETE_JOBS = `DELETE FROM sluice.jobs WHERE seq = ANY (ARRAY(SELECT seq FROM sluice.jobs
  WHERE state = $1 AND state IN (${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded}) AND due <= $2 ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED))`
const ENDED = `SELECT seq, task, queue, finished, due FROM sluice.jobs WHERE state = $1
  AND state IN (${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded}) AND (due, seq) > ($2, $3)
  AND finished IS NOT NULL AND flow IS NULL ORDER BY due, seq LIMIT $4`
const RETAIN = `UPDATE sluice.jobs SET due = finished + $3
  WHERE seq = ANY ($1::bigint[]) AND state = $2 AND due = finished + $4`
/** Without lanes, the longest untouched first. */
const IDLE = 'b.lanes = 0 AND b.wake_at IS NULL ORDER BY b.touched LIMIT $1 FOR UPDATE SKIP LOCKED'
const FLOWS_OVER = 'SELECT seq FROM sluice.flows WHERE due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED'

/** The parts of a store that pruning needs. */
export interface PruneAccess extends Access {
  /**
   * Deletes jobs of a flow, at most `limit`, except those locked by another transaction. Returns the number deleted.
   */
  deleteJobsOf(flow: number, limit: number): number | Promise<number>
  /** Deletes a flow without jobs. */
  deleteFlow(flow: number): number | Promise<number>
}

/** Deletes up to `limit` finished jobs of each kind whose retention is over. Returns the number of rows deleted. */
export function* pruneJobs(access: Access, limit: number): Reading<number> {
  const { nowUs } = yield* now(access)
  let gone = 0
  for (const state of [STATE.completed, STATE.cancelled, STATE.discarded])
    gone += yield* run(access.db, DELETE_JOBS, state, nowUs, limit)
  return gone
}

/**
 * Gives ended jobs the times of their task or queue. Those that no run has ended have the times of the process that ended
 * them: those of this store, or the usual ones. Flows keep their own jobs.
 */
export function* retain(access: Access, page: RetainedPage, keepUs: KeepUs): Reading<Retained> {
  const { db, retention, queueName } = access
  const { state, sinceUs, after, rows } = page
  const given = [...new Set([retention, USUAL_RETENTION].map((each) => each[`${state}Us`]))]
  const found = yield* all<[seq: number, task: string, queue: string | number, finished: number, due: number]>(
    db,
    ENDED,
    STATE[state],
    ...(after ?? [sinceUs + Math.min(...given), 0]),
    rows,
  )
  for (const usualUs of given) {
    const own = found.flatMap(([seq, task, queue, finished, due]) => {
      const us = due - finished === usualUs ? keepUs(task, queueName(queue)) : undefined
      return us === undefined || us === usualUs ? [] : { seq, us }
    })
    for (const [us, some] of Map.groupBy(own, (each) => each.us)) {
      const seqs = some.map(({ seq }) => seq)
      yield* run(db, RETAIN, seqs, STATE[state], us, usualUs)
    }
  }
  const last = found.length < rows ? undefined : found.at(-1)
  return { after: last ? [last[4], last[0]] : null, tasks: [...new Set(found.map(([, task]) => task))] }
}

/**
 * Deletes flows whose retention is over with all their jobs, up to `limit` rows. While one of the jobs lives, it may
 * need the others: a callback, or a straggler of a cancelled flow. Locked rows are left for the next time.
 */
export function* pruneFlows(access: PruneAccess, limit: number): Reading<number> {
  const { db } = access
  const { nowUs } = yield* now(access)
  const live = `SELECT 1 FROM sluice.jobs WHERE flow = $1 AND state IN (${LIVE_STATES}) LIMIT 1`
  let gone = 0
  for (const [flow] of yield* all<[number]>(db, FLOWS_OVER, nowUs, limit)) {
    if (gone >= limit) break
    if (yield* get(db, live, flow)) {
      yield* run(db, 'UPDATE sluice.flows SET due = $2 WHERE seq = $1', flow, nowUs + HOUR_US)
      continue
    }
    gone += yield* ask(() => access.deleteJobsOf(flow, limit - gone))
    if (yield* get(db, 'SELECT 1 FROM sluice.jobs WHERE flow = $1 LIMIT 1', flow)) continue
    gone += yield* ask(() => access.deleteFlow(flow))
  }
  return gone
}

/** Forgets buckets equal to a new one: a missing bucket is a new bucket. */
export function* pruneBuckets(access: PruneAccess, limit: number): Reading<number> {
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  const { nowUs } = instant
  const idle = yield* loadBuckets(access, limits, instant, IDLE, limit)
  // Under an override a bucket may be full and still hold less than a new one would after the override ends.
  const isForgettable = ({ limit: name, key, policy, state, active }: StoredBucket): boolean =>
    policy !== null && limits.timeline(name).overridesOf(key).length === 0 && isCold(policy, state, active, nowUs)
  const cold = idle.filter(isForgettable).map(({ id }) => id)
  const kept = idle.map(({ id }) => id).filter((id) => !cold.includes(id))
  yield* run(access.db, 'DELETE FROM sluice.buckets WHERE id = ANY ($1::bigint[])', cold)
  // A bucket that must stay moves to the back. Otherwise such buckets would hide all others for ever.
  yield* run(access.db, 'UPDATE sluice.buckets SET touched = $2 WHERE id = ANY ($1::bigint[])', kept, nowUs)
  return cold.length
}
