import type { Statements } from '../../database/postgres.ts'
import type { Settled, Settlement } from '../../jobs/job.ts'
import { LOST } from '../lost.ts'
import { newsOf, retentionOf } from './advance.ts'
import { bucketId } from './buckets.ts'
import type { Context } from './context.ts'
import { penalizeBuckets } from './penalize.ts'
import { currentLimits } from './limits.ts'
import { ownerFor } from './own.ts'
import { STATE, stateName } from '../state.ts'
import { type SettleRequest, settleRounds } from '../settle-once.ts'

interface Row {
  readonly state: number
  readonly afterUs: number | null
  readonly result: string | null
  readonly error: string | null
  readonly back: number
}

type Written = [seq: number, attempt: number, state: number, now: number, work: boolean | null, flows: string | null]

const SETTLE = `SELECT r_seq, r_attempt, r_state, r_now, r_work, r_flows FROM sluice.settle(
  $1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::text[], $7::text[], $8::int[], $9::bigint[])`

/**
 * Writes what runs came to in one statement, returns their permits, and announces those that go on to their lanes. Of two settlements
 * of a run the first counts.
 */
export async function settle(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
): Promise<{ readonly settled: Settled[]; readonly work: boolean }> {
  const answers = requests.map((): Settled => ({ kind: 'lost' }))
  let work = false
  for (const round of settleRounds(requests)) {
    const ones = round.map((at) => requests[at] as SettleRequest)
    const written = await settleRound(context, db, ones)
    for (const [i, at] of round.entries()) answers[at] = written.settled[i] as Settled
    work ||= written.work
  }
  return { settled: answers, work }
}

async function settleRound(
  context: Context,
  db: Statements,
  requests: readonly SettleRequest[],
): Promise<{ readonly settled: Settled[]; readonly work: boolean }> {
  const sorted = [...requests].sort((a, b) => a.settlement.seq - b.settlement.seq)
  const rows = sorted.map(({ settlement }) => rowOf(context, settlement))
  const written = await db.all<Written>(
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
  )
  if (written[0]) context.clock.saw(written[0][3])
  const bySeq = new Map(written.map(([seq, attempt, state]) => [seq, [attempt, state] as const]))
  const again = requests.filter((request) => request.again)
  if (again.length > 0) for (const [seq, end] of await endedBefore(db, again)) if (!bySeq.has(seq)) bySeq.set(seq, end)
  const flows = newsOf(written[0]?.[5] ?? null)
  const settled = requests.map(({ settlement }): Settled => {
    const [attempt, state] = bySeq.get(settlement.seq) ?? []
    if (state === undefined || attempt !== settlement.attempt - attemptBack(settlement)) return { kind: 'lost' }
    const flow = flows.get(settlement.seq)
    const end: Settled = { kind: 'settled', state: stateName(state), ...(flow && { flow }) }
    return settlement.kind === 'push-back' ? { ...end, adjusted: false } : end
  })
  return { settled, work: again.length > 0 || written.some((row) => row[4] === true) }
}

/** What an earlier try had written before its answer was lost: a run that ended so was ended by its own worker, since no other may. */
async function endedBefore(
  db: Statements,
  requests: readonly SettleRequest[],
): Promise<[seq: number, end: readonly [attempt: number, state: number]][]> {
  const rows = await db.all<[seq: number, attempt: number, state: number]>(
    `SELECT seq, attempt, state FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) AND state IN (${STATE.completed}, ${STATE.discarded}, ${STATE.cancelled})
     AND worker IS NULL AND error IS DISTINCT FROM $2`,
    requests.map(({ settlement }) => settlement.seq),
    LOST,
  )
  return rows.map(([seq, attempt, state]) => [seq, [attempt, state]])
}

/** Whether it closes a bucket too: that needs a transaction. */
export function closesBucket({ settlement }: SettleRequest): boolean {
  return settlement.kind === 'push-back' && settlement.limit !== null
}

/** A push-back: the run goes back, and its bucket is closed, both or neither. */
export async function settleAndClose(context: Context, db: Statements, request: SettleRequest): Promise<Settled> {
  const { settlement } = request
  if (settlement.kind !== 'push-back' || settlement.limit === null) return { kind: 'lost' }
  const { limit, key, closedForUs } = settlement
  const owner = ownerFor(await currentLimits(context, db), limit, key, request.worker)
  const bucket = await bucketId(db, limit, key, owner)
  // The run, then all buckets that it concerns at once and in order: whoever locks both does so like this.
  const [permits] = (await db.get<[number[] | null]>(
    'SELECT permits FROM sluice.jobs WHERE seq = $1 FOR UPDATE',
    settlement.seq,
  )) ?? [null]
  await db.run('SELECT sluice.lock_buckets($1::bigint[])', [...(permits ?? []), bucket])
  const [settled] = (await settle(context, db, [request])).settled
  if (settled?.kind !== 'settled') return { kind: 'lost' }
  return { ...settled, adjusted: await penalizeBuckets(context, db, [bucket], (nowUs) => nowUs + closedForUs) }
}

function attemptBack({ kind }: Settlement): number {
  return kind === 'push-back' || kind === 'give-back' ? 1 : 0
}

function rowOf({ retention }: Context, settlement: Settlement): Row {
  const row = (state: number, afterUs: number | null, error: object | null = null): Row => ({
    state,
    afterUs,
    result: settlement.kind === 'complete' ? settlement.result : null,
    error: error && JSON.stringify(error),
    back: attemptBack(settlement),
  })
  if (settlement.kind === 'complete') return row(STATE.completed, retention.completedUs)
  if (settlement.kind === 'cancel') return row(STATE.cancelled, retention.cancelledUs)
  if (settlement.kind === 'discard') return row(STATE.discarded, retention.discardedUs, settlement.error)
  if (settlement.kind === 'give-back') return row(STATE.available, null)
  if (settlement.kind === 'push-back') {
    if (settlement.limit === null || settlement.apart)
      return row(STATE.retryable, settlement.closedForUs, settlement.error)
    return row(STATE.available, null, settlement.error)
  }
  return settlement.delayUs <= 0
    ? row(STATE.available, null, settlement.error)
    : row(STATE.retryable, settlement.delayUs, settlement.error)
}
