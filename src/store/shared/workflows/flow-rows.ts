import type { FlowState, WorkflowKind } from '../../../jobs/flow.ts'
import { column, columns, numbers, numbersOrNull, texts, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, run } from '../sql.ts'
import { flowStateName, storedFlowState } from '../stored-flows.ts'

/** A workflow flow that a transaction has locked, with its changes until they are saved. */
export interface FlowRow {
  readonly seq: number
  readonly id: string
  readonly kind: WorkflowKind
  readonly name: string
  state: FlowState
  /** The number of its jobs so far. */
  total: number
  completed: number
  discarded: number
  cancelled: number
  bytes: number
  kept: number
  finishedUs: number | null
  dueUs: number | null
  generation: number
  readonly depth: number
  readonly parent: number | null
  readonly parentStep: string | null
  readonly parentGeneration: number | null
  error: string | null
  /** JSON text of the buckets whose permits it keeps. */
  held: string | null
  open: number
  events: number
}

/** Flows by their `seq`. */
export type FlowRows = Map<number, FlowRow>

const FLOW = columns({
  ...numbers('seq', 'state', 'total', 'completed', 'discarded', 'cancelled', 'bytes', 'kept', 'generation'),
  ...numbers('depth', 'open', 'events'),
  ...texts('id', 'name'),
  kind: column<WorkflowKind>(),
  ...textsOrNull('error', 'held'),
  ...numbersOrNull('parent'),
  parentStep: column<string | null>('parent_step'),
  parentGeneration: column<number | null>('parent_generation'),
  finishedUs: column<number | null>('finished'),
  dueUs: column<number | null>('due'),
})
const LOCK = `SELECT ${FLOW.list} FROM sluice.flows WHERE seq = ANY ($1::bigint[]) ORDER BY seq FOR UPDATE`

const SAVED = [
  'state',
  'total',
  'completed',
  'discarded',
  'cancelled',
  'bytes',
  'kept',
  'finishedUs',
  'dueUs',
  'generation',
  'error',
  'held',
  'open',
  'events',
] as const
const SAVE = `UPDATE sluice.flows SET state = (e.value ->> 1)::int, total = (e.value ->> 2)::int, completed = (e.value ->> 3)::int,
    discarded = (e.value ->> 4)::int, cancelled = (e.value ->> 5)::int, bytes = (e.value ->> 6)::bigint, kept = (e.value ->> 7)::int,
    finished = (e.value ->> 8)::bigint, due = (e.value ->> 9)::bigint, generation = (e.value ->> 10)::int, error = e.value ->> 11,
    held = e.value ->> 12, open = (e.value ->> 13)::int, events = (e.value ->> 14)::bigint
  FROM json_array_elements($1::json) e WHERE flows.seq = (e.value ->> 0)::bigint`

/** Locks flows in their order, and adds them to those that the transaction has. */
export function* lockFlows({ db }: FlowAccess, seqs: Iterable<number>, into: FlowRows = new Map()): Reading<FlowRows> {
  const wanted = [...new Set(seqs)].filter((seq) => !into.has(seq))
  if (wanted.length === 0) return into
  for (const row of yield* all(db, LOCK, wanted)) {
    const flow = FLOW.read(row)
    into.set(flow.seq, { ...flow, state: flowStateName(flow.state) })
  }
  return into
}

/** Writes the changes of locked flows. */
export function* saveFlows({ db }: FlowAccess, flows: Iterable<FlowRow>): Reading<void> {
  const rows = [...flows].map((flow) => [
    flow.seq,
    ...SAVED.map((name) => (name === 'state' ? storedFlowState(flow.state) : flow[name])),
  ])
  if (rows.length > 0) yield* run(db, SAVE, JSON.stringify(rows))
}
