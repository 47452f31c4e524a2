import type { WorkflowKind } from '../../../jobs/flow.ts'
import type { FlowChild, FlowJobPlace, FlowSteps } from '../../contract/workflows.ts'
import { column, columns, numbers, numbersOrNull, texts, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, get, isUuid } from '../sql.ts'
import { LIVE_STATES, STATE, stateName } from '../state.ts'
import { flowStateName } from '../stored-flows.ts'
import { stepsWhere } from './steps.ts'
import type { Awaits } from './wake.ts'

const JOB = columns({
  ...numbers('seq', 'node', 'state', 'attempt'),
  ...texts('id', 'task'),
  ...textsOrNull('step', 'awaits'),
  ...numbersOrNull('item', 'due'),
  startedUs: column<number | null>('started'),
  queue: column<string | number>(),
})
const JOBS = `SELECT ${JOB.list} FROM sluice.jobs WHERE flow = $1 AND state IN (${LIVE_STATES}) ORDER BY node`
const CHILDREN = 'SELECT id, name, kind, parent_step, state FROM sluice.flows WHERE parent = $1 ORDER BY seq LIMIT 1000'
type ChildRow = [id: string, name: string, kind: WorkflowKind, step: string, state: number]

/** The steps of a workflow flow's newest generation, its jobs that have not ended, and its children. */
export function* flowSteps(access: FlowAccess, id: string): Reading<FlowSteps | null> {
  if (!isUuid(id)) return null
  const { db } = access
  const [seq, generation, definition] = (yield* get<[number, number, string | null]>(
    db,
    `SELECT seq, generation, definition FROM sluice.flows WHERE id = $1::uuid AND kind IN ('workflow', 'machine', 'graph')`,
    id,
  )) ?? [null, 0, null]
  if (seq === null) return null
  const steps = (yield* stepsWhere(access, 's.flow = $1 AND s.generation = f.generation', seq)).get(seq) ?? []
  const jobs = (yield* all(db, JOBS, seq)).map((row): FlowJobPlace => {
    const { state, queue, awaits, due, ...job } = JOB.read(row)
    const parked = state === STATE.pending || state === STATE.retryable
    return {
      ...job,
      state: stateName(state),
      queue: access.queueName(queue),
      dueUs: state === STATE.available ? null : due,
      signals: awaits === null || !parked ? [] : (JSON.parse(awaits) as Awaits).signals,
    }
  })
  const children = (yield* all<ChildRow>(db, CHILDREN, seq)).map(([child, name, kind, step, state]): FlowChild => ({
    id: child,
    name,
    kind,
    step,
    state: flowStateName(state),
  }))
  return { generation, definition, steps, jobs, children }
}
