import type { Statements } from '../../database/statements.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import type { Arrival } from '../../jobs/workflow.ts'
import { stateName } from '../shared/state.ts'
import { changesFlow, isTrimmed } from '../shared/workflows/move-batch.ts'
import type { MoveRequest } from '../shared/workflows/runs.ts'
import { keptOf, waitedForText } from '../shared/workflows/steps.ts'
import type { Context } from './context.ts'
import { ageingText } from './job-columns.ts'
import { PLACE_TYPES, placeRow } from './workflows.ts'

const RUN_TYPES = ['bigint', 'int', 'bigint', 'int']
/** The types of a row of a step. */
export const STEP_TYPES: readonly string[] =
  'bigint text text text text int bigint bigint bigint text bigint text'.split(' ')
const TYPES = [...PLACE_TYPES, ...RUN_TYPES, ...STEP_TYPES]
const GO_ON = `SELECT r_seq, r_state, r_now FROM sluice.go_on($1, ${TYPES.map((type, i) => `$${i + 2}::${type}[]`).join(', ')})`

type Written = [seq: number, state: number, nowUs: number]

/** Whether a move only goes on: it changes its job and its steps alone, and is made for the first time. */
export function onlyGoesOn({ again, settlement: { move, moves } }: MoveRequest): boolean {
  const goes = move.then.kind === 'go' && move.consumed.length === 0 && !changesFlow(move)
  return goes && again !== true && !isTrimmed(moves)
}

/**
 * Writes moves that only go on, in one statement. Of a run that has ended, is asked to end, or whose flow would remember
 * too much it writes nothing, and its place is undefined. It fails with SL003 if the pace of ageing has changed.
 */
export async function goOn(
  context: Context,
  db: Statements,
  requests: readonly MoveRequest[],
): Promise<(SettleResult | undefined)[]> {
  const sorted = requests.toSorted((a, b) => a.settlement.seq - b.settlement.seq)
  const rows = sorted.map((request) => rowOf(context, request))
  const steps = sorted.flatMap(stepsOf)
  const width = PLACE_TYPES.length + RUN_TYPES.length
  const written = await db.call<Written>(
    GO_ON,
    ageingText(context),
    ...TYPES.map((_, i) =>
      i < width ? rows.map((row) => row[i] ?? null) : steps.map((step) => step[i - width] ?? null),
    ),
  )
  const [first] = written
  if (first) context.clock.saw(first[2])
  const states = new Map(written.map(([seq, state]) => [seq, state]))
  return requests.map(({ settlement: { seq } }) => {
    const state = states.get(seq)
    return state === undefined || !first ? undefined : { kind: 'settled', state: stateName(state), atUs: first[2] }
  })
}

/** A row of parameters. */
export type Cells = readonly (string | number | boolean | null)[]

/** A move as a row of the parameters of `go_on`, without its steps. */
function rowOf(context: Context, { settlement, worker }: MoveRequest): Cells {
  const { attempt, move, moves, seq, startedUs = null } = settlement
  const { arrival, place } = move.then as { arrival: Arrival; place: 'keep' | 'new' }
  context.queues.met(arrival.queue)
  const placed = { seq, arrival, isNew: place === 'new', parked: null, input: move.state, ...keptOf(move.steps) }
  return [...placeRow(context, placed), worker, attempt, startedUs, moves]
}

/** The steps of a move as rows of parameters, each behind the run that writes it. */
export function stepsOf({ settlement: { move, seq } }: MoveRequest): Cells[] {
  return move.steps.map((step) => {
    const { name, state, result, error, attempt, startedUs, finishedUs, waitedUs, dueUs, input } = step
    const end = [name, state, result, error && JSON.stringify(error), attempt]
    return [seq, ...end, startedUs, finishedUs, waitedUs, waitedForText(step), dueUs, input]
  })
}
