import type { Statements } from '../../database/postgres.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import { readAsync } from '../shared/reading.ts'
import { type SettleRequest, settleRounds } from '../shared/settle-once.ts'
import { type Access, now } from '../shared/sql.ts'
import { type Moved, moveJobs } from '../shared/workflows/move.ts'
import type { MoveRequest } from '../shared/workflows/runs.ts'
import { Batch } from './batch.ts'
import type { Context } from './context.ts'
import { type FlowEnds, withNews } from './flow-ends.ts'
import { goOn, onlyGoingOn } from './go-on.ts'
import { settle } from './settle.ts'
import { currentLimits } from './limit-timelines.ts'
import { accessOf } from './shared-sql.ts'
import type { Notifier } from './watch.ts'

/** Writes moves that are made together in one transaction, those that only go on before it, and applies the ends that come of them. */
export function batchMoves(context: Context, notifier: Notifier, ends: FlowEnds): Batch<MoveRequest, SettleResult> {
  return new Batch(async (requests) => {
    const answers: SettleResult[] = requests.map(() => ({ kind: 'lost' }))
    let noted = false
    for (const round of settleRounds(requests)) {
      const moves = round.map((at) => requests[at] as MoveRequest)
      const gone = await goOnAlone(context, moves)
      const others = round.filter((_, n) => !gone.has(n))
      for (const [n, answer] of gone) answers[round[n] as number] = answer
      if (others.length === 0) continue
      const left = others.map((at) => requests[at] as MoveRequest)
      const written = await atPace(context, () => context.db.transaction((db) => moveAll(context, db, left)))
      for (const [n, at] of others.entries()) answers[at] = written.settled[n] as SettleResult
      noted ||= written.ends
    }
    notifier.notify('work')
    const news = noted ? await ends.apply() : null
    if (noted) notifier.notify('ended')
    return news ? withNews(requests, answers, news) : answers
  })
}

/** Writes the moves that only go on, in one statement. Returns those that it wrote, by their places. */
async function goOnAlone(context: Context, moves: readonly MoveRequest[]): Promise<ReadonlyMap<number, SettleResult>> {
  const places = onlyGoingOn(moves)
  if (places.length === 0) return new Map()
  const going = places.map((at) => moves[at] as MoveRequest)
  const settled = await atPace(context, () => context.db.autocommit((db) => goOn(context, db, going)))
  return new Map(
    settled.flatMap((answer, n): [number, SettleResult][] => (answer ? [[places[n] as number, answer]] : [])),
  )
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
