import type { Rejection } from '../../policy/admission/refusal.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Reservation } from '../../policy/admission/late-scan.ts'
import type { Rejected } from '../contract/store.ts'
import { type Instant, occurrenceOf } from '../../jobs/series.ts'
import { column, columns, numbers, numbersOrNull, texts } from '../shared/columns.ts'
import { type Context, queueName } from './context.ts'
import { depart } from './lanes.ts'
import { readAhead } from './read-ahead.ts'
import { readNow } from '../shared/reading.ts'
import { skipOccurrence } from '../shared/schedule.ts'
import { accessOf } from './shared-sql.ts'
import { rejectionText, type Why } from '../shared/rejection.ts'
import { STATE } from '../shared/state.ts'

const ENDED = columns({
  ...texts('id', 'task', 'input'),
  ...numbers('queue', 'attempt'),
  ...numbersOrNull('occurs', 'flow'),
  schedule: column<string | null>(),
})

/** An occurrence of a schedule that never ran is skipped, not discarded. */
const SKIPPED = 'schedule IS NOT NULL AND attempt = 0'
const DISCARD = `UPDATE jobs SET state = CASE WHEN ${SKIPPED} THEN ${STATE.cancelled} ELSE ${STATE.discarded} END, finished = ?1,
    due = CASE WHEN ${SKIPPED} THEN ?2 ELSE ?3 END, error = ?4 WHERE seq = ?5 RETURNING ${ENDED.list}`

/**
 * Ends the jobs that a decision rejected.
 * @param inFlows gets the jobs of flows: their flows continue once the decision is written, since their next jobs join
 * lanes
 */
export function rejectHeads(
  context: Context,
  rejections: readonly Rejection[],
  instant: Instant,
  inFlows: number[],
): Rejected[] {
  return rejections.map(({ head, refusal: { bucket, untilUs, behaviour } }) => {
    const expectedStartUs = untilUs === NEVER_US ? null : untilUs
    const why = {
      reason: behaviour === 'drop' ? 'dropped' : 'late',
      limit: bucket.limit,
      key: bucket.key,
      expectedStartUs,
    } as const
    return discard(context, head.seq, why, instant, inFlows)
  })
}

/** Records the expected starts of jobs that a limit reschedules; they keep their place. */
export function book(context: Context, bookings: readonly Reservation[]): void {
  if (bookings.length === 0) return
  const rows = bookings.map(({ seq, startUs }) => [seq, startUs])
  context.db.run(
    'UPDATE jobs SET booked = s.value ->> 1 FROM json_each(?) s WHERE jobs.seq = s.value ->> 0',
    JSON.stringify(rows),
  )
}

/**
 * Ends waiting jobs past their latest start: their `maxWait` is over, or they have expired. @param inFlows as in
 * `rejectHeads`
 */
export function rejectLate(context: Context, instant: Instant, limit: number, inFlows: number[]): Rejected[] {
  const { nowUs, wallUs } = instant
  const rows = context.db.all<[number, number, number | null, number]>(
    `SELECT seq, lane, expires, since FROM jobs WHERE state = ${STATE.available} AND due < ? ORDER BY due LIMIT ${readAhead(limit)}`,
    nowUs,
  )
  return rows.flatMap(([seq, lane, expires, since]) => {
    const expiresUs = expires === null ? Infinity : nowUs + expires - wallUs
    const bound = boundOf(context, lane, nowUs)
    const latestUs = Math.min(expiresUs, since + bound.maxWaitUs)
    if (latestUs >= nowUs) {
      // The bound on its wait changed while it waited.
      context.db.run('UPDATE jobs SET due = ? WHERE seq = ?', latestUs === Infinity ? null : latestUs, seq)
      return []
    }
    const { limit: name, key, expectedStartUs, held } = bound
    const hasExpired = expiresUs < nowUs
    const why: Why =
      hasExpired && !held
        ? { reason: 'expired', limit: '', key: '', expectedStartUs: null }
        : { reason: hasExpired ? 'expired' : 'late', limit: name, key, expectedStartUs }
    const rejected = discard(context, seq, why, instant, inFlows)
    depart(context, lane, seq, nowUs)
    return [rejected]
  })
}

interface Bound extends Pick<Rejected, 'limit' | 'key' | 'expectedStartUs'> {
  /** The shortest `maxWait` of the lane's limits; Infinity: none has one. */
  readonly maxWaitUs: number
  /** The lane waits for that bucket. */
  readonly held: boolean
}

/**
 * The bound on the wait of a lane's jobs, and the bucket to name: the one that the lane waits for, else that of the
 * shortest `maxWait`.
 */
function boundOf(context: Context, lane: number, nowUs: number): Bound {
  const buckets = context.db.all<[limit: string, key: string, on: number, wakeAt: number | null]>(
    `SELECT b.limit_name, b.key, b.id IS l.bucket, b.wake_at FROM lanes l, json_each(l.buckets) e CROSS JOIN buckets b ON b.id = e.value
     WHERE l.id = ?`,
    lane,
  )
  let bound: Bound = { limit: '', key: '', expectedStartUs: null, maxWaitUs: Infinity, held: false }
  let held: Bound | null = null
  for (const [limit, key, on, wakeAt] of buckets) {
    const maxWaitUs = context.policies.current.policy(limit, key)?.maxWaitUs ?? Infinity
    const expectedStartUs = on === 0 || wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs)
    const each = { limit, key, expectedStartUs, maxWaitUs, held: on === 1 }
    if (on === 1) held = each
    if (maxWaitUs < bound.maxWaitUs) bound = each
  }
  return held ? { ...held, maxWaitUs: bound.maxWaitUs } : bound
}

/** Ends a waiting job for good; the caller has to update its lane. */
export function discard(context: Context, seq: number, why: Why, instant: Instant, inFlows: number[]): Rejected {
  const { nowUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  const row = context.db.get(DISCARD, nowUs, nowUs + cancelledUs, nowUs + discardedUs, rejectionText(why), seq)
  const { id, task, queue, input, attempt, schedule, occurs, flow } = ENDED.read(row as readonly unknown[])
  if (flow !== null) inFlows.push(seq)
  const rejected = { id, task, queue: queueName(context, queue), input, attempt, ...why }
  if (schedule === null || attempt > 0) return rejected
  readNow(skipOccurrence(accessOf(context), schedule, why.expectedStartUs, instant))
  return { ...rejected, ...occurrenceOf(schedule, occurs) }
}
