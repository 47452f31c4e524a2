/** Workflow flows: a job that goes from step to step, with the records of its steps. */
import type { FlowState, WorkflowKind } from '../../jobs/flow.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'

/**
 * A flow of the kinds `workflow`, `machine` and `graph` has a main job, whose id is the flow's, and side jobs. A run of
 * such a job goes on by a settlement of the kind `next`, which moves the job to the place of its next step. All other
 * settlements are those of any job.
 *
 * The end of a side job or of an attached child writes its step, and wakes the main job if that waits for it. The end of
 * the main job ends the flow: side jobs that wait are cancelled, those that run are asked to end, attached children are
 * cancelled, and kept permits return.
 */
export interface Workflows {
  /**
   * Stores flows durably, all or none. A flow whose name and key a running flow has is not stored: the answer is
   * `duplicate` or `conflict`, by its `onConflict`, with the id of the other.
   * @param tx as of `enqueue`
   */
  startWorkflows(flows: readonly NewWorkflow[], tx?: unknown): Promise<readonly StartedWorkflow[]>
  /** The memory of the flow of a job, by the job's `seq`; null: the flow is gone. */
  enterFlow(seq: number): Promise<FlowMemory | null>
  /**
   * Stores a signal for a running flow, and wakes its main job if that waits for it.
   * @param payload JSON text
   * @param once a second signal of this flow with the same name and text is a duplicate; null: it is compared with none
   */
  signalFlow(to: FlowAddress, signal: string, payload: string, once: string | null): Promise<SignalAnswer>
  /**
   * Runs a failed flow again: from where it failed, or from one of its steps. Steps that failed are forgotten, and with
   * `from` that step and all that were first written after it.
   */
  retryFlow(id: string, from: string | null): Promise<'retried' | 'not_failed' | 'missing' | 'unknown_step'>
  /** The steps of the newest generation, and what has yet to end; null: there is no such workflow flow. */
  flowSteps(id: string): Promise<FlowSteps | null>
}

/** The result of starting one workflow flow. */
export interface StartedWorkflow {
  readonly kind: 'created' | 'duplicate' | 'conflict'
  readonly id: string
}

/** A flow by its id, of one workflow or of any; or the running one of a name and a key. */
export type FlowAddress =
  | { readonly id: string; readonly name?: string }
  | { readonly name: string; readonly key: string }

/** The result of a signal. `full`: too many of the flow's signals are unread. */
export type SignalAnswer =
  | { readonly kind: 'stored' | 'duplicate' | 'ended' | 'full'; readonly id: string }
  | { readonly kind: 'missing' }

/** The steps of a workflow flow, for showing. */
export interface FlowSteps {
  readonly generation: number
  /** A graph's normal form, JSON text; null for the other kinds. */
  readonly definition: string | null
  /** Of the newest generation, in the order of their first writing. */
  readonly steps: readonly StepRecord[]
  /** Those that have not ended. */
  readonly jobs: readonly FlowJobPlace[]
  /** Attached children, oldest first, at most 1,000. */
  readonly children: readonly FlowChild[]
}

/** A job of a workflow flow that has not ended. */
export interface FlowJobPlace {
  readonly id: string
  readonly seq: number
  readonly node: number
  readonly step: string | null
  readonly item: number | null
  readonly task: string
  readonly queue: string
  readonly state: JobState
  /** As of a job record; also of a main job that wakes by itself. */
  readonly dueUs: number | null
  readonly attempt: number
  readonly startedUs: number | null
  /** Names of signals that a waiting main job waits for. */
  readonly signals: readonly string[]
}

/** A flow that a flow has started. */
export interface FlowChild {
  readonly id: string
  readonly name: string
  readonly kind: WorkflowKind
  readonly step: string
  readonly state: FlowState
}
