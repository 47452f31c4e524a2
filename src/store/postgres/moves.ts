import type { Statements } from '../../database/statements.ts'
import { codeOf } from '../../database/postgres-error.ts'
import { isFinal } from '../../jobs/job-state.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import { readAsync } from '../shared/reading.ts'
import { type SettleRequest, settleRounds } from '../shared/settle-once.ts'
import { type Access, now } from '../shared/sql.ts'
import { type Moved, moveJobs } from '../shared/workflows/move.ts'
import type { MoveRequest } from '../shared/workflows/runs.ts'
import { Batch } from './batch.ts'
import type { Context } from './context.ts'
import { type FlowEnds, withNews } from './flow-ends.ts'
import { goOn, onlyGoesOn } from './go-on.ts'
import { withMissedNews } from './missed-news.ts'
import { settle } from './settle.ts'
import { currentLimits } from './limit-timelines.ts'
import { accessOf } from './shared-sql.ts'
import { stayOrEnd, staysOrEnds } from './stay-or-end.ts'
import type { Notifier } from './watch.ts'

/** The answers to moves of one batch, and the work that they leave. */
interface Moving {
  readonly answers: SettleResult[]
  work: boolean
  noted: boolean
}

/**
 * Writes moves that are made together: those that change their job and its steps alone in one statement for each kind,
 * and all others in one transaction. Then it applies the ends that come of them.
 */
export function batchMoves(context: Context, notifier: Notifier, ends: FlowEnds): Batch<MoveRequest, SettleResult> {
  return new Batch(async (requests) => {
    const moving: Moving = { answers: requests.map(() => ({ kind: 'lost' })), work: false, noted: false }
    for (const round of settleRounds(requests)) {
      const moves = round.map((at) => [at, requests[at] as MoveRequest] as const)
      const left = await moveAlone(context, moves, moving)
      if (left.length > 0) await moveTogether(context, left, moving)
    }
    if (moving.work) notifier.notify('work')
    const ended = moving.noted ? await ends.apply() : null
    if (moving.answers.some((answer) => answer.kind === 'settled' && isFinal(answer.state))) notifier.notify('ended')
    const answers = ended ? withNews(requests, moving.answers, ended) : moving.answers
    return withMissedNews(context.db.session.bind(context.db), requests, answers, ended && ended.applied)
  })
}

type Placed = readonly [at: number, request: MoveRequest]

/** Writes the moves that concern only their job and its steps. Returns those that it did not write. */
async function moveAlone(context: Context, moves: readonly Placed[], moving: Moving): Promise<readonly Placed[]> {
  const times = new Map<number, number>()
  for (const [, { settlement }] of moves) times.set(settlement.seq, (times.get(settlement.seq) ?? 0) + 1)
  const once = moves.filter(([, { settlement }]) => times.get(settlement.seq) === 1)
  const going = once.filter(([, request]) => onlyGoesOn(request))
  const staying = once.filter(([, request]) => staysOrEnds(request))
  const written = new Set<number>()
  const answer = (of: readonly Placed[], settled: readonly (SettleResult | undefined)[]): void => {
    for (const [n, result] of settled.entries()) {
      const [at] = of[n] as Placed
      if (result) moving.answers[at] = result
      if (result) written.add(at)
    }
  }
  if (going.length > 0) {
    const write = (db: Statements): Promise<(SettleResult | undefined)[]> => goOn(context, db, requestsOf(going))
    answer(going, await atPace(context, () => context.db.autocommit(write)))
    moving.work = true
  }
  if (staying.length > 0) {
    const { ends, settled, work } = await context.db.autocommit((db) => stayOrEnd(context, db, requestsOf(staying)))
    answer(staying, settled)
    moving.work ||= work
    moving.noted ||= ends
  }
  return moves.filter(([at]) => !written.has(at))
}

/** Writes other moves, in one transaction. */
async function moveTogether(context: Context, moves: readonly Placed[], moving: Moving): Promise<void> {
  const transaction = (db: Statements): ReturnType<typeof moveAll> => moveAll(context, db, requestsOf(moves))
  const { ends, settled } = await atPace(context, () => context.db.transaction(transaction))
  for (const [n, [at]] of moves.entries()) moving.answers[at] = settled[n] as SettleResult
  moving.work = true
  moving.noted ||= ends
}

function requestsOf(moves: readonly Placed[]): MoveRequest[] {
  return moves.map(([, request]) => request)
}

/** Repeats a transaction that places jobs, if the pace of ageing has changed meanwhile. */
async function atPace<T>(context: Context, transaction: () => Promise<T>): Promise<T> {
  try {
    return await transaction()
  } catch (error) {
    if (codeOf(error) !== 'SL003') throw error
    await context.db.session((db) => currentLimits(context, db))
    return transaction()
  }
}

/** Asks for the time once: all of a transaction is written at one instant. */
function atOneInstant(access: Access): Access {
  let instant: ReturnType<Access['now']> | null = null
  return { ...access, now: () => (instant ??= access.now()) }
}

/** Moves that end their run leave that to plain settlements. */
async function moveAll(
  context: Context,
  db: Statements,
  requests: readonly MoveRequest[],
): Promise<{ readonly settled: readonly SettleResult[]; readonly ends: boolean }> {
  const access = atOneInstant(accessOf(context, db))
  const moved = await readAsync(moveJobs(access, requests))
  const plain = requests.flatMap(({ worker }, n): SettleRequest[] => {
    const move = moved[n] as Moved
    return move.kind === 'instead' ? [{ worker, settlement: move.settlement }] : []
  })
  const { nowUs: atUs } = await readAsync(now(access))
  const { settled, ends } = plain.length > 0 ? await settle(context, db, plain) : { settled: [], ends: false }
  let at = 0
  const answers = moved.map((move): SettleResult => {
    if (move.kind === 'instead') return settled[at++] ?? { kind: 'lost' }
    return move.kind === 'lost' ? move : { kind: 'settled', state: move.state, atUs }
  })
  // The ends of an earlier try may have been noted without having been applied.
  return { settled: answers, ends: ends || requests.some(({ again }) => again) }
}
