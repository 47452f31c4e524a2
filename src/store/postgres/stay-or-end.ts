import type { Statements } from '../../database/statements.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import { runEndOf } from '../shared/settle-once.ts'
import { stateName } from '../shared/state.ts'
import { endOfMove } from '../shared/workflows/move.ts'
import { changesFlow, isTrimmed } from '../shared/workflows/move-batch.ts'
import type { MoveRequest } from '../shared/workflows/runs.ts'
import { keptOf } from '../shared/workflows/steps.ts'
import { newsOf, retentionOf } from './advance.ts'
import type { Context } from './context.ts'
import { type Cells, STEP_TYPES, stepsOf } from './go-on.ts'
import type { Written } from './settle.ts'

const RUN_TYPES = 'bigint bigint int bigint int text int bigint boolean int bigint text text'.split(' ')
const TYPES = [...RUN_TYPES, 'bigint', 'bigint', 'bigint', ...STEP_TYPES]
const STAY_OR_END = `SELECT r_seq, r_attempt, r_state, r_now, r_work, r_flows, r_ends
  FROM sluice.stay_or_end(${TYPES.map((type, i) => `$${i + 1}::${type}[]`).join(', ')})`

/** The results of moves by which runs stay or end, and what came of them. */
export interface StayedOrEnded {
  /** Undefined: nothing was written for it, since it needs a transaction, or is lost. */
  readonly settled: readonly (SettleResult | undefined)[]
  /** Some job may start. */
  readonly work: boolean
  /** Ends have to be applied to flows. */
  readonly ends: boolean
}

/** Whether a move lets its run stay or end, changes its job and its steps alone, and is made for the first time. */
export function staysOrEnds({ again, settlement: { move, moves } }: MoveRequest): boolean {
  const { kind } = move.then
  return (kind === 'stay' || kind === 'end') && !changesFlow(move) && again !== true && !isTrimmed(moves)
}

/** Writes moves by which runs stay or end, in one statement. */
export async function stayOrEnd(
  context: Context,
  db: Statements,
  requests: readonly MoveRequest[],
): Promise<StayedOrEnded> {
  const sorted = requests.toSorted((a, b) => a.settlement.seq - b.settlement.seq)
  const runs = sorted.map((request) => rowOf(context, request))
  const reads = sorted.flatMap(({ settlement: { move, seq } }) => move.consumed.map((signal) => [seq, signal]))
  const steps = sorted.flatMap(stepsOf)
  const written = await db.call<Written>(
    STAY_OR_END,
    ...columnsOf(runs, RUN_TYPES.length),
    ...columnsOf(reads, 2),
    retentionOf(context),
    ...columnsOf(steps, STEP_TYPES.length),
  )
  const [first] = written
  if (first) context.clock.saw(first[3])
  const flows = newsOf(written.find((row) => row[5] !== null)?.[5] ?? null)
  const bySeq = new Map(written.map((row) => [row[0], row]))
  const settled = requests.map(({ settlement: { seq } }): SettleResult | undefined => {
    const row = bySeq.get(seq)
    const flow = flows.get(seq)
    return row && { kind: 'settled', state: stateName(row[2]), atUs: row[3], ...(flow && { flow }) }
  })
  return {
    settled,
    work: written.some((row) => row[4] === true),
    ends: written.some((row) => row[6]),
  }
}

/** A move as a row of the parameters of `stay_or_end`, without its steps and signals. */
function rowOf(context: Context, { settlement, worker }: MoveRequest): Cells {
  const { attempt, move, moves, seq, startedUs = null } = settlement
  const { consumed, state: input, steps } = move
  const { bytes, kept } = keptOf(steps)
  const end = endOfMove(settlement)
  const ended = end && runEndOf(end, context.retention)
  const writes = !ended || input !== null || steps.length + consumed.length > 0
  const how = ended ? [ended.state, ended.afterUs, ended.result, ended.error] : [null, null, null, null]
  return [seq, worker, attempt, startedUs, moves, input, kept, bytes, writes, ...how]
}

function columnsOf(rows: readonly Cells[], width: number): Cells[] {
  return Array.from({ length: width }, (_, i) => rows.map((row) => row[i] ?? null))
}
