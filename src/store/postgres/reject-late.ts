import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { Instant } from '../../jobs/series.ts'
import type { Rejected } from '../contract/store.ts'
import type { Timelines } from '../shared/timelines.ts'
import { advance } from './advance.ts'
import { announce } from './announce.ts'
import type { WrittenRow } from './claimed.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { toRejected } from './reject.ts'
import { column, columns, type RowOf } from '../shared/columns.ts'
import { readAsync } from '../shared/reading.ts'
import { skipOccurrence } from '../shared/schedule.ts'
import { accessOf } from './shared-sql.ts'
import { rejectionText, type Why } from '../shared/rejection.ts'
import { LANE, STATE } from '../shared/state.ts'

const LATE = columns({
  seq: column<number>(),
  queue: column<string>('j.queue'),
  lane: column<string>('j.lane'),
  uses: column<string | null>('j.uses'),
  fair: column<string | null>('j.fair'),
  expires: column<number | null>('j.expires'),
  sinceUs: column<number>('j.since'),
  limit: column<string | null>('b.limit_name'),
  key: column<string | null>('b.key'),
  wakeAtUs: column<number | null>('b.wake_at'),
})
type Row = RowOf<typeof LATE>

const DISCARD = `UPDATE sluice.jobs j SET finished = $1, error = g.error,
  state = CASE WHEN j.schedule IS NOT NULL AND j.attempt = 0 THEN ${STATE.cancelled} ELSE ${STATE.discarded} END,
  due = CASE WHEN j.schedule IS NOT NULL AND j.attempt = 0 THEN $2::bigint ELSE $3::bigint END
  FROM unnest($4::bigint[], $5::text[]) g(seq, error) WHERE j.seq = ANY ($4::bigint[]) AND j.seq = g.seq
  RETURNING j.seq, id, task, queue, coalesce(asked, priority), input, attempt, max_attempts, pushed_back, created, extra, schedule, occurs, state, since, flow`

const REDATE = `UPDATE sluice.jobs j SET due = g.due FROM unnest($1::bigint[], $2::bigint[]) g(seq, due)
  WHERE j.seq = ANY ($1::bigint[]) AND j.seq = g.seq`

/** A job that is to end, and the reason. */
type Ending = readonly [seq: number, why: Why]

/**
 * Ends waiting jobs past their latest start: their `maxWait` is over, or they have expired. It also returns the number
 * of jobs examined.
 */
export async function rejectLate(
  context: Context,
  db: Statements,
  limit: number,
): Promise<{ readonly rejected: Rejected[]; readonly flows: readonly FlowNews[]; readonly looked: number }> {
  return inTransaction(db, async () => {
    const limits = await currentLimits(context, db)
    const instant = await readClock(context, db)
    const rows = await db.all(
      `SELECT ${LATE.of('j')} FROM sluice.jobs j
       LEFT JOIN sluice.lanes l ON l.key = j.lane AND l.state = ${LANE.waiting} LEFT JOIN sluice.buckets b ON b.id = l.bucket
       WHERE j.state = ${STATE.available} AND j.due IS NOT NULL AND j.due < $1 ORDER BY j.due LIMIT $2 FOR UPDATE OF j SKIP LOCKED`,
      instant.nowUs,
      limit,
    )
    const inFlows: number[] = []
    const ending: Ending[] = []
    const redated: (readonly [seq: number, dueUs: number | null])[] = []
    for (const row of rows.map(LATE.read)) {
      const latestUs = latestStartUs(limits, row, instant)
      if (latestUs < instant.nowUs) ending.push([row.seq, whyOf(limits, row, instant)])
      // The bound on its wait changed while it waited.
      else redated.push([row.seq, latestUs === Infinity ? null : latestUs])
    }
    const rejected = await discard(context, db, ending, instant, inFlows)
    await announce(
      db,
      ending.map(([seq]) => seq),
    )
    if (redated.length > 0)
      await db.run(
        REDATE,
        redated.map(([seq]) => seq),
        redated.map(([, dueUs]) => dueUs),
      )
    const flows = inFlows.length === 0 ? [] : [...(await advance(context, db, inFlows)).values()]
    return { rejected, flows, looked: rows.length }
  })
}

/** Ends waiting jobs for good; the caller has to update their lanes. @param inFlows gets those of flows */
export async function discard(
  context: Context,
  db: Statements,
  ending: readonly Ending[],
  instant: Instant,
  inFlows: number[],
): Promise<Rejected[]> {
  if (ending.length === 0) return []
  const { nowUs } = instant
  const { cancelledUs, discardedUs } = context.retention
  const written = await db.all<[...WrittenRow]>(
    DISCARD,
    nowUs,
    nowUs + cancelledUs,
    nowUs + discardedUs,
    ending.map(([seq]) => seq),
    ending.map(([, why]) => rejectionText(why)),
  )
  const bySeq = new Map(written.map((row) => [row[0], row]))
  const rejected: Rejected[] = []
  for (const [seq, why] of ending) {
    const row = bySeq.get(seq)
    if (!row) continue
    if (row[15] !== null) inFlows.push(seq)
    const each = toRejected(row, why)
    if (each.occurrence)
      await readAsync(skipOccurrence(accessOf(context, db), each.occurrence.schedule, why.expectedStartUs, instant))
    rejected.push(each)
  }
  return rejected
}

function latestStartUs(limits: Timelines, row: Row, instant: Instant): number {
  return Math.min(expiresUs(row, instant), row.sinceUs + boundOf(limits, row).maxWaitUs)
}

/** On the store's clock; Infinity: it does not expire. */
function expiresUs({ expires }: Row, { nowUs, wallUs }: Instant): number {
  return expires === null ? Infinity : nowUs + expires - wallUs
}

/** The reason names the bucket that the lane waits for, else that of the shortest `maxWait`. */
function whyOf(limits: Timelines, row: Row, instant: Instant): Why {
  const reason = expiresUs(row, instant) < instant.nowUs ? 'expired' : 'late'
  const { limit, key, wakeAtUs } = row
  if (limit === null || key === null) {
    if (reason === 'expired') return { reason, limit: '', key: '', expectedStartUs: null }
    const shortest = boundOf(limits, row)
    return { reason, limit: shortest.limit, key: shortest.key, expectedStartUs: null }
  }
  const expectedStartUs = wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, instant.nowUs)
  return { reason, limit, key, expectedStartUs }
}

/** The bound on the wait of a lane's jobs: the shortest of its limits; Infinity: none has one. */
function boundOf(limits: Timelines, { uses }: Row): { limit: string; key: string; maxWaitUs: number } {
  let bound = { limit: '', key: '', maxWaitUs: Infinity }
  for (const [limit, key] of JSON.parse(uses ?? '[]') as [string, string][]) {
    const maxWaitUs = limits.policy(limit, key)?.maxWaitUs ?? Infinity
    if (maxWaitUs < bound.maxWaitUs) bound = { limit, key, maxWaitUs }
  }
  return bound
}
