/** Flows as rows: the parts that both stores share. */
import {
  callbackOf,
  FLOW_STATES,
  type FlowKind,
  type FlowPlace,
  type FlowQuery,
  type FlowRecord,
  type FlowState,
  MAX_PARENT_RESULTS_BYTES,
} from '../../jobs/flow.ts'
import { column, columns, numbers, textsOrNull } from './columns.ts'
import type { Reading } from './reading.ts'
import { errorOf } from './set-aside.ts'
import { type Access, all, get, isUuid, type SqlValue } from './sql.ts'

const FLOW = columns({
  ...numbers('seq', 'state', 'total', 'completed', 'discarded', 'cancelled', 'generation'),
  ...textsOrNull('name', 'extra', 'key', 'hash', 'error', 'owner'),
  ownerQueue: column<string | null>('owner_queue'),
  parent: column<string | null>('(SELECT p.id FROM sluice.flows p WHERE p.seq = f.parent)'),
  parentStep: column<string | null>('parent_step'),
  id: column<string>(),
  kind: column<FlowKind>(),
  createdUs: column<number>('created'),
  finishedUs: column<number | null>('finished'),
})

/**
 * The error of a job that was cancelled because its flow continued without it. A retry that reopens the flow finds the
 * job by this.
 */
export const STOPPED: string = JSON.stringify({
  code: 'flow.stopped',
  message: 'A job that it waited for did not complete, or its flow ended without it.',
})

/** The error of a job that was discarded because the results that it waited for are too large. */
export const TOO_LARGE: string = JSON.stringify({
  code: 'flow.results_too_large',
  message: `The results that it was to be handed come to more than ${MAX_PARENT_RESULTS_BYTES} bytes together.`,
})

/** The stored number of a flow's state: its place among all of them. */
export function storedFlowState(state: FlowState): number {
  return FLOW_STATES.indexOf(state)
}

/** The name of a stored state of a flow. */
export function flowStateName(stored: number): FlowState {
  const name = FLOW_STATES[stored]
  if (!name) throw new RangeError(`No state of a flow is stored as ${stored}`)
  return name
}

/** The flow place in a job's columns; a job may outlive its flow. */
export function placeIn(id: string | null, node: number | null, total: number | null): { readonly flow?: FlowPlace } {
  if (id === null || node === null || total === null) return {}
  return { flow: { id, node, callback: callbackOf(node, total) } }
}

/** One flow by its id. */
export function* getFlow({ db }: Pick<Access, 'db'>, id: string): Reading<FlowRecord | null> {
  if (!isUuid(id)) return null
  const row = yield* get(db, `SELECT ${FLOW.list} FROM sluice.flows f WHERE id = $1::uuid`, id)
  return row ? toFlowRecord(row) : null
}

/** Flows by state, kind, name, key and age, newest first. */
export function* flows({ db }: Access, query: FlowQuery): Reading<FlowRecord[]> {
  const where = ['seq < $1']
  const values: SqlValue[] = [query.before ?? Number.MAX_SAFE_INTEGER]
  if (query.states) where.push(`state = ANY ($${values.push(query.states.map(storedFlowState))}::int[])`)
  if (query.kind !== undefined) where.push(`kind = $${values.push(query.kind)}`)
  if (query.name !== undefined) where.push(`name = $${values.push(query.name)}`)
  if (query.workflow !== undefined) where.push(`name = $${values.push(query.workflow)}`)
  if (query.workflow !== undefined || query.isWorkflow) where.push(`kind IN ('workflow', 'machine', 'graph')`)
  if (query.key !== undefined) where.push(`key = $${values.push(query.key)}`)
  if (query.tenant !== undefined) where.push(`owner = $${values.push(query.tenant)}`)
  if (query.queues && !query.queues.includes('*')) {
    const of = query.queues.map((queue) =>
      queue.endsWith('*')
        ? `starts_with(owner_queue, $${values.push(queue.slice(0, -1))})`
        : `owner_queue = $${values.push(queue)}`,
    )
    where.push(of.length === 0 ? '1 = 0' : `(${of.join(' OR ')})`)
  }
  const limit = values.push(query.limit ?? 100)
  const wanted = `SELECT ${FLOW.list} FROM sluice.flows f WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT $${limit}`
  return (yield* all(db, wanted, ...values)).map(toFlowRecord)
}

function toFlowRecord(row: readonly unknown[]): FlowRecord {
  const { owner: tenant, ownerQueue: queue, ...flow } = FLOW.read(row)
  const owner = tenant === null || queue === null ? null : { tenant, queue }
  return { ...flow, owner, state: flowStateName(flow.state), error: flow.error === null ? null : errorOf(flow.error) }
}
