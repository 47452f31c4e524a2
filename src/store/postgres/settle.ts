import type { Statements } from '../../database/statements.ts'
import type { SettleResult, Settlement } from '../../jobs/settlement.ts'
import { newsOf, retentionOf } from './advance.ts'
import { Batch } from './batch.ts'
import { bucketId } from './buckets.ts'
import type { Context } from './context.ts'
import { type FlowEnds, withNews } from './flow-ends.ts'
import { changeBuckets } from '../shared/buckets.ts'
import { readAsync } from '../shared/reading.ts'
import { accessOf } from './shared-sql.ts'
import { closeUntil } from '../shared/bucket-change.ts'
import { currentLimits } from './limit-timelines.ts'
import { ownerFor } from './own.ts'
import { STATE, stateName } from '../shared/state.ts'
import {
  attemptBack,
  completedUs,
  completesAlone,
  deletesJob,
  runEndOf,
  type SettleRequest,
  settleRounds,
} from '../shared/settle-once.ts'
import { findRuns, type Found } from './settle-again.ts'
import { withMissedNews } from './missed-news.ts'
import type { Notifier } from './watch.ts'

type Settled = Extract<SettleResult, { kind: 'settled' }>
/** A row of the answer of the SQL function `settle`. */
export type Written = [
  seq: number,
  attempt: number,
  state: number,
  now: number,
  work: boolean | null,
  flows: string | null,
  ends: boolean,
]

type Completed = SettleRequest & { readonly settlement: Extract<Settlement, { kind: 'complete' }> }
type CompletedRow = [nowUs: number, work: boolean, done: number[] | null]

/** Results that a statement has written while a later one may fail: its caller makes all requests again, in parts. */
type Noted = WeakMap<SettleRequest, SettleResult>

/** The results that a statement wrote, by their jobs. */
interface Outcomes {
  readonly settled: ReadonlyMap<number, SettleResult>
  /** A job may start that could not before. */
  readonly work: boolean
}

const COMPLETE = `SELECT r_now, r_work, r_done FROM sluice.complete(
  $1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])`

const COMPLETE_AND_DELETE = `SELECT r_now, r_work, r_done FROM sluice.complete_and_delete(
  $1::bigint[], $2::int[], $3::bigint[], $4::bigint[])`

const SETTLE = `SELECT r_seq, r_attempt, r_state, r_now, r_work, r_flows, r_ends FROM sluice.settle(
  $1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::text[], $7::text[], $8::int[], $9::bigint[], $10::bigint[], $11::int[])`

/** Writes settlements made together in one statement, then notifies the processes that may start jobs. */
export function batchSettlements(
  context: Context,
  notifier: Notifier,
  flowEnds: FlowEnds,
): Batch<SettleRequest, SettleResult> {
  const noted: Noted = new WeakMap()
  return new Batch(async (requests) => {
    const { settled, work, ends } = await context.db.session((db) => settle(context, db, requests, noted))
    if (work) notifier.notify('work')
    const ended = ends ? await flowEnds.apply() : null
    notifier.notify('ended')
    const answers = ended ? withNews(requests, settled, ended) : settled
    return withMissedNews(context.db.session.bind(context.db), requests, answers, ended && ended.applied)
  })
}

/**
 * Writes the outcomes of runs in one statement, returns their permits, and announces continuing jobs to their lanes. Of
 * two settlements of a run the first counts.
 */
export async function settle(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
  noted: Noted = new WeakMap(),
): Promise<{ readonly settled: SettleResult[]; readonly work: boolean; readonly ends: boolean }> {
  const found = await settledBefore(context, db, requests)
  const answers = requests.map((request, at) => found[at] ?? noted.get(request))
  const open = requests.flatMap((_, at) => (answers[at] ? [] : [at]))
  let work = open.length < requests.length
  // The ends of an earlier try may have been noted without having been applied.
  let ends = work
  for (const round of settleRounds(open.map((at) => requests[at] as SettleRequest))) {
    const places = round.map((n) => open[n] as number)
    const written = await settleRound(
      context,
      db,
      places.map((at) => requests[at] as SettleRequest),
      noted,
    )
    for (const [i, at] of places.entries()) answers[at] = written.settled[i]
    work ||= written.work
    ends ||= written.ends
  }
  // The server was still executing an earlier try, which has finished meanwhile.
  const late = open.filter((at) => requests[at]?.again && answers[at]?.kind === 'lost')
  const meanwhile = await settledBefore(
    context,
    db,
    late.map((at) => requests[at] as SettleRequest),
  )
  for (const [n, at] of late.entries()) answers[at] = meanwhile[n] ?? answers[at]
  return { settled: requests.map((_, at) => answers[at] ?? { kind: 'lost' }), work, ends }
}

/** The results of earlier tries of repeated requests; undefined: it still has to be written. */
async function settledBefore(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
): Promise<(SettleResult | undefined)[]> {
  const answers = requests.map((): SettleResult | undefined => undefined)
  const again = requests.flatMap(({ again: isAgain }, at) => (isAgain ? [at] : []))
  if (again.length === 0) return answers
  const found = await findRuns(
    db,
    again.map((at) => requests[at] as SettleRequest),
  )
  for (const [n, at] of again.entries()) {
    const run = found[n] as Found
    const { settlement } = requests[at] as SettleRequest
    // The earlier try deleted the job. Or its lease had ended before, and the job is gone since another run ended it.
    const deleted = run.kind === 'gone' && deletesJob(settlement, context.retention)
    if (deleted) answers[at] = ended(settlement, STATE.completed)
    else if (run.kind === 'lost' || run.kind === 'gone') answers[at] = { kind: 'lost' }
    else if (run.kind === 'won')
      answers[at] = ended(settlement, run.state ?? runEndOf(settlement, context.retention).state)
  }
  return answers
}

function ended(settlement: Settlement, state: number): Settled {
  const end: Settled = { kind: 'settled', state: stateName(state) }
  return settlement.kind === 'push-back' ? { ...end, adjusted: false } : end
}

async function settleRound(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
  noted: Noted,
): Promise<{ readonly settled: SettleResult[]; readonly work: boolean; readonly ends: boolean }> {
  const sorted = requests.toSorted((a, b) => a.settlement.seq - b.settlement.seq)
  const written: Outcomes[] = []
  const resultOf = ({ settlement: { seq } }: SettleRequest): SettleResult | undefined =>
    written.find(({ settled }) => settled.has(seq))?.settled.get(seq)
  /** The requests that are still to be written. */
  const left = (of: readonly SettleRequest[]): readonly SettleRequest[] => {
    const open = of.filter((request) => !resultOf(request))
    for (const request of open.length > 0 ? of : []) {
      const result = resultOf(request)
      if (result) noted.set(request, result)
    }
    return open
  }
  const unkept = sorted.filter(({ settlement }) => deletesJob(settlement, context.retention))
  if (unkept.length > 0) written.push(await completeAndDelete(context, db, unkept))
  const kept = left(sorted)
  if (kept.length > 0 && areCompletes(kept)) written.push(await complete(context, db, kept))
  const rest = left(kept)
  const other = rest.length > 0 ? await settleSorted(context, db, rest) : null
  if (other) written.push(other)
  return {
    settled: requests.map((request) => resultOf(request) ?? { kind: 'lost' }),
    work: written.some(({ work }) => work),
    ends: other?.ends ?? false,
  }
}

/** Whether these are all runs that completed, of jobs that are not known to belong to a flow. */
function areCompletes(requests: readonly SettleRequest[]): requests is readonly Completed[] {
  return requests.every(({ settlement }) => completesAlone(settlement))
}

/**
 * Settles runs that completed, sorted by their jobs, in one statement. It leaves out the jobs of flows and the runs that
 * lost their lease.
 */
async function complete(context: Context, db: Statements, requests: readonly Completed[]): Promise<Outcomes> {
  const runs = requests.map(({ settlement }) => settlement)
  const results = runs.map(({ result }) => result)
  const keptUs = runs.map((run) => completedUs(run, context.retention))
  return outcomesOf(context, await db.call<CompletedRow>(COMPLETE, ...identities(requests), results, keptUs))
}

/** The same for runs whose jobs are kept for no time. It deletes these. */
async function completeAndDelete(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
): Promise<Outcomes> {
  return outcomesOf(context, await db.call<CompletedRow>(COMPLETE_AND_DELETE, ...identities(requests)))
}

/** The identity of each run: its job, attempt, worker and start. */
function identities(requests: readonly SettleRequest[]): (number | null)[][] {
  const runs = requests.map(({ settlement }) => settlement)
  return [
    runs.map(({ seq }) => seq),
    runs.map(({ attempt }) => attempt),
    requests.map(({ worker }) => worker),
    runs.map(({ startedUs = null }) => startedUs),
  ]
}

function outcomesOf(context: Context, rows: readonly CompletedRow[]): Outcomes {
  const [atUs, work, seqs] = rows[0] as CompletedRow
  context.clock.saw(atUs)
  const settled: SettleResult = { kind: 'settled', state: 'completed', atUs }
  return { settled: new Map(seqs?.map((seq) => [seq, settled])), work }
}

async function settleSorted(
  context: Context,
  db: Statements,
  sorted: readonly SettleRequest[],
): Promise<Outcomes & { readonly ends: boolean }> {
  const rows = sorted.map(({ settlement }) => runEndOf(settlement, context.retention))
  const written = await db.call<Written>(
    SETTLE,
    sorted.map(({ settlement }) => settlement.seq),
    sorted.map(({ settlement }) => settlement.attempt),
    sorted.map(({ worker }) => worker),
    rows.map(({ state }) => state),
    rows.map(({ afterUs }) => afterUs),
    rows.map(({ result }) => result),
    rows.map(({ error }) => error),
    rows.map(({ back }) => back),
    retentionOf(context),
    sorted.map(({ settlement }) => settlement.startedUs ?? null),
    sorted.map(({ settlement }) => settlement.moves ?? null),
  )
  const [first] = written
  if (first) context.clock.saw(first[3])
  const bySeq = new Map(written.map(([seq, attempt, state]) => [seq, [attempt, state] as const]))
  const flows = newsOf(first?.[5] ?? null)
  const settled = new Map<number, SettleResult>()
  for (const { settlement } of sorted) {
    const [attempt, state] = bySeq.get(settlement.seq) ?? []
    if (state === undefined || attempt !== settlement.attempt - attemptBack(settlement)) continue
    const flow = flows.get(settlement.seq)
    settled.set(settlement.seq, {
      ...ended(settlement, state),
      ...(first && { atUs: first[3] }),
      ...(flow && { flow }),
    })
  }
  return { settled, work: written.some((row) => row[4] === true), ends: first?.[6] ?? false }
}

/** Whether it also closes a bucket, which needs a transaction. */
export function closesBucket({ settlement }: SettleRequest): boolean {
  return settlement.kind === 'push-back' && settlement.limit !== null
}

/** Settles a push-back: the run goes back and its bucket closes, both or neither. */
export async function settleAndClose(context: Context, db: Statements, request: SettleRequest): Promise<SettleResult> {
  const { settlement } = request
  if (settlement.kind !== 'push-back' || settlement.limit === null) return { kind: 'lost' }
  const { limit, key, closedForUs } = settlement
  const owner = ownerFor(await currentLimits(context, db), limit, key, request.worker)
  const bucket = await bucketId(db, limit, key, owner)
  // The run first, then all its buckets in order: every transaction that locks both uses this order.
  const [permits] = (await db.get<[number[] | null]>(
    'SELECT permits FROM sluice.jobs WHERE seq = $1 FOR UPDATE',
    settlement.seq,
  )) ?? [null]
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', [...(permits ?? []), bucket])
  const [settled] = (await settle(context, db, [request])).settled
  if (settled?.kind !== 'settled') return { kind: 'lost' }
  const close = closeUntil((nowUs) => nowUs + closedForUs)
  return { ...settled, adjusted: await readAsync(changeBuckets(accessOf(context, db), [bucket], close)) }
}
