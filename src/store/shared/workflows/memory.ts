import type { FlowMemory, FlowSignal, StepRecord } from '../../../jobs/flow-memory.ts'
import type { WorkflowKind } from '../../../jobs/flow.ts'
import type { Instant } from '../../../jobs/series.ts'
import { column, columns, numbers, texts, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, get, now } from '../sql.ts'
import { flowStateName } from '../stored-flows.ts'
import { unread } from './signal.ts'
import { stepsWhere } from './steps.ts'

const FLOW = columns({
  seq: column<number>('f.seq'),
  id: column<string>('f.id'),
  state: column<number>('f.state'),
  createdUs: column<number>('f.created'),
  ...numbers('generation', 'events', 'open', 'total'),
  ...texts('name'),
  ...textsOrNull('key', 'definition', 'hash', 'held'),
  kind: column<WorkflowKind>(),
  input: column<string>('m.input'),
})
const BY_JOB = `SELECT ${FLOW.list} FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow JOIN sluice.jobs m ON m.flow = f.seq AND m.node = 0
  WHERE j.seq = $1 AND f.kind IN ('workflow', 'machine', 'graph')`
// A machine continues from its state. Of its history it gets the steps that have yet to end, and those it waited for.
const STEPS = `s.flow = $1 AND s.generation = f.generation
  AND (f.kind <> 'machine' OR s.node IS NOT NULL OR s.state NOT IN ('done', 'failed', 'skipped'))`

/** A flow as its memory is made from it. */
export interface MemoryRow extends Omit<FlowMemory, 'state' | 'createdMs' | 'held' | 'nodes' | 'steps' | 'signals'> {
  readonly state: number
  readonly createdUs: number
  readonly held: string | null
  readonly total: number
}

/** The memory of the flow of a job; null: the flow is gone. */
export function* enterFlow(access: FlowAccess, job: number): Reading<FlowMemory | null> {
  const row = FLOW.read(yield* get<readonly unknown[]>(access.db, BY_JOB, job))
  if (!row) return null
  const { seq, ...flow } = row
  const steps = (yield* stepsWhere(access, STEPS, seq)).get(seq) ?? []
  const signals = yield* unread(access, seq)
  return flowMemory(flow, steps, signals, yield* now(access))
}

/** A flow's memory, as it is at an instant. */
export function flowMemory(
  { state, createdUs, held, total, ...flow }: MemoryRow,
  steps: readonly StepRecord[],
  signals: readonly FlowSignal[],
  { nowUs, wallUs }: Instant,
): FlowMemory {
  return {
    ...flow,
    state: flowStateName(state),
    createdMs: (createdUs + wallUs - nowUs) / 1000,
    held: held !== null,
    nodes: total,
    steps,
    signals,
  }
}
