import type { Rejection } from '../../policy/refusal.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Rejected } from '../store.ts'
import { type Context, queueName } from './context.ts'
import { depart } from './lanes.ts'
import { portion } from './portion.ts'
import { occurrenceOf } from './schedule.ts'
import { skipOccurrence } from './skip.ts'
import { STATE } from './state.ts'
import type { Instant } from './store-clock.ts'

type Row = [
  id: string,
  task: string,
  queue: number,
  input: string,
  attempt: number,
  schedule: string | null,
  occurs: number | null,
  flow: number | null,
]

/** An occurrence of a schedule that never ran is not discarded: it is skipped. */
const SKIPPED = 'schedule IS NOT NULL AND attempt = 0'
const DISCARD = `UPDATE jobs SET state = CASE WHEN ${SKIPPED} THEN ${STATE.cancelled} ELSE ${STATE.discarded} END, finished = ?1,
    due = CASE WHEN ${SKIPPED} THEN ?2 ELSE ?3 END, error = ?4 WHERE seq = ?5 RETURNING id, task, queue, input, attempt, schedule, occurs, flow`

/**
 * Ends the jobs that a decision refused for good; those that are put off go back to `scheduled`, for their expected start.
 * @param inFlows is told of those that belong to flows: these may only go on once the decision is written, since their next jobs come to lanes.
 */
export function rejectHeads(
  context: Context,
  rejections: readonly Rejection[],
  instant: Instant,
  inFlows: number[],
): Rejected[] {
  const { nowUs, wallUs } = instant
  const rejected: Rejected[] = []
  for (const { head, refusal } of rejections) {
    const { bucket, untilUs, behaviour } = refusal
    if (behaviour === 'reschedule') {
      context.db.run(
        `UPDATE jobs SET state = ${STATE.scheduled}, due = ? WHERE seq = ?`,
        wallUs + untilUs - nowUs,
        head.seq,
      )
      continue
    }
    const expectedStartUs = untilUs === NEVER_US ? null : untilUs
    rejected.push(
      discard(
        context,
        head.seq,
        { reason: behaviour === 'drop' ? 'dropped' : 'late', limit: bucket.limit, key: bucket.key, expectedStartUs },
        instant,
        inFlows,
      ),
    )
  }
  return rejected
}

/** Ends waiting jobs whose latest start has passed: their `maxWait` is over, or they have expired. */
export function rejectLate(context: Context, instant: Instant, limit: number, inFlows: number[]): Rejected[] {
  const { nowUs } = instant
  const rows = context.db.all<[number, number, number | null, number]>(
    `SELECT seq, lane, expires, since FROM jobs WHERE state = ${STATE.available} AND due < ? ORDER BY due LIMIT ${portion(limit)}`,
    nowUs,
  )
  return rows.map(([seq, lane]) => {
    const [limitName, key] = context.db.get<[string, string]>(
      'SELECT b.limit_name, b.key FROM lanes l JOIN buckets b ON b.id = l.bucket WHERE l.id = ?',
      lane,
    ) ?? ['', '']
    const rejected = discard(
      context,
      seq,
      { reason: limitName === '' ? 'expired' : 'late', limit: limitName, key, expectedStartUs: null },
      instant,
      inFlows,
    )
    depart(context, lane, seq, nowUs)
    return rejected
  })
}

function discard(
  context: Context,
  seq: number,
  why: Pick<Rejected, 'reason' | 'limit' | 'key' | 'expectedStartUs'>,
  instant: Instant,
  inFlows: number[],
): Rejected {
  const error = {
    code: why.reason === 'expired' ? 'job.expired' : 'limit.rejected',
    message: messageOf(why),
    details: { limit: why.limit, key: why.key, expectedStartUs: why.expectedStartUs },
  }
  const { nowUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  const [id, task, queue, input, attempt, schedule, occurs, flow] = context.db.get<Row>(
    DISCARD,
    nowUs,
    nowUs + cancelledUs,
    nowUs + discardedUs,
    JSON.stringify(error),
    seq,
  ) as Row
  if (flow !== null) inFlows.push(seq)
  const rejected = { id, task, queue: queueName(context, queue), input, attempt, ...why }
  if (schedule === null || attempt > 0) return rejected
  skipOccurrence(context, schedule, why.expectedStartUs, instant)
  return { ...rejected, ...occurrenceOf(schedule, occurs) }
}

function messageOf({ reason, limit, key }: Pick<Rejected, 'reason' | 'limit' | 'key'>): string {
  const of = key === '' ? `limit ${limit}` : `limit ${limit} for ${key}`
  if (reason === 'expired') return 'The job expired before it could start.'
  return reason === 'dropped'
    ? `The budget of ${of} was used up, and the limit drops what it cannot start at once.`
    : `The budget of ${of} lets it start only after its maxWait.`
}
