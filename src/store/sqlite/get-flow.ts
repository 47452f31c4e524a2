import {
  callbackOf,
  FLOW_STATES,
  type FlowKind,
  type FlowPlace,
  type FlowQuery,
  type FlowRecord,
  type FlowState,
} from '../../jobs/flow.ts'
import type { Context } from './context.ts'

type Row = [
  seq: number,
  id: string,
  kind: FlowKind,
  name: string | null,
  state: number,
  total: number,
  completed: number,
  discarded: number,
  cancelled: number,
  created: number,
  finished: number | null,
  extra: string | null,
]

const SELECT =
  'SELECT seq, id, kind, name, state, total, completed, discarded, cancelled, created, finished, extra FROM flows'

/** One flow by its id. */
export function getFlow(context: Context, id: string): FlowRecord | null {
  const row = context.db.get<Row>(`${SELECT} WHERE id = ?`, id)
  return row ? toRecord(row) : null
}

/** Flows by state, kind, name and age, newest first. */
export function flows(context: Context, { states, kind, name, limit = 100, before }: FlowQuery): FlowRecord[] {
  const where = ['seq < ?']
  const values: (string | number)[] = [before ?? Number.MAX_SAFE_INTEGER]
  if (states) where.push(`state IN (${states.map(storedFlowState).join(', ')})`)
  if (kind !== undefined) {
    where.push('kind = ?')
    values.push(kind)
  }
  if (name !== undefined) {
    where.push('name = ?')
    values.push(name)
  }
  return context.db
    .all<Row>(`${SELECT} WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT ?`, ...values, limit)
    .map(toRecord)
}

/** A flow's state as it is stored: its place among all of them. */
export function storedFlowState(state: FlowState): number {
  return FLOW_STATES.indexOf(state)
}

/** The name of a stored state of a flow. */
export function flowStateName(stored: number): FlowState {
  const name = FLOW_STATES[stored]
  if (!name) throw new RangeError(`No state of a flow is stored as ${stored}`)
  return name
}

/** What a job's columns say of its place in a flow; a job may outlive its flow. */
export function placeIn(id: string | null, node: number | null, total: number | null): { readonly flow?: FlowPlace } {
  if (id === null || node === null || total === null) return {}
  return { flow: { id, node, callback: callbackOf(node, total) } }
}

function toRecord(row: Row): FlowRecord {
  const [seq, id, kind, name, state, total, completed, discarded, cancelled, createdUs, finishedUs, extra] = row
  return {
    seq,
    id,
    kind,
    name,
    state: flowStateName(state),
    total,
    completed,
    discarded,
    cancelled,
    createdUs,
    finishedUs,
    extra,
  }
}
