import {
  attemptBack,
  completedUs,
  deletesJob,
  runEndOf,
  type SettleRequest,
  settleRounds,
} from '../shared/settle-once.ts'
import type { SettleResult, Settlement } from '../../jobs/settlement.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { Instant } from '../../jobs/series.ts'
import { advance } from './advance.ts'
import { returnPermits } from './buckets.ts'
import type { Context } from './context.ts'
import { penalize } from '../shared/bucket-change.ts'
import { accessOf, endOverdue } from './shared-sql.ts'
import { readNow } from '../shared/reading.ts'
import { rejoin } from './rejoin.ts'
import { withFailure } from './history.ts'
import { isMove, type Moved, moveJobs } from '../shared/workflows/move.ts'
import { isEnd, STATE, stateName } from '../shared/state.ts'

type Row = [
  seq: number,
  attempt: number,
  state: number,
  permits: string | null,
  lane: number,
  priority: number,
  expires: number | null,
  flow: number | null,
]

type CompletedRow = [seq: number, permits: string | null, flow: number | null]

const GOES_ON = `${STATE.scheduled}, ${STATE.retryable}, ${STATE.available}`
/** A caller asked to cancel the job while it ran, so it does not run again. */
const STOPPED = `cancelling AND s.value ->> 3 IN (${GOES_ON})`
// A failed attempt is added to the job's history; a push-back is not one.
const HISTORY = `CASE WHEN s.value ->> 6 IS NULL OR s.value ->> 7 > 0 THEN errors ELSE ${withFailure('s.value ->> 6', '?1')} END`
// One statement for a whole batch; it writes a job only while the caller holds the lease. `s`: seq, attempt, worker,
// state, due, result, error, attempt back, start of the run, moves. A snooze ends a row of push-backs, and `pushed_back` stays
// above 0: the next start is not the first one. OR FAIL: else SQLite copies each page for an undo of this statement alone,
// but an error ends the whole transaction.
const SETTLE = `UPDATE OR FAIL jobs SET
    state = CASE WHEN ${STOPPED} THEN ${STATE.cancelled} ELSE s.value ->> 3 END,
    due = CASE WHEN ${STOPPED} THEN ?3 ELSE s.value ->> 4 END, result = s.value ->> 5, error = coalesce(s.value ->> 6, error), errors = ${HISTORY}, attempt = attempt - (s.value ->> 7),
    pushed_back = CASE WHEN s.value ->> 7 = 0 THEN 0 WHEN s.value ->> 3 = ${STATE.scheduled} THEN 1 ELSE pushed_back + 1 END,
    finished = CASE WHEN s.value ->> 3 IN (${GOES_ON}) AND NOT cancelling THEN NULL ELSE ?1 END, since = ?1, worker = NULL
  FROM json_each(?2) s
  WHERE jobs.seq = s.value ->> 0 AND jobs.attempt = s.value ->> 1 AND jobs.worker = s.value ->> 2 AND jobs.state = ${STATE.active}
    AND (s.value ->> 8 IS NULL OR jobs.started = s.value ->> 8) AND (s.value ->> 9 IS NULL OR jobs.moves = s.value ->> 9)
  RETURNING seq, attempt, state, permits, lane, priority, expires, flow`

// The same for runs that completed alike: without a join it costs half as much.
const COMPLETE = `UPDATE OR FAIL jobs SET state = ${STATE.completed}, due = ?2, result = ?3, pushed_back = 0, finished = ?1, since = ?1, worker = NULL
  WHERE seq IN (SELECT value FROM json_each(?4)) AND state = ${STATE.active} AND worker = ?5 AND attempt = ?6 AND (?7 IS NULL OR started = ?7) AND (?8 IS NULL OR moves = ?8)
  RETURNING seq, permits, flow`
// The list costs a third of it. Where all still run, without permits and outside flows, it tells nothing. A batch is
// counted so if the one before it was like that.
const PLAIN = `SELECT count(*) FROM json_each(?1) s CROSS JOIN jobs j ON j.seq = s.value
  WHERE state = ${STATE.active} AND worker = ?2 AND attempt = ?3 AND (?4 IS NULL OR started = ?4) AND (?5 IS NULL OR moves = ?5) AND permits IS NULL AND flow IS NULL`
const COMPLETE_PLAIN = `UPDATE OR FAIL jobs SET state = ${STATE.completed}, due = ?2, result = ?3, pushed_back = 0, finished = ?1, since = ?1, worker = NULL
  WHERE seq IN (SELECT value FROM json_each(?4))`
// The same for jobs that are kept for no time: their rows are not written once more.
const DELETE = `DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?1))
    AND state = ${STATE.active} AND worker = ?2 AND attempt = ?3 AND (?4 IS NULL OR started = ?4) AND flow IS NULL
  RETURNING seq, permits`
/** Fewer alike are written with the others. */
const ALIKE_AT_LEAST = 4
const LOST: SettleResult = { kind: 'lost' }

/**
 * Writes the outcomes of runs, returns their permits, and sends continuing jobs back to their lanes. Of two settlements
 * of a run the first counts.
 */
export function settle(context: Context, requests: readonly SettleRequest[]): SettleResult[] {
  const rounds = settleRounds(requests)
  if (rounds[0]?.length === requests.length) return settleRound(context, requests)
  const answers = requests.map(() => LOST)
  for (const round of rounds) {
    const settled = settleRound(
      context,
      round.map((at) => requests[at] as SettleRequest),
    )
    for (const [i, at] of round.entries()) answers[at] = settled[i] as SettleResult
  }
  return answers
}

/** Moves come first: those that end their run leave that to the plain settlements. */
function settleRound(context: Context, requests: readonly SettleRequest[]): SettleResult[] {
  if (!requests.some(isMove)) return settlePlain(context, requests)
  const atUs = context.clock.nowUs()
  const moved = readNow(moveJobs(accessOf(context), requests.filter(isMove)))[Symbol.iterator]()
  const plain: SettleRequest[] = []
  const answers = requests.map((request): SettleResult | null => {
    const move = isMove(request) ? (moved.next().value as Moved) : null
    if (move?.kind === 'written') return { kind: 'settled', state: move.state, atUs }
    if (move?.kind === 'lost') return LOST
    plain.push(move ? { worker: request.worker, settlement: move.settlement } : request)
    return null
  })
  const settled = settlePlain(context, plain)[Symbol.iterator]()
  return answers.map((answer) => answer ?? (settled.next().value as SettleResult))
}

function settlePlain(context: Context, requests: readonly SettleRequest[]): SettleResult[] {
  if (requests.length === 0) return []
  const instant = context.clock.read()
  const { nowUs } = instant
  const rows = endRuns(context, requests, instant)
  const counted = new Map(rows.map((row) => [row[0], row]))
  const returning = new Set<number>()
  for (const [seq, , state, permits, lane, priority, expires] of rows) {
    if (permits !== null && returnPermits(context, permits, nowUs)) returning.add(seq)
    if (state === STATE.available) rejoin(context, { seq, lane, priority, expires }, instant)
  }
  const ended = rows.filter(([, , state, , , , , flow]) => flow !== null && isEnd(state)).map(([seq]) => seq)
  const flows = advance(context, ended, instant)
  const completed: SettleResult = { kind: 'settled', state: 'completed', atUs: nowUs }
  return requests.map(({ worker, settlement }) => {
    const row = counted.get(settlement.seq)
    if (row?.[1] !== settlement.attempt - attemptBack(settlement)) return LOST
    const returned = returning.has(settlement.seq) && ({ returned: true } as const)
    if (row[2] === STATE.completed && row[7] === null) return returned ? { ...completed, ...returned } : completed
    const closed = settlement.kind === 'push-back' && { adjusted: close(context, settlement, nowUs, worker) }
    return { kind: 'settled', state: stateName(row[2]), atUs: nowUs, ...closed, ...returned, ...newsOf(row[7], flows) }
  })
}

/** Deletes the jobs that are kept for no time, and writes the others. Returns the rows that counted. */
function endRuns(context: Context, requests: readonly SettleRequest[], instant: Instant): Row[] {
  const unkept = requests.filter(({ settlement }) => deletesJob(settlement, context.retention))
  if (unkept.length === 0) return writeEnds(context, requests, instant)
  const gone = deleteJobs(context, unkept)
  const seqs = new Set(gone.map(([seq]) => seq))
  const others = requests.filter(({ settlement }) => !seqs.has(settlement.seq))
  return others.length === 0 ? gone : [...gone, ...writeEnds(context, others, instant)]
}

/** Deletes the jobs of runs that completed, except those of flows. */
function deleteJobs({ db }: Context, requests: readonly SettleRequest[]): Row[] {
  const runs = Map.groupBy(requests, ({ worker, settlement: { attempt, startedUs = '' } }) =>
    [worker, attempt, startedUs].join(' '),
  )
  return [...runs.values()].flatMap((alike) => {
    const [{ worker, settlement }] = alike as [SettleRequest]
    const { attempt, startedUs = null } = settlement
    const seqs = JSON.stringify(alike.map((each) => each.settlement.seq))
    const rows = db.all<[seq: number, permits: string | null]>(DELETE, seqs, worker, attempt, startedUs)
    return rows.map(([seq, permits]): Row => [seq, attempt, STATE.completed, permits, 0, 0, null, null])
  })
}

/** Writes runs that completed alike together, and all others in one statement. Returns the rows written. */
function writeEnds(context: Context, requests: readonly SettleRequest[], instant: Instant): Row[] {
  const { nowUs } = instant
  const groups: SettleRequest[][] = []
  const others: SettleRequest[] = []
  for (const request of requests) {
    // Runs that began together mostly end together, in their order.
    const group = groups.at(-1)
    if (request.settlement.kind !== 'complete') others.push(request)
    else if (group?.[0] && areAlike(group[0], request)) group.push(request)
    else groups.push([request])
  }
  const rows: Row[] = []
  for (const group of groups) {
    if (group.length < ALIKE_AT_LEAST && requests.length > 1) others.push(...group)
    else rows.push(...complete(context, group, nowUs))
  }
  if (others.length === 0) return rows
  const values = JSON.stringify(others.map((request) => toRow(context, request, instant)))
  rows.push(...context.db.all<Row>(SETTLE, nowUs, values, nowUs + context.retention.cancelledUs))
  return rows
}

function areAlike({ worker, settlement: a }: SettleRequest, { worker: other, settlement: b }: SettleRequest): boolean {
  return (
    worker === other &&
    a.kind === 'complete' &&
    b.kind === 'complete' &&
    a.attempt === b.attempt &&
    a.startedUs === b.startedUs &&
    a.moves === b.moves &&
    a.keepUs === b.keepUs &&
    a.keepAtLeastUs === b.keepAtLeastUs &&
    a.result === b.result
  )
}

function complete({ db, retention, ends }: Context, alike: readonly SettleRequest[], nowUs: number): Row[] {
  const { worker, settlement } = alike[0] as SettleRequest
  const { attempt, startedUs = null, moves = null } = settlement
  const result = settlement.kind === 'complete' ? settlement.result : null
  const seqs = JSON.stringify(alike.map((each) => each.settlement.seq))
  const dueUs = nowUs + completedUs(settlement, retention)
  const run = [worker, attempt, startedUs, moves] as const
  const mayBePlain = ends.plain && alike.length >= ALIKE_AT_LEAST
  if (mayBePlain && db.get<[number]>(PLAIN, seqs, ...run)?.[0] === alike.length) {
    db.run(COMPLETE_PLAIN, nowUs, dueUs, result, seqs)
    return alike.map((each) => [each.settlement.seq, attempt, STATE.completed, null, 0, 0, null, null])
  }
  const rows = db.all<CompletedRow>(COMPLETE, nowUs, dueUs, result, seqs, ...run)
  ends.plain = rows.length === alike.length && rows.every(([, permits, flow]) => permits === null && flow === null)
  return rows.map(([seq, permits, flow]) => [seq, attempt, STATE.completed, permits, 0, 0, null, flow])
}

/** The news of a flow, given once with the first of its jobs. */
function newsOf(flow: number | null, flows: Map<number, FlowNews>): { readonly flow?: FlowNews } {
  const news = flow === null ? undefined : flows.get(flow)
  if (flow === null || !news) return {}
  flows.delete(flow)
  return { flow: news }
}

/** In the order of `SETTLE`. */
function toRow(
  { retention }: Context,
  { worker, settlement }: SettleRequest,
  { nowUs, wallUs }: Instant,
): readonly unknown[] {
  const { seq, attempt, startedUs = null, moves = null } = settlement
  const { state, afterUs, result, error, back } = runEndOf(settlement, retention)
  const due = afterUs === null ? null : (state === STATE.scheduled ? wallUs : nowUs) + afterUs
  return [seq, attempt, worker, state, due, result, error, back, startedUs, moves]
}

/** Closes the bucket of a push-back; the next claim re-times every lane that waits for it. */
function close(
  context: Context,
  settlement: Extract<Settlement, { kind: 'push-back' }>,
  nowUs: number,
  worker: number,
): boolean {
  if (settlement.limit === null) return false
  const untilUs = nowUs + settlement.closedForUs
  endOverdue(context)
  return readNow(penalize(accessOf(context), settlement.limit, settlement.key, untilUs, worker))
}
