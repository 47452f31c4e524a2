import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { readPath } from '../../policy/limits/partition-key.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import type { FlowStartOptions } from '../../engine/define/workflow.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { Schema } from '../../jobs/schema.ts'
import { input as anything } from '../../jobs/schema.ts'
import { checkSignal, definitionOf } from '../shared/definition.ts'
import { startableOf } from '../shared/startable.ts'
import { prepareStart } from '../shared/start.ts'
import { enterGraph } from './enter.ts'
import { graphInvalid } from './graph-invalid.ts'
import { inputOf } from './input.ts'
import type { GraphModel } from './model.ts'
import { readGraph } from './read-graph.ts'
import { stepTasks } from './step-tasks.ts'
import { retryOf, usesOf } from './terms.ts'
import type { GraphDefinition } from './types.ts'

/** Makes the public object of a graph. */
export function define(model: GraphModel): GraphDefinition<unknown, unknown> {
  const { form, hash } = model
  const { name } = form
  const signals = signalsOf(model)
  const startable = startableOf<unknown, unknown, {}>(
    definitionOf({
      name,
      kind: 'graph',
      queue: model.queue,
      retry: retryOf(undefined),
      uses: model.limits,
      steps: stepTasks(model),
      ...(model.isJson && { check: (engine) => checkNames(model, engine) }),
      prepare: (engine, input, options) => prepare(model, engine, input, options),
      signal: (signal, payload) => checkSignal(name, signals, signal, payload),
      enter: (entry) => enterGraph(model, entry),
    }),
    { hash, toJSON: () => form },
  )
  return startable as GraphDefinition<unknown, unknown>
}

/** Refuses names that the engine does not list. A limit may be another engine's. @throws {SluiceError} `graph.invalid` */
function checkNames({ form }: GraphModel, { listed, limits }: FlowEngine): void {
  const { faults } = readGraph(form, {
    tasks: listed.tasks,
    workflows: listed.workflows,
    policy: (limit) => limits.policy(limit) ?? undefined,
  })
  if (faults.length > 0) throw graphInvalid(form.name, faults)
}

/** Schemas by the names of signals. A graph in JSON takes any payload. */
function signalsOf({ form, steps }: GraphModel): Record<string, Schema> {
  return Object.fromEntries(
    Object.entries(form.steps).flatMap(([step, { signal }]) =>
      signal === undefined ? [] : [[signal, steps.get(step)?.payload ?? anything<unknown>()]],
    ),
  )
}

async function prepare(
  model: GraphModel,
  engine: FlowEngine,
  input: unknown,
  options: FlowStartOptions,
): Promise<NewWorkflow> {
  const { form, hash, key, hold } = model
  const output = await inputOf(model, input)
  const seen = { input: output }
  const { key: path } = form
  const policyOf = (limit: string): LimitPolicy | null => engine.limits.policy(limit)
  const held = hold.length > 0 ? hold : usesOf('hold', form.hold ?? [], [], policyOf, seen).specs
  const plan = {
    kind: 'graph' as const,
    name: form.name,
    queue: model.queue,
    output: model.hold.length > 0 ? output : seen,
    text: toJsonText(input, `the input of graph ${form.name}`),
    key: key ? () => key(output as never) : typeof path === 'string' ? () => keyAt(form.name, path, seen) : undefined,
    hold: held,
    first: null,
    timeoutMs: form.timeout ?? null,
    definition: JSON.stringify(form),
    hash,
  }
  return prepareStart(engine, plan, options)
}

function keyAt(name: string, path: string, seen: unknown): string {
  const value = readPath(seen, path)
  if (typeof value === 'string' || typeof value === 'number') return String(value)
  throw new SluiceError(
    'option.invalid',
    `The input of graph ${name} has no text or number at the path ${path} of its key.`,
  )
}
