/** The memory of workflow flows. */
import type { FlowState, WorkflowKind } from './flow.ts'
import type { JobError } from './job-error.ts'

/**
 * The state of a remembered step. `open`: side jobs or a child have yet to end. `done`, `failed` and `skipped` are
 * final.
 */
export type StepState = 'done' | 'failed' | 'skipped' | 'sleeping' | 'awaiting' | 'open' | 'retrying'

/** A step as a flow remembers it. */
export interface StepRecord {
  /** Names that begin with `~` are reserved. */
  readonly name: string
  readonly state: StepState
  /** JSON text. */
  readonly result: string | null
  readonly error: JobError | null
  readonly attempt: number
  /** Store clock. */
  readonly startedUs: number | null
  readonly finishedUs: number | null
  /** How long it waited for its start. */
  readonly waitedUs: number
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
  /** When a sleep or a bounded wait ends, store clock; null: it has no end. */
  readonly dueUs: number | null
  /** JSON text of the state in which a machine reached the step, for a retry from there. */
  readonly input: string | null
  /** Items of a map that have yet to end, set by the store; null or absent: it is a single step. */
  readonly left?: number | null
}

/** The memory that an entry of a workflow flow gets. */
export interface FlowMemory {
  readonly id: string
  readonly kind: WorkflowKind
  readonly name: string
  readonly key: string | null
  readonly state: FlowState
  /** Wall clock. */
  readonly createdMs: number
  readonly generation: number
  /** Ends of side jobs and children, and signals, so far. */
  readonly events: number
  /** The main job's input: the flow's, or a machine's state. */
  readonly input: string
  readonly definition: string | null
  readonly hash: string | null
  /** A gate was passed, and the flow has its permits. */
  readonly held: boolean
  /** Side jobs and attached children that have yet to end. */
  readonly open: number
  /** Of the newest generation, in the order of their first writing. */
  readonly steps: readonly StepRecord[]
  /** Unread ones, oldest first. */
  readonly signals: readonly FlowSignal[]
  /** Its jobs so far. */
  readonly nodes: number
}

/** An unread signal. */
export interface FlowSignal {
  readonly seq: number
  readonly name: string
  /** JSON text. */
  readonly payload: string
}
