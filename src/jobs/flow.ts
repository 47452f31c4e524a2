/** How the nodes of a flow hang together: one after the other, all at once, or all at once with callbacks. */
export type FlowKind = 'chain' | 'group' | 'batch'

/** Where a flow stands; `failed` once all its nodes have ended and not all of them completed. */
export type FlowState = 'running' | 'completed' | 'failed' | 'cancelled'

/** Which end of a flow a callback is for; `complete` is for either. */
export type Callback = 'success' | 'failure' | 'complete'

/** Every callback, in the order of their nodes: these follow the flow's own, so that the node of a callback is the total plus its place here. */
export const CALLBACKS: readonly Callback[] = ['success', 'failure', 'complete']

/** Every state of a flow. */
export const FLOW_STATES: readonly FlowState[] = ['running', 'completed', 'failed', 'cancelled']

/** What the results that one job is handed may come to, in bytes of JSON text in UTF-8. */
export const MAX_PARENT_RESULTS_BYTES: number = 4 * 1_048_576

/** How many nodes of a flow there are and how they ended; callbacks do not count. */
export interface Tally {
  readonly total: number
  readonly completed: number
  readonly discarded: number
  readonly cancelled: number
}

/** A flow as it is stored. */
export interface FlowRecord extends Tally {
  readonly seq: number
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  readonly state: FlowState
  readonly createdUs: number
  readonly finishedUs: number | null
  readonly extra: string | null
}

/** Which flows to list. */
export interface FlowQuery {
  readonly states?: readonly FlowState[]
  readonly kind?: FlowKind
  readonly name?: string
  /** 1 to 1,000; 100 by default. */
  readonly limit?: number
  /** Only flows older than this one (its `seq`), for paging. */
  readonly before?: number
}

/** What a job has to do with a flow. */
export interface FlowPlace {
  /** The flow's id. */
  readonly id: string
  /** Its place among the flow's nodes, from 0. */
  readonly node: number
  /** Null: a node of the flow. */
  readonly callback: Callback | null
}

/** What a run of a flow's job is told of the flow. */
export interface FlowRun extends FlowPlace {
  /**
   * Results (JSON text) in the order of nodes: of all nodes that this one waited for, directly or not; to a callback those of all nodes,
   * null where one did not complete. Null: a callback whose results together are over the bound.
   */
  readonly parentResults: readonly (string | null)[] | null
}

/** A job of a flow, as news of it. */
export interface MovedJob {
  readonly id: string
  readonly task: string
  readonly queue: string
}

/** What the end of jobs meant for the flow that they belong to. */
export interface FlowNews {
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  /** The state that it came to by this; null: it goes on, or had ended before. */
  readonly ended: Exclude<FlowState, 'running'> | null
  /** Jobs whose time has come. */
  readonly activated: readonly MovedJob[]
  /** Jobs that will never run, since one that they wait for did not complete. */
  readonly cancelled: readonly MovedJob[]
  /** Jobs that could not be handed the results they wait for. */
  readonly discarded: readonly (MovedJob & { readonly input: string })[]
}

/** What the ends of its nodes make of a flow: it runs until all of them have ended. */
export function stateOf({ total, completed, discarded, cancelled }: Tally): 'running' | 'completed' | 'failed' {
  if (completed + discarded + cancelled < total) return 'running'
  return completed === total ? 'completed' : 'failed'
}

/** The callbacks that are due when a flow comes to this state. A flow that was cancelled calls nobody back: whoever cancelled it knows. */
export function callbacksDue(state: FlowState): readonly Callback[] {
  if (state === 'completed') return ['success', 'complete']
  return state === 'failed' ? ['failure', 'complete'] : []
}

/** What the end of a node means for those that wait for it: one step nearer, or never. */
export function consequence(end: 'completed' | 'discarded' | 'cancelled'): 'release' | 'stop' {
  return end === 'completed' ? 'release' : 'stop'
}

/** The callback that a node is, or null for one of the flow's own. */
export function callbackOf(node: number, total: number): Callback | null {
  return CALLBACKS[node - total] ?? null
}
