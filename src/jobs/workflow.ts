/** Workflow flows: flows whose jobs go from step to step, and the records of their steps. */
import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { isName, LONGEST_NAME } from '../base/text.ts'
import type { FlowOwner, WorkflowKind } from './flow.ts'
import type { JobError } from './job-error.ts'
import type { NewJob } from './job.ts'
import type { StepRecord } from './flow-memory.ts'

/** The step of a gate: an admission without code, before the first step. */
export const HOLD_STEP = '~hold'
/** The step of the job that ends a flow whose time is over. */
export const DEADLINE_STEP = '~deadline'
/** Remembered steps of a flow at most, without those that are open. */
export const MAX_FLOW_STEPS = 10_000
/** The largest sum of the texts that a flow remembers, in bytes of UTF-8. */
export const MAX_FLOW_BYTES: number = 16 * 1_048_576
/** Unread signals of a flow at most. */
export const MAX_UNREAD_SIGNALS = 10_000
/** Levels of child flows at most. */
export const MAX_FLOW_DEPTH = 100
/** The newest steps that a machine keeps of its history. */
export const MACHINE_HISTORY = 1_000

/** Checks a text by which a caller names something of a flow. @throws {SluiceError} `option.invalid` */
export function checkFlowName(value: unknown, what: string): string {
  if (isName(value)) return value
  throw new SluiceError(
    'option.invalid',
    `${what} is invalid: ${show(value)}. Expected a text of 1 to ${LONGEST_NAME} characters.`,
  )
}

/** Where a job of a workflow flow waits next, and for which step. */
export interface Arrival {
  /** The step that its next start grants; null: a plain entry. */
  readonly step: string | null
  /** The buckets that must admit it, in lane order, none twice. */
  readonly uses: NewJob['uses']
  readonly fairKey: string | null
  /** 1 to 100. */
  readonly share: number
  readonly queue: string
  readonly priority: number
  readonly maxAttempts: number
  /** Attempts of this step so far. */
  readonly attempt: number
  /** From now on, in µs of the store's clock, kept as a `retryable` job is; null: at once. */
  readonly delayUs: number | null
  /** By the wall clock, kept as a `scheduled` job is; null: none. With `delayUs` it must be null. */
  readonly runAtMs: number | null
}

/** A job of a flow beside its main job: a step that waits beside others, a call of a task, or an item of a map. */
export interface SideJob {
  readonly job: NewJob
  readonly step: string
  /** Its place in a map: 0, 1, …; null: it belongs to none. Items of a map come together and in order. */
  readonly item: number | null
  /** Attempts so far. */
  readonly attempt: number
  /** From now on; null: at once. */
  readonly delayUs: number | null
}

/** A workflow flow as it is handed to a store: everything is checked and prepared. */
export interface NewWorkflow {
  readonly kind: WorkflowKind
  /** The workflow's name, which is the task of its main job. */
  readonly name: string
  /** At most one running flow of a name has a key; null: it has none. */
  readonly key: string | null
  readonly onConflict: 'join' | 'reject'
  /** The main job; its id is the flow's. Its uses are those of its gate or of its first step. */
  readonly job: NewJob
  /** The step that its first start grants; null: a plain entry. */
  readonly step: string | null
  /** From now on; null: at once. */
  readonly delayUs: number | null
  /** A job of the step `~deadline`; if it is discarded, the flow fails with its error. Null: there is none. */
  readonly deadline: SideJob | null
  /** A graph's normal form, JSON text; null for the other kinds. */
  readonly definition: string | null
  readonly hash: string | null
  /** JSON text, or null. */
  readonly extra: string | null
  /** Whose it is; absent: as that of the flow that starts it, else of its queue. */
  readonly owner?: FlowOwner
}

/** A flow that a flow starts. */
export interface NewChild {
  readonly flow: NewWorkflow
  /** The step that its end ends. */
  readonly step: string
  /** False: detached. It has no parent, and its end ends no step. */
  readonly attached: boolean
}

/** The outcome of a run after which its workflow flow goes on. */
export interface FlowMove {
  /** Written, or replaced by name, within the newest generation. */
  readonly steps: readonly StepRecord[]
  /** The signals that were handed over, by their `seq`. */
  readonly consumed: readonly number[]
  /** New side jobs. For each of their steps there is an `open` one among `steps`. */
  readonly spawn: readonly SideJob[]
  /** New flows. For the step of each attached one there is an `open` one among `steps`. */
  readonly children: readonly NewChild[]
  /** Names of steps whose open side jobs and children are cancelled. It wakes no job and changes no step. */
  readonly drop: readonly string[]
  /** A machine's new state, which is its main job's input; null: unchanged. */
  readonly state: string | null
  /**
   * Forgets all steps, and begins the next generation with this input. The generation before is kept for looking. Open
   * side jobs are cancelled, children and unread signals stay. Null: no new generation.
   */
  readonly again: string | null
  /** Keeps the permits of this run until the flow ends. */
  readonly keepPermits: boolean
  readonly then: FlowThen
}

/** The next place of a job after its move. */
export type FlowThen =
  /** Goes on in its slot and lease. */
  | { readonly kind: 'stay' }
  /** Waits elsewhere. `new`: behind all that came before; `keep`: at its old place. */
  | { readonly kind: 'go'; readonly arrival: Arrival; readonly place: 'keep' | 'new' }
  /** Waits for signals, for the ends of side jobs and children, or for a time. Only of a main job. */
  | {
      readonly kind: 'park'
      /** The flow's `events` that this entry knew. If more have come, it may start at once, as a plain entry. */
      readonly seen: number
      /** Names of signals that wake it. */
      readonly signals: readonly string[]
      /** The ends that wake it: each; the last one; or none. */
      readonly ends: 'any' | 'all' | 'none'
      /** Store clock: then it wakes by itself; null: never. */
      readonly dueUs: number | null
      /** As what it wakes. Its `delayUs` and `runAtMs` are null. */
      readonly arrival: Arrival
    }
  /** Ends as completed, or as discarded by the error. */
  | { readonly kind: 'end'; readonly result: string | null; readonly error: JobError | null }
  /** Only of a side job whose step no code asks for. Its units and its attempt return, and its step is forgotten. */
  | { readonly kind: 'withdraw'; readonly uses: NewJob['uses'] }
