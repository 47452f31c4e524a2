import { inTransaction, type Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Rejection } from '../../policy/refusal.ts'
import type { Rejected } from '../store.ts'
import { announce } from './cancel.ts'
import type { WrittenRow } from './claimed.ts'
import { type Context, readClock } from './context.ts'
import { type Instant, occurrenceOf } from '../series.ts'
import { skipOccurrence } from './skip.ts'
import { STATE } from './state.ts'

type Why = Pick<Rejected, 'reason' | 'limit' | 'key' | 'expectedStartUs'>

/** What a decision refused for good, or put off to its expected start, as it is written: seq, state, due, error, due of a skipped occurrence. */
export function rejectionsOf(context: Context, rejections: readonly Rejection[], instant: Instant): unknown[] {
  const { nowUs, wallUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  return rejections.map(({ head, refusal }) =>
    refusal.behaviour === 'reschedule'
      ? [head.seq, STATE.scheduled, wallUs + refusal.untilUs - nowUs, null, null]
      : [head.seq, STATE.discarded, nowUs + discardedUs, errorText(whyOf(refusal)), nowUs + cancelledUs],
  )
}

/** The jobs that a decision ended, as the claim tells of them. */
export function rejectedOf(rejections: readonly Rejection[], rows: readonly WrittenRow[]): Rejected[] {
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return rejections.flatMap(({ head, refusal }) => {
    const row = bySeq.get(head.seq)
    return refusal.behaviour === 'reschedule' || !row ? [] : [toRejected(row, whyOf(refusal))]
  })
}

/** The series of occurrences that were skipped go on. */
export async function skipRejected(context: Context, db: Statements, rejected: readonly Rejected[]): Promise<void> {
  const skipped = rejected.filter((job) => job.occurrence)
  if (skipped.length === 0) return
  await inTransaction(db, async () => {
    const instant = await readClock(context, db)
    for (const job of skipped)
      await skipOccurrence(context, db, job.occurrence?.schedule ?? '', job.expectedStartUs, instant)
  })
}

type LateRow = [
  seq: number,
  queue: string,
  lane: string,
  uses: string | null,
  fair: string | null,
  limit: string | null,
  key: string | null,
]

const DISCARD = `UPDATE sluice.jobs j SET finished = $1, error = $2,
  state = CASE WHEN j.schedule IS NOT NULL AND j.attempt = 0 THEN ${STATE.cancelled} ELSE ${STATE.discarded} END,
  due = CASE WHEN j.schedule IS NOT NULL AND j.attempt = 0 THEN $3::bigint ELSE $4::bigint END WHERE j.seq = $5
  RETURNING seq, id, task, queue, coalesce(asked, priority), input, attempt, max_attempts, pushed_back, created, extra, schedule, occurs, state`

/** Ends waiting jobs whose latest start has passed: their `maxWait` is over, or they have expired. */
export async function rejectLate(context: Context, db: Statements, limit: number): Promise<Rejected[]> {
  return inTransaction(db, async () => {
    const instant = await readClock(context, db)
    const { nowUs } = instant
    const { cancelledUs, discardedUs } = context.retention
    const rows = await db.all<LateRow>(
      `SELECT j.seq, j.queue, j.lane, j.uses, j.fair, b.limit_name, b.key FROM sluice.jobs j
       LEFT JOIN sluice.lanes l ON l.key = j.lane LEFT JOIN sluice.buckets b ON b.id = l.bucket
       WHERE j.state = 1 AND j.due IS NOT NULL AND j.due < $1 ORDER BY j.due LIMIT $2 FOR UPDATE OF j SKIP LOCKED`,
      nowUs,
      limit,
    )
    const rejected: Rejected[] = []
    for (const [seq, queue, lane, uses, fair, limitName, key] of rows) {
      const reason = limitName === null ? 'expired' : 'late'
      const why: Why = { reason, limit: limitName ?? '', key: key ?? '', expectedStartUs: null }
      const written = await db.get<[...WrittenRow]>(
        DISCARD,
        nowUs,
        errorText(why),
        nowUs + cancelledUs,
        nowUs + discardedUs,
        seq,
      )
      if (!written) continue
      const each = toRejected(written, why)
      if (each.occurrence) await skipOccurrence(context, db, each.occurrence.schedule, null, instant)
      await announce(db, [queue, lane, uses, fair])
      rejected.push(each)
    }
    return rejected
  })
}

function whyOf({ bucket, untilUs, behaviour }: Rejection['refusal']): Why {
  const expectedStartUs = untilUs === NEVER_US ? null : untilUs
  return { reason: behaviour === 'drop' ? 'dropped' : 'late', limit: bucket.limit, key: bucket.key, expectedStartUs }
}

function toRejected(row: WrittenRow, why: Why): Rejected {
  const [, id, task, queue, , input, attempt, , , , , schedule, occurs] = row
  const rejected = { id, task, queue, input, attempt, ...why }
  return attempt > 0 ? rejected : { ...rejected, ...occurrenceOf(schedule, occurs) }
}

function errorText(why: Why): string {
  return JSON.stringify({
    code: why.reason === 'expired' ? 'job.expired' : 'limit.rejected',
    message: messageOf(why),
    details: { limit: why.limit, key: why.key, expectedStartUs: why.expectedStartUs },
  })
}

function messageOf({ reason, limit, key }: Pick<Rejected, 'reason' | 'limit' | 'key'>): string {
  const of = key === '' ? `limit ${limit}` : `limit ${limit} for ${key}`
  if (reason === 'expired') return 'The job expired before it could start.'
  return reason === 'dropped'
    ? `The budget of ${of} was used up, and the limit drops what it cannot start at once.`
    : `The budget of ${of} lets it start only after its maxWait.`
}
