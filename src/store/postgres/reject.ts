import { rejectionText, type Why } from '../shared/rejection.ts'
import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Rejection } from '../../policy/admission/refusal.ts'
import type { Rejected } from '../contract/store.ts'
import type { WrittenRow } from './claimed.ts'
import { type Context, readClock } from './context.ts'
import type { ReadSet } from './read-set.ts'
import { type Instant, occurrenceOf } from '../../jobs/series.ts'
import { readAsync } from '../shared/reading.ts'
import { skipOccurrence } from '../shared/schedule.ts'
import { accessOf } from './shared-sql.ts'
import { STATE } from '../shared/state.ts'
import { inOrder, REJECTION } from './sql/fields.ts'

/** The rows of the jobs that a decision rejected. */
export function rejectionsOf(context: Context, rejections: readonly Rejection[], instant: Instant): unknown[] {
  const { nowUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  return rejections.map(({ head, refusal }) =>
    inOrder(REJECTION, {
      seq: head.seq,
      state: STATE.discarded,
      due: nowUs + discardedUs,
      error: rejectionText(whyOf(refusal)),
      skipped_due: nowUs + cancelledUs,
    }),
  )
}

/** The jobs that a decision ended, for the claim's answer. */
export function rejectedOf(rejections: readonly Rejection[], rows: readonly WrittenRow[]): Rejected[] {
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return rejections.flatMap(({ head, refusal }) => {
    const row = bySeq.get(head.seq)
    return !row ? [] : [toRejected(row, whyOf(refusal))]
  })
}

/** Advances the series of skipped occurrences. */
export async function skipRejected(context: Context, db: Statements, rejected: readonly Rejected[]): Promise<void> {
  const skipped = rejected.filter((job) => job.occurrence)
  if (skipped.length === 0) return
  await inTransaction(db, async () => {
    const instant = await readClock(context, db)
    for (const job of skipped)
      await readAsync(
        skipOccurrence(accessOf(context, db), job.occurrence?.schedule ?? '', job.expectedStartUs, instant),
      )
  })
}

/** The read set, with the next occurrences after some were skipped. */
export async function looked(
  { unreadable }: Context,
  db: Statements,
  read: ReadSet,
  rejected: readonly Rejected[],
): Promise<ReadSet> {
  if (!rejected.some((job) => job.occurrence)) return read
  const [text] = (await db.get<[string]>('SELECT sluice.claim_fire($1::text[])::text', [...unreadable])) as [string]
  return { ...read, fire: JSON.parse(text) as ReadSet['fire'] }
}

function whyOf({ bucket, untilUs, behaviour }: Rejection['refusal']): Why {
  const expectedStartUs = untilUs === NEVER_US ? null : untilUs
  return { reason: behaviour === 'drop' ? 'dropped' : 'late', limit: bucket.limit, key: bucket.key, expectedStartUs }
}

/** An ended job for the claim's answer. */
export function toRejected(row: WrittenRow, why: Why): Rejected {
  const [, id, task, queue, , input, attempt, , , , , schedule, occurs] = row
  const rejected = { id, task, queue, input, attempt, ...why }
  return attempt > 0 ? rejected : { ...rejected, ...occurrenceOf(schedule, occurs) }
}
