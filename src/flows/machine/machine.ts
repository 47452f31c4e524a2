import { durationMs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { didYouMean } from '../../base/nearest.ts'
import { checkOptions, checkTaskName, quote } from '../../base/options.ts'
import { toJsonText } from '../../base/json-value.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import type { FlowStartOptions, WorkflowDefinition } from '../../engine/define/workflow.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import { type RetryOptions, retryPolicy } from '../../jobs/retry-policy.ts'
import { checkSchema, validate } from '../../jobs/schema.ts'
import type { Schema } from '../../jobs/schema.ts'
import { checkFunction, checkSignal, checkSignals, definitionOf, schemasOf } from '../shared/definition.ts'
import type { In, Out, Schemas, Startable } from '../shared/startable.ts'
import { startableOf } from '../shared/startable.ts'
import { prepareStart } from '../shared/start.ts'
import { type StepLimit, stepUses } from '../shared/step-limits.ts'
import type { Move, To } from './moves.ts'
import type { MachineCode } from './code.ts'
import { enterMachine } from './enter.ts'

/** The options of a machine. */
export interface MachineOptions<St extends Schemas, Sig extends Schemas, First extends keyof St, R> {
  /** The schema of each step's state. The order of the steps is theirs: going back begins a new lap. */
  readonly states: St
  /** The schemas of signals. */
  readonly signals?: Sig
  /** The first step; its state is the input. */
  readonly first: First
  /** The type of the result; a schema that checks it, too. */
  readonly result?: Schema<R, R>
  /** At most one running flow has a key; signals may be sent to it. */
  readonly key?: (state: NoInfer<Out<St[First]>>) => string
  /** Limits that are paid before the first step, and whose permits the flow keeps until it ends. */
  readonly hold?: readonly StepLimit<NoInfer<Out<St[First]>>>[]
  /** Limits by step, for every arrival there. */
  readonly limits?: { readonly [K in keyof St]?: readonly StepLimit<NoInfer<Out<St[K]>>>[] }
  /** Of each step; the defaults are those of tasks. */
  readonly retry?: RetryOptions
  /** Of each attempt of a step, from its start; default: none. */
  readonly stepTimeout?: Duration
  /** Of the whole flow, from its start; waiting counts. Default: none. */
  readonly timeout?: Duration
  /** Where its steps wait and run; default `default`. */
  readonly queue?: string
  /** The code of each step. It returns where the flow goes. */
  readonly run: { readonly [K in keyof St]: (state: Out<St[K]>, to: To<St, Sig, R>) => Move<R> | Promise<Move<R>> }
}

const OPTIONS = [
  'states',
  'signals',
  'first',
  'result',
  'key',
  'hold',
  'limits',
  'retry',
  'stepTimeout',
  'timeout',
  'queue',
  'run',
] as const
const STEP = /^[^~#*\s][^#*\0]{0,199}$/u

/**
 * Defines a machine: a durable flow that goes from step to step. Each step is code that returns the next one, with a
 * state and the limits that must admit it. No code runs twice for the flow to go on.
 * @param name lower case words with dots; no task or other workflow of the engine may have it.
 * @throws {SluiceError} `task.name.invalid`, `option.invalid`, `retry.invalid`, `duration.invalid`
 */
export function machine<
  const St extends Schemas,
  const First extends keyof St & string,
  R = void,
  const Sig extends Schemas = {},
>(name: string, options: MachineOptions<St, Sig, First, R>): Startable<In<St[First]>, R, Sig> {
  checkTaskName(name, 'The name of a machine')
  checkOptions(options, OPTIONS, `machine ${name}`, { aliases: { start: 'first', steps: 'states', initial: 'first' } })
  const code = codeOf(name, options as MachineOptions<Schemas, Schemas, string, unknown>)
  const { key, hold } = options
  if (key !== undefined) checkFunction(key, `key of machine ${name}`)
  const held = stepUses(hold as readonly StepLimit<never>[] | undefined, `hold of machine ${name}`)
  const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, `timeout of machine ${name}`)
  const prepare = async (engine: FlowEngine, state: unknown, given: FlowStartOptions): Promise<NewWorkflow> => {
    const what = `the state ${code.first} of machine ${name}`
    const output = await validate(code.states[code.first] as Schema, state, what)
    const first = { step: code.first, uses: code.limits.get(code.first) ?? [], attempts: code.retry.attempts }
    const plan = {
      kind: 'machine' as const,
      name,
      queue: code.queue,
      output,
      text: toJsonText(state, what),
      key: key as ((input: never) => string) | undefined,
      hold: held,
      first,
      timeoutMs,
      definition: null,
      hash: null,
    }
    return prepareStart(engine, plan, given)
  }
  const definition: WorkflowDefinition = definitionOf({
    name,
    kind: 'machine',
    queue: code.queue,
    retry: code.retry,
    uses: [...held, ...[...code.limits.values()].flat()],
    prepare,
    signal: (signal, payload) => checkSignal(name, code.signals, signal, payload),
    enter: (entry) => enterMachine(code, entry),
  })
  return startableOf(definition)
}

function codeOf(name: string, options: MachineOptions<Schemas, Schemas, string, unknown>): MachineCode {
  const what = `machine ${name}`
  const { states, signals = {}, first, result, limits = {}, run, retry, queue, stepTimeout } = options
  const steps = schemasOf(states, `states of ${what}`)
  if (steps.length === 0)
    throw new SluiceError('option.invalid', `states of ${what} is empty. Expected a schema for each step.`)
  for (const step of steps)
    if (!STEP.test(step))
      throw new SluiceError(
        'option.invalid',
        `states of ${what}: the step name ${quote(step)} is invalid. Expected 1 to 200 characters without # and *, and not ~ first.`,
      )
  checkSignals(signals, what)
  if (!steps.includes(first))
    throw new SluiceError(
      'option.invalid',
      `first of ${what} is invalid: ${quote(first)}${didYouMean(first, steps)}Expected one of ${steps.join(', ')}.`,
    )
  if (result !== undefined) checkSchema(result, `result of ${what}`)
  checkOptions(run, steps, `run of ${what}`)
  for (const step of steps) checkFunction(run[step], `run.${step} of ${what}`)
  checkOptions(limits, steps, `limits of ${what}`)
  return {
    name,
    queue: queue === undefined ? 'default' : checkQueue(queue),
    steps,
    first,
    states,
    signals,
    result: result ?? null,
    limits: new Map(
      steps.map((step) => [
        step,
        stepUses(
          (Object.hasOwn(limits, step) ? limits[step] : undefined) as readonly StepLimit<never>[] | undefined,
          `limits.${step} of ${what}`,
        ),
      ]),
    ),
    retry: retryPolicy(retry, `retry of ${what}`),
    timeoutMs: stepTimeout === undefined ? null : durationMs(stepTimeout, `stepTimeout of ${what}`),
    run: run,
  }
}
