import type { Rejection } from '../../policy/refusal.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Rejected } from '../store.ts'
import { type Context, queueName } from './context.ts'
import { depart } from './lanes.ts'
import { portion } from './portion.ts'
import { STATE } from './state.ts'
import type { Instant } from './store-clock.ts'

type Row = [id: string, task: string, queue: number, input: string, attempt: number]

const DISCARD = `UPDATE jobs SET state = ${STATE.discarded}, finished = ?, due = ?, error = ? WHERE seq = ? RETURNING id, task, queue, input, attempt`

/** Ends the jobs that a decision refused for good; those that are put off go back to `scheduled`, for their expected start. */
export function rejectHeads(
  context: Context,
  rejections: readonly Rejection[],
  { nowUs, wallUs }: Instant,
): Rejected[] {
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
        nowUs,
      ),
    )
  }
  return rejected
}

/** Ends waiting jobs whose latest start has passed: their `maxWait` is over, or they have expired. */
export function rejectLate(context: Context, nowUs: number, limit: number): Rejected[] {
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
      nowUs,
    )
    depart(context, lane, seq, nowUs)
    return rejected
  })
}

function discard(
  context: Context,
  seq: number,
  why: Pick<Rejected, 'reason' | 'limit' | 'key' | 'expectedStartUs'>,
  nowUs: number,
): Rejected {
  const error = {
    code: why.reason === 'expired' ? 'job.expired' : 'limit.rejected',
    message: messageOf(why),
    details: { limit: why.limit, key: why.key, expectedStartUs: why.expectedStartUs },
  }
  const [id, task, queue, input, attempt] = context.db.get<Row>(
    DISCARD,
    nowUs,
    nowUs + context.retention.discardedUs,
    JSON.stringify(error),
    seq,
  ) as Row
  return { id, task, queue: queueName(context, queue), input, attempt, ...why }
}

function messageOf({ reason, limit, key }: Pick<Rejected, 'reason' | 'limit' | 'key'>): string {
  const of = key === '' ? `limit ${limit}` : `limit ${limit} for ${key}`
  if (reason === 'expired') return 'The job expired before it could start.'
  return reason === 'dropped'
    ? `The budget of ${of} was used up, and the limit drops what it cannot start at once.`
    : `The budget of ${of} lets it start only after its maxWait.`
}
