/** Flows as rows: what the stores have in common of them. */
import {
  callbackOf,
  FLOW_STATES,
  type FlowKind,
  type FlowPlace,
  type FlowRecord,
  type FlowState,
  MAX_PARENT_RESULTS_BYTES,
} from '../../jobs/flow.ts'

/** A flow's row, as `FLOW_COLUMNS` has it. */
export type FlowRow = [
  seq: number,
  id: string,
  kind: FlowKind,
  name: string | null,
  state: number,
  total: number,
  completed: number,
  discarded: number,
  cancelled: number,
  createdUs: number,
  finishedUs: number | null,
  extra: string | null,
]

/** What is read of a flow. */
export const FLOW_COLUMNS =
  'seq, id, kind, name, state, total, completed, discarded, cancelled, created, finished, extra'

/** The error of a job that was cancelled because its flow went on without it; a retry that opens the flow again finds it by this. */
export const STOPPED: string = JSON.stringify({
  code: 'flow.stopped',
  message: 'A job that it waited for did not complete, or its flow ended without it.',
})

/** The error of a job that was discarded because it could not be handed what it waited for. */
export const TOO_LARGE: string = JSON.stringify({
  code: 'flow.results_too_large',
  message: `The results that it was to be handed come to more than ${MAX_PARENT_RESULTS_BYTES} bytes together.`,
})

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

/** A flow as callers read it. */
export function toFlowRecord(row: FlowRow): FlowRecord {
  const [seq, id, kind, name, state, total, completed, discarded, cancelled, createdUs, finishedUs, extra] = row
  const tally = { total, completed, discarded, cancelled }
  return { seq, id, kind, name, state: flowStateName(state), ...tally, createdUs, finishedUs, extra }
}
