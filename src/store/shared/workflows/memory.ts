import type { WorkflowKind } from '../../../jobs/flow.ts'
import type { FlowMemory } from '../../contract/workflows.ts'
import { column, columns, numbers, texts, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, now } from '../sql.ts'
import { flowStateName } from '../stored-flows.ts'
import { unread } from './signal.ts'
import { stepsWhere } from './steps.ts'

const FLOW = columns({
  job: column<number>('j.seq'),
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
const FLOWS = `SELECT ${FLOW.list} FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow JOIN sluice.jobs m ON m.flow = f.seq AND m.node = 0
  WHERE j.seq = ANY ($1::bigint[]) AND f.kind IN ('workflow', 'machine', 'graph')`
// A machine continues from its state. Of its history it gets the steps that have yet to end, and those it waited for.
const STEPS = `s.flow = ANY ($1::bigint[]) AND s.generation = f.generation
  AND (f.kind <> 'machine' OR s.node IS NOT NULL OR s.state NOT IN ('done', 'failed', 'skipped'))`

/** The memories of the flows of these jobs, in the order of the jobs; null: the flow is gone. */
export function* enterFlows(access: FlowAccess, jobs: readonly number[]): Reading<(FlowMemory | null)[]> {
  const rows = (yield* all(access.db, FLOWS, jobs)).map((row) => FLOW.read(row))
  if (rows.length === 0) return jobs.map(() => null)
  const flows = [...new Set(rows.map(({ seq }) => seq))]
  const steps = yield* stepsWhere(access, STEPS, flows)
  const signals = yield* unread(access, flows)
  const { nowUs, wallUs } = yield* now(access)
  const memories = new Map(
    rows.map(({ job, seq, state, createdUs, held, total, ...flow }): [number, FlowMemory] => [
      job,
      {
        ...flow,
        state: flowStateName(state),
        createdMs: (createdUs + wallUs - nowUs) / 1000,
        held: held !== null,
        nodes: total,
        steps: steps.get(seq) ?? [],
        signals: signals.filter(({ flow: of }) => of === seq).map(({ flow: _, ...signal }) => signal),
      },
    ]),
  )
  return jobs.map((job) => memories.get(job) ?? null)
}
