import type { Store } from '../store/contract/store.ts'
import type { LimitRegistry } from './define/limit-registry.ts'
import type { EngineSettings } from './define/options.ts'
import type { QueueLimits } from './define/queue-limits.ts'
import type { ServedQueues } from './define/served-queues.ts'
import type { TaskDefinition } from './define/task.ts'
import type { WorkflowDefinition } from './define/workflow.ts'
import type { Events } from './events/events.ts'
import type { Figures } from './events/figures.ts'
import type { Wakeup } from './events/wakeup.ts'
import type { EnqueueContext } from './run/enqueue.ts'
import type { FlowStarter } from './run/start-flows.ts'
import type { BackendState, Budgets } from './run/budgets.ts'
import type { PlainCode } from './run/plain-code.ts'
import type { Reporter } from './run/report.ts'

/** The open store of an engine, and the reporter of its writes. */
export interface OpenStore {
  readonly store: Store
  readonly reporter: Reporter
  /** The budgets that backends keep; null: there are none. */
  readonly budgets: Budgets | null
}

/** How an engine does now. */
export interface EngineState {
  /** It runs jobs, or claims for others. */
  readonly isRunning: boolean
  /** The backends of its budgets, and whether each answers. */
  readonly backends: readonly BackendState[]
}

/** The internals that an engine shares with the floors above it. They are not public: `internalsOf` returns them. */
export interface EngineInternals {
  readonly settings: EngineSettings
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  /** Turns calls into jobs. */
  readonly calls: EnqueueContext
  readonly limits: LimitRegistry
  readonly queueLimits: QueueLimits
  readonly servedQueues: ServedQueues
  readonly events: Events
  readonly wakeup: Wakeup
  /** The counts of this process. */
  readonly figures: Figures
  readonly newId: () => string
  /** Its store's budgets for code without jobs. */
  readonly budgets: PlainCode
  /** The workflows that it lists, and what starts their flows. */
  readonly workflows: ReadonlyMap<string, WorkflowDefinition>
  readonly starter: FlowStarter
  /**
   * Opens the store, or returns the open one. @throws {SluiceError} `engine.stopped` once it is closed, and the codes
   * of `start`
   */
  readonly open: () => Promise<OpenStore>
  readonly state: () => EngineState
  /** Calls `stop` as soon as the engine begins to stop, before it waits for any run. */
  readonly onStop: (stop: () => void) => void
}

const INTERNALS = new WeakMap<object, EngineInternals>()

/** Keeps the internals of an engine for the floors above. */
export function keepInternals(engine: object, internals: EngineInternals): void {
  INTERNALS.set(engine, internals)
}

/** The internals of an engine, for the floors above it. */
export function internalsOf(engine: object): EngineInternals {
  const internals = INTERNALS.get(engine)
  if (!internals) throw new RangeError('the argument of internalsOf is invalid. Expected an engine')
  return internals
}
