import type { JobError } from './job-error.ts'

/** The order of a plain flow's nodes: one after the other, all at once, or all at once with callbacks. */
export type PlainFlowKind = 'chain' | 'group' | 'batch'

/** How a workflow flow goes from step to step: by a function, by states, or by dependencies. */
export type WorkflowKind = 'workflow' | 'machine' | 'graph'

/** Every kind of a flow. */
export type FlowKind = PlainFlowKind | WorkflowKind

/** The state of a flow; `failed` once all its nodes have ended and not all completed. */
export type FlowState = 'running' | 'completed' | 'failed' | 'cancelled'

/** The flow's end that triggers a callback; `complete` is either end. */
export type Callback = 'success' | 'failure' | 'complete'

/** Every callback, in the order of their nodes: these follow the flow's own, so that the node of a callback is the total plus its place here. */
export const CALLBACKS: readonly Callback[] = ['success', 'failure', 'complete']

/** Every kind of a plain flow. */
const PLAIN_KINDS: readonly PlainFlowKind[] = ['chain', 'group', 'batch']

/** Every kind of a workflow. */
const WORKFLOW_KINDS: readonly WorkflowKind[] = ['workflow', 'machine', 'graph']

/** Every kind of a flow, plain ones first. */
export const FLOW_KINDS: readonly FlowKind[] = [...PLAIN_KINDS, ...WORKFLOW_KINDS]

/** Returns whether flows of a kind go from step to step. */
export function isWorkflowKind(kind: FlowKind): kind is WorkflowKind {
  return (WORKFLOW_KINDS as readonly FlowKind[]).includes(kind)
}

/** Every state of a flow. */
export const FLOW_STATES: readonly FlowState[] = ['running', 'completed', 'failed', 'cancelled']

/** The largest sum of results passed to one job, in bytes of JSON text in UTF-8. */
export const MAX_PARENT_RESULTS_BYTES: number = 4 * 1_048_576

/** The number of a flow's nodes, in total and by end. Callbacks do not count. A workflow flow may still get more. */
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
  /** Of a workflow flow; null for the others, and for one without a key. */
  readonly key: string | null
  /** The hash of its definition; null: it keeps none. */
  readonly hash: string | null
  /** The number of its restarts with a new input. */
  readonly generation: number
  /** The id of the flow that started it; null: no flow did, or that flow is gone. */
  readonly parent: string | null
  /** The step of its parent that its end ends. */
  readonly parentStep: string | null
  /** Why a workflow flow failed. */
  readonly error: JobError | null
  /** Whose it is; null: a plain flow of no tenant. */
  readonly owner: FlowOwner | null
}

/**
 * The tenant of a flow (empty: none), and the queue, by its own name, that a caller must be allowed to name; empty: every
 * queue.
 */
export interface FlowOwner {
  readonly tenant: string
  readonly queue: string
}

/** The key of a flow, or the unique key of a job, as it is stored: each tenant has keys of its own. */
export function keyOfTenant(tenant: string, key: string): string {
  return tenant === '' ? key : `${tenant}/${key}`
}

/** The owner of a flow that no client has started: that of its queue, whose name may begin with a tenant and a slash. */
export function ownerOfQueue(queue: string): FlowOwner {
  const at = queue.lastIndexOf('/')
  return { tenant: queue.slice(0, Math.max(0, at)), queue: queue.slice(at + 1) }
}

interface OfQueue {
  readonly job: { readonly queue: string }
}

/** The tenant whose queues all jobs of a plain flow have, as its owner; null: there is none. */
export function ownerOfPlain({
  nodes,
  callbacks,
}: {
  readonly nodes: readonly OfQueue[]
  readonly callbacks: Readonly<Partial<Record<Callback, OfQueue>>>
}): FlowOwner | null {
  const [first = '', ...others] = [...nodes, ...Object.values(callbacks)].map(({ job }) => job.queue)
  const owner = ownerOfQueue(first)
  const { tenant } = owner
  if (tenant === '' || others.some((queue) => ownerOfQueue(queue).tenant !== tenant)) return null
  return others.every((queue) => queue === first) ? owner : { tenant, queue: '' }
}

/** Filters for a list of flows. */
export interface FlowQuery {
  readonly states?: readonly FlowState[]
  readonly kind?: FlowKind
  readonly name?: string
  /** The name of a workflow: plain flows of that name are left out. */
  readonly workflow?: string
  /** Plain flows are left out. */
  readonly isWorkflow?: true
  readonly key?: string
  /** Only flows of this tenant (empty: workflow flows of none). */
  readonly tenant?: string
  /** Only flows whose owner has one of these queues; one that ends with `*` stands for all with that beginning. */
  readonly queues?: readonly string[]
  /** 1 to 1,000; default 100. */
  readonly limit?: number
  /** Only flows older than this one (its `seq`), for paging. */
  readonly before?: number
}

/** A job's place in a flow. */
export interface FlowPlace {
  /** The flow's id. */
  readonly id: string
  /** Its place among the flow's nodes, from 0. */
  readonly node: number
  /** Null: a node of the flow. */
  readonly callback: Callback | null
}

/** A run's place in its workflow flow. */
export interface WorkflowRun {
  readonly kind: WorkflowKind
  /** The step that this start grants; null: a plain entry. */
  readonly step: string | null
  /** Its place in a map; null: it belongs to none. */
  readonly item: number | null
  /** How often the job has moved: a settlement names it. */
  readonly moves: number
}

/** The flow data of a run. */
export interface FlowRun extends FlowPlace {
  /**
   * Results (JSON text) in the order of nodes: of all nodes that this one waited for, directly or not. A callback gets
   * those of all nodes, with null for each that did not complete. Null: the results exceed the bound.
   */
  readonly parentResults: readonly (string | null)[] | null
  /** Absent: the flow is a plain one. */
  readonly workflow?: WorkflowRun
}

/** A job of a flow, as news of it. */
export interface MovedJob {
  readonly id: string
  readonly task: string
  readonly queue: string
}

/** The effect of ended jobs on their flow. */
export interface FlowNews {
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  /** The state that the flow reached by this; null: it continues, or had ended before. */
  readonly ended: Exclude<FlowState, 'running'> | null
  /** Jobs that may start now. */
  readonly activated: readonly MovedJob[]
  /** Jobs that will never run, since one that they wait for did not complete. */
  readonly cancelled: readonly MovedJob[]
  /** Jobs that could not be handed the results they wait for. */
  readonly discarded: readonly (MovedJob & { readonly input: string })[]
  /** The flows below it that were cancelled with it. */
  readonly below?: readonly FlowNews[]
  /** Why a workflow flow failed by it; absent: it did not. */
  readonly error?: JobError
}

/** Whether flows of this kind go from step to step. */
export function isWorkflow(kind: FlowKind): kind is WorkflowKind {
  return kind === 'workflow' || kind === 'machine' || kind === 'graph'
}

/** The state of a flow after its nodes' ends. It runs until all of them have ended. */
export function stateOf({ total, completed, discarded, cancelled }: Tally): 'running' | 'completed' | 'failed' {
  if (completed + discarded + cancelled < total) return 'running'
  return completed === total ? 'completed' : 'failed'
}

/** The callbacks due when a flow reaches this state. A cancelled flow has none, since its canceller knows. */
export function callbacksDue(state: FlowState): readonly Callback[] {
  if (state === 'completed') return ['success', 'complete']
  return state === 'failed' ? ['failure', 'complete'] : []
}

/** The effect of a node's end on the nodes that wait for it: one step closer, or never. */
export function consequence(end: 'completed' | 'discarded' | 'cancelled'): 'release' | 'stop' {
  return end === 'completed' ? 'release' : 'stop'
}

/** The callback that a node is, or null for one of the flow's own. */
export function callbackOf(node: number, total: number): Callback | null {
  return CALLBACKS[node - total] ?? null
}
