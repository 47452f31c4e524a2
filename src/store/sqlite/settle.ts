import { attemptBack, runEndOf, type SettleRequest, settleRounds } from '../shared/settle-once.ts'
import type { SettleResult, Settlement } from '../../jobs/job.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import { advance } from './advance.ts'
import { returnPermits } from './buckets.ts'
import type { Context } from './context.ts'
import { penalizeBucket } from './penalize.ts'
import { rejoin } from './rejoin.ts'
import { withFailure } from './history.ts'
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

const GOES_ON = `${STATE.retryable}, ${STATE.available}`
/** A caller asked to cancel the job while it ran, so it does not run again. */
const STOPPED = `cancelling AND s.value ->> 3 IN (${GOES_ON})`
// A failed attempt is added to the job's history; a push-back is not one.
const HISTORY = `CASE WHEN s.value ->> 6 IS NULL OR s.value ->> 7 > 0 THEN errors ELSE ${withFailure('s.value ->> 6', '?1')} END`
// One statement for a whole batch; it writes a job only while the caller holds the lease. `s`: seq, attempt, worker,
// state, due, result, error, attempt back, start of the run.
const SETTLE = `UPDATE jobs SET
    state = CASE WHEN ${STOPPED} THEN ${STATE.cancelled} ELSE s.value ->> 3 END,
    due = CASE WHEN ${STOPPED} THEN ?3 ELSE s.value ->> 4 END, result = s.value ->> 5, error = coalesce(s.value ->> 6, error), errors = ${HISTORY}, attempt = attempt - (s.value ->> 7),
    pushed_back = CASE s.value ->> 7 WHEN 0 THEN 0 ELSE pushed_back + 1 END,
    finished = CASE WHEN s.value ->> 3 IN (${GOES_ON}) AND NOT cancelling THEN NULL ELSE ?1 END, since = ?1, worker = NULL
  FROM json_each(?2) s
  WHERE jobs.seq = s.value ->> 0 AND jobs.attempt = s.value ->> 1 AND jobs.worker = s.value ->> 2 AND jobs.state = ${STATE.active}
    AND (s.value ->> 8 IS NULL OR jobs.started = s.value ->> 8)
  RETURNING seq, attempt, state, permits, lane, priority, expires, flow`

/**
 * Writes the outcomes of runs, returns their permits, and sends continuing jobs back to their lanes. Of two settlements
 * of a run the first counts.
 */
export function settle(context: Context, requests: readonly SettleRequest[]): SettleResult[] {
  const answers = requests.map((): SettleResult => ({ kind: 'lost' }))
  for (const round of settleRounds(requests)) {
    const settled = settleRound(
      context,
      round.map((at) => requests[at] as SettleRequest),
    )
    for (const [i, at] of round.entries()) answers[at] = settled[i] as SettleResult
  }
  return answers
}

function settleRound(context: Context, requests: readonly SettleRequest[]): SettleResult[] {
  const instant = context.clock.read()
  const { nowUs } = instant
  const rows = context.db.all<Row>(
    SETTLE,
    nowUs,
    JSON.stringify(requests.map((request) => toRow(context, request, nowUs))),
    nowUs + context.retention.cancelledUs,
  )
  const counted = new Map(rows.map((row) => [row[0], row]))
  for (const [seq, , state, permits, lane, priority, expires] of rows) {
    if (permits !== null) returnPermits(context, permits, nowUs)
    if (state === STATE.available) rejoin(context, { seq, lane, priority, expires }, instant)
  }
  const ended = rows.filter(([, , state, , , , , flow]) => flow !== null && isEnd(state)).map(([seq]) => seq)
  const flows = advance(context, ended, instant)
  return requests.map(({ worker, settlement }) => {
    const row = counted.get(settlement.seq)
    if (row?.[1] !== settlement.attempt - attemptBack(settlement)) return { kind: 'lost' }
    const state = stateName(row[2])
    if (settlement.kind !== 'push-back') return { kind: 'settled', state, ...newsOf(row[7], flows) }
    const adjusted = close(context, settlement, nowUs, worker)
    return { kind: 'settled', state, adjusted, ...newsOf(row[7], flows) }
  })
}

/** The news of a flow, given once with the first of its jobs. */
function newsOf(flow: number | null, flows: Map<number, FlowNews>): { readonly flow?: FlowNews } {
  const news = flow === null ? undefined : flows.get(flow)
  if (flow === null || !news) return {}
  flows.delete(flow)
  return { flow: news }
}

/** In the order of `SETTLE`. */
function toRow({ retention }: Context, { worker, settlement }: SettleRequest, nowUs: number): readonly unknown[] {
  const { seq, attempt, startedUs = null } = settlement
  const { state, afterUs, result, error, back } = runEndOf(settlement, retention)
  return [seq, attempt, worker, state, afterUs === null ? null : nowUs + afterUs, result, error, back, startedUs]
}

/** Closes the bucket of a push-back; the next claim re-times every lane that waits for it. */
function close(
  context: Context,
  settlement: Extract<Settlement, { kind: 'push-back' }>,
  nowUs: number,
  worker: number,
): boolean {
  if (settlement.limit === null) return false
  return penalizeBucket(context, settlement.limit, settlement.key, nowUs + settlement.closedForUs, nowUs, worker)
}
