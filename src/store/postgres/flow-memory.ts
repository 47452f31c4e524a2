import type { Statements } from '../../database/statements.ts'
import type { FlowMemory } from '../../jobs/flow-memory.ts'
import type { WorkflowKind } from '../../jobs/flow.ts'
import { column, columns } from '../shared/columns.ts'
import { flowMemory } from '../shared/workflows/memory.ts'
import { toRecord } from '../shared/workflows/steps.ts'
import type { Context } from './context.ts'

const ROW = columns({
  job: column<number | null>('r_job'),
  jobs: column<string>('r_jobs'),
  id: column<string>('r_id'),
  state: column<number>('r_state'),
  createdUs: column<number>('r_created'),
  generation: column<number>('r_generation'),
  events: column<number>('r_events'),
  open: column<number>('r_open'),
  total: column<number>('r_total'),
  name: column<string>('r_name'),
  key: column<string | null>('r_key'),
  definition: column<string | null>('r_definition'),
  hash: column<string | null>('r_hash'),
  held: column<string | null>('r_held'),
  kind: column<WorkflowKind>('r_kind'),
  input: column<string>('r_input'),
  steps: column<string | null>('r_steps'),
  signals: column<string | null>('r_signals'),
  nowUs: column<number>('r_now'),
  wallUs: column<number>('r_wall'),
})

/** The columns of a memory in the answer of the SQL function `flow_memories`. */
export const MEMORY: string = ROW.list

const MEMORIES = `SELECT ${MEMORY} FROM sluice.flow_memories($1::bigint[], false)`

/** The memories of the flows of these jobs, in the order of the jobs; null: the flow is gone. */
export async function flowMemories(
  context: Context,
  db: Statements,
  jobs: readonly number[],
): Promise<(FlowMemory | null)[]> {
  const memories = new Map<number, FlowMemory>()
  for (const row of await db.all<readonly unknown[]>(MEMORIES, jobs)) {
    const memory = memoryOf(context, row)
    for (const job of JSON.parse(ROW.read(row).jobs) as number[]) if (memory) memories.set(job, memory)
  }
  return jobs.map((job) => memories.get(job) ?? null)
}

/** The memory in a row that begins with its columns; null: it has none. */
export function memoryOf(context: Context, row: readonly unknown[]): FlowMemory | null {
  const { job, jobs: _, nowUs, signals, steps, wallUs, ...flow } = ROW.read(row)
  if (job === null) return null
  context.clock.saw(nowUs)
  const rows = (steps === null ? [] : JSON.parse(steps)) as readonly (readonly unknown[])[]
  const unread = (signals === null ? [] : JSON.parse(signals)) as readonly (readonly [number, string, string])[]
  return flowMemory(
    flow,
    rows.map(toRecord),
    unread.map(([seq, name, payload]) => ({ seq, name, payload })),
    { nowUs, wallUs },
  )
}
