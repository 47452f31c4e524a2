import type { Callback, PlainFlowKind } from '../../jobs/flow.ts'
import { invalid, unprocessable } from '../refusal.ts'
import type { JobJson, OptionsJson } from './schemas.ts'

/** A step that names the steps that it waits for. */
export interface StepJson extends JobJson {
  id: string
  depends_on?: string[] | null | undefined
}

/** The callbacks of a batch. */
export type CallbacksJson = Readonly<Record<string, JobJson | null | undefined>>

/** A workflow within a workflow. */
export type NestedJson =
  | { type: 'chain'; steps: readonly ElementJson[] }
  | { type: 'group'; jobs: readonly ElementJson[] }
  | { type: 'batch'; jobs: readonly ElementJson[]; callbacks: CallbacksJson }

/** A job of a workflow, or a workflow in its place. */
export type ElementJson = JobJson | NestedJson

/** A workflow of a request. */
export type WorkflowJson =
  | Exclude<NestedJson, { type: 'batch' }>
  | {
      type: 'batch'
      jobs: readonly ElementJson[]
      callbacks: CallbacksJson
    }
  | { type: 'graph'; steps: readonly StepJson[] }

/** A workflow as jobs that wait for each other. */
export interface WorkflowPlan {
  readonly kind: PlainFlowKind
  /** In an order in which each job waits for earlier ones only. */
  readonly nodes: readonly { readonly json: JobJson; readonly after: readonly number[] }[]
  readonly callbacks: readonly (readonly [Callback, JobJson])[]
  /** The names of steps by node, those of callbacks last; null: they have no names. */
  readonly steps: readonly { readonly id: string; readonly depends_on: readonly string[] }[] | null
}

type Node = WorkflowPlan['nodes'][number]

const WORKFLOWS: ReadonlySet<string> = new Set(['chain', 'group', 'batch'])
const CALLBACKS: Readonly<Record<string, Callback>> = {
  on_success: 'success',
  on_failure: 'failure',
  on_complete: 'complete',
}

/** Lays a workflow out as jobs that wait for each other. @throws {Refusal} 400, 422 */
export function planOf(body: WorkflowJson): WorkflowPlan {
  if (body.type === 'graph') return planOfSteps(body.steps)
  const elements = body.type === 'chain' ? body.steps : body.jobs
  const callbacks = body.type === 'batch' ? callbacksOf(body.callbacks) : []
  if (body.type === 'batch' && callbacks.length === 0)
    throw invalid('callbacks is missing. Expected at least one of on_success, on_failure and on_complete.')
  const nodes: Node[] = []
  layOut(body.type === 'chain' ? { type: 'chain', steps: elements } : { type: 'group', jobs: elements }, [], nodes)
  // A chain with workflows in it has parallel jobs.
  const isPlain = !elements.some(isNested)
  return { kind: body.type === 'chain' && !isPlain ? 'group' : body.type, nodes, callbacks, steps: null }
}

/** Returns whether an element is a workflow instead of a job. */
export function isNested(element: unknown): element is NestedJson {
  const { type, args, steps, jobs } = (element ?? {}) as { readonly [name: string]: unknown }
  return WORKFLOWS.has(String(type)) && args === undefined && (Array.isArray(steps) || Array.isArray(jobs))
}

/** Adds a workflow's jobs behind those that they wait for. Returns those that end it. */
function layOut(workflow: NestedJson, after: readonly number[], nodes: Node[]): readonly number[] {
  const layElement = (element: ElementJson, behind: readonly number[]): readonly number[] => {
    if (isNested(element)) return layOut(element, behind, nodes)
    return [nodes.push({ json: element, after: behind }) - 1]
  }
  if (workflow.type === 'batch') {
    const ends = workflow.jobs.flatMap((element) => layElement(element, after))
    return layElement(successOf(workflow.callbacks), ends)
  }
  if (workflow.type === 'group') return workflow.jobs.flatMap((element) => layElement(element, after))
  return workflow.steps.reduce((behind: readonly number[], element) => layElement(element, behind), after)
}

/** A batch within a workflow ends with its callback. A job that failed lets no other job of the workflow start. */
function successOf({ on_success: success, ...others }: CallbacksJson): JobJson {
  const other = Object.keys(others).find((name) => others[name])
  if (success && other === undefined) return success
  throw unprocessable(
    `callbacks of a batch within a workflow is invalid: ${other ?? 'on_success is missing'}. Expected on_success alone, since what follows a failure there never runs.`,
  )
}

function callbacksOf(named: Readonly<Record<string, JobJson | null | undefined>>): (readonly [Callback, JobJson])[] {
  return Object.entries(CALLBACKS).flatMap(([name, callback]) => {
    const json = named[name]
    return json ? [[callback, json] as const] : []
  })
}

function planOfSteps(steps: readonly StepJson[]): WorkflowPlan {
  const ids = new Set(steps.map(({ id }) => id))
  if (ids.size < steps.length)
    throw unprocessable('steps is invalid: two steps have the same id. Expected different ids.')
  for (const { id, depends_on: before } of steps)
    for (const each of before ?? [])
      if (!ids.has(each))
        throw unprocessable(`steps is invalid: ${id} depends on ${each}. Expected a step of this workflow.`)
  const callbackOf = new Map(steps.flatMap((step) => asCallback(step, steps)))
  const ordered = inOrder(steps.filter(({ id }) => !callbackOf.has(id)))
  const places = new Map(ordered.map(({ id }, node) => [id, node]))
  const called = steps.filter(({ id }) => callbackOf.has(id))
  // The nodes of callbacks are in this order.
  const order = Object.values(CALLBACKS)
  called.sort(
    (a, b) => order.indexOf(callbackOf.get(a.id) as Callback) - order.indexOf(callbackOf.get(b.id) as Callback),
  )
  return {
    kind: called.length > 0 ? 'batch' : 'group',
    nodes: ordered.map((step) => ({
      json: jobOf(step),
      after: [...new Set(step.depends_on ?? [])].map((id) => {
        const node = places.get(id)
        if (node === undefined)
          throw unprocessable(
            `steps is invalid: ${step.id} depends on the callback ${id}. Expected a step that is not a callback.`,
          )
        return node
      }),
    })),
    callbacks: called.map((step) => [callbackOf.get(step.id) as Callback, jobOf(step)] as const),
    steps: [...ordered, ...called].map(({ id, depends_on: before }) => ({ id, depends_on: before ?? [] })),
  }
}

/**
 * SDKs send the callbacks of a batch as steps that depend on all others. The step's id or its options name the
 * callback.
 */
function asCallback(step: StepJson, steps: readonly StepJson[]): [string, Callback][] {
  const callbackType = (step.options as { callback_type?: unknown } | null | undefined)?.callback_type
  const callback = CALLBACKS[typeof callbackType === 'string' ? callbackType : step.id.replace('-', '_')]
  if (callback === undefined || !step.depends_on || step.depends_on.length === 0) return []
  const others = steps.filter(({ id, depends_on: before }) => id !== step.id && (before ?? []).length === 0)
  return others.every(({ id }) => step.depends_on?.includes(id)) ? [[step.id, callback]] : []
}

/** Orders each step behind those that it depends on, otherwise in the sent order. @throws {Refusal} 422 for a cycle */
function inOrder(steps: readonly StepJson[]): StepJson[] {
  const ordered: StepJson[] = []
  const done = new Set<string>()
  const own = new Set(steps.map(({ id }) => id))
  let left = [...steps]
  while (left.length > 0) {
    const ready = left.filter(({ depends_on: before }) => (before ?? []).every((id) => done.has(id) || !own.has(id)))
    if (ready.length === 0)
      throw unprocessable(
        `steps is invalid: ${left
          .map(({ id }) => id)
          .join(', ')
          .slice(0, 200)} depend on each other in a circle.`,
      )
    for (const step of ready) done.add(step.id)
    ordered.push(...ready)
    left = left.filter(({ id }) => !done.has(id))
  }
  return ordered
}

function jobOf({ id: _id, depends_on: _before, options, ...json }: StepJson): JobJson {
  if (!options) return json
  const { callback_type: _callback, ...rest } = options as OptionsJson & { callback_type?: unknown }
  return { ...json, options: rest }
}
