import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import type { Duration } from '../../base/duration.ts'
import type { WorkflowKind } from '../../jobs/flow.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { LimitUse, UseSpec } from '../../policy/limits/define.ts'
import type { FlowEngine } from './flow-entry.ts'
import type { TaskDefinition } from './task.ts'

/** A workflow, a machine or a graph. */
export interface AnyWorkflow {
  readonly name: string
}

/** The options of one start of a flow. */
export interface FlowStartOptions {
  /** In place of the definition's. At most one running flow of a workflow has it; 1 to 255 characters. */
  readonly key?: string
  /** With a key that a running flow has: `join` (default) returns that flow, `reject` throws `flow.conflict`. */
  readonly onConflict?: 'join' | 'reject'
  /** −100 to 100, higher first; default 0. Steps may have their own. */
  readonly priority?: number
  /** The earliest start from now. */
  readonly delay?: Duration
  readonly meta?: Readonly<Record<string, unknown>>
  /** Limits of the first start, beside those of the definition. */
  readonly limits?: readonly LimitUse<never>[]
  /** A connection of yours on which you have begun a transaction; PostgreSQL only. */
  readonly tx?: unknown
}

/** A flow by its id, or the running one of a workflow that has the key. */
export type FlowAddress = string | { readonly key: string }

/** A flow that was started, or the earlier one of its key. */
export interface StartedFlowOf {
  readonly id: string
  readonly key: string | null
  readonly duplicate: boolean
  result(options?: { readonly timeout?: Duration }): Promise<unknown>
}

/** An engine's view of a workflow. */
export interface WorkflowDefinition {
  readonly name: string
  readonly kind: WorkflowKind
  /** As which its jobs are claimed and run. */
  readonly task: TaskDefinition
  /** The code of its steps, where each is claimed and run as a task; absent: none is. */
  readonly steps?: readonly TaskDefinition[]
  /** Checks it against the engine that lists it. @throws {SluiceError} `graph.invalid` */
  readonly check?: (engine: FlowEngine) => void
  /** Checks and prepares one start. @throws {SluiceError} `input.invalid` and the codes of limits */
  readonly prepare: (engine: FlowEngine, input: unknown, options: FlowStartOptions) => Promise<NewWorkflow>
  /** Checks a signal, and returns its payload as JSON text. @throws {SluiceError} `option.invalid`, `input.invalid` */
  readonly signal: (name: string, payload: unknown) => Promise<string>
  /** The limits that its definition names. */
  readonly uses: readonly UseSpec<never>[]
}

/** The engine behind a workflow's `start`. */
export interface WorkflowEngine {
  /** The engine in messages. */
  readonly about: string
  /** The same for engines that share a store. */
  readonly place: unknown
  start(
    definition: WorkflowDefinition,
    inputs: readonly unknown[],
    options: FlowStartOptions,
  ): Promise<readonly StartedFlowOf[]>
  /** @param payload JSON text */
  signal(
    definition: WorkflowDefinition,
    to: FlowAddress,
    name: string,
    payload: string,
    once: string | null,
  ): Promise<{ readonly duplicate: boolean }>
}

interface Bound {
  readonly definition: WorkflowDefinition
  readonly engines: Set<WorkflowEngine>
}

const BOUND = new WeakMap<AnyWorkflow, Bound>()

/** Keeps the definition behind a workflow. */
export function keepWorkflow(created: AnyWorkflow, definition: WorkflowDefinition): void {
  BOUND.set(created, { definition, engines: new Set() })
}

/** The definition behind a workflow. @throws {SluiceError} `option.invalid` for an object of another kind */
export function workflowOf(created: AnyWorkflow): WorkflowDefinition {
  return boundOf(created).definition
}

/** The definitions behind the workflows of an engine, by name. @throws {SluiceError} `option.invalid` */
export function definitionsOf(workflows: readonly AnyWorkflow[] = []): ReadonlyMap<string, WorkflowDefinition> {
  return new Map(workflows.map((each) => [each.name, workflowOf(each)]))
}

/** Puts an engine behind a workflow's `start`. Returns a function that undoes it. */
export function bindWorkflow(created: AnyWorkflow, engine: WorkflowEngine): () => void {
  const { engines } = boundOf(created)
  engines.add(engine)
  return () => engines.delete(engine)
}

/** The engine that lists a workflow; of several on one store the first. @throws {SluiceError} `task.no_engine`, `task.ambiguous` */
export function engineOf(created: AnyWorkflow): WorkflowEngine {
  const { definition, engines } = boundOf(created)
  const { name } = definition
  const [first, second] = engines
  if (!first)
    throw new SluiceError(
      'task.no_engine',
      `No engine lists the workflow ${name}. Create one with new Sluice({ workflows: [...] }).`,
    )
  if (second && [...engines].some(({ place }) => place !== first.place))
    throw new SluiceError(
      'task.ambiguous',
      `${engines.size} engines on different stores list the workflow ${name}: ${[...engines].map((each) => each.about).join('; ')}. Define it once for each store.`,
    )
  return first
}

function boundOf(created: AnyWorkflow): Bound {
  const bound = typeof created === 'object' && created !== null ? BOUND.get(created) : undefined
  if (!bound)
    throw new SluiceError(
      'option.invalid',
      `A workflow is invalid: ${show(created)}. Expected the result of workflow(), machine() or graph().`,
    )
  return bound
}
