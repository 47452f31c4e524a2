import { durationMs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { checkOptions, checkTaskName, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import { specsOf } from '../../engine/define/limit-registry.ts'
import type { FlowStartOptions } from '../../engine/define/workflow.ts'
import { retryPolicy } from '../../jobs/retry-policy.ts'
import { checkSchema, type Schema, validate } from '../../jobs/schema.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { LimitUse } from '../../policy/limits/define.ts'
import { checkFunction, checkSignal, checkSignals, definitionOf } from '../shared/definition.ts'
import { type Schemas, type Startable, startableOf } from '../shared/startable.ts'
import { prepareStart } from '../shared/start.ts'
import type { Again } from './again.ts'
import type { WorkflowCode } from './code.ts'
import { enterWorkflow } from './enter.ts'
import type { StepOptions, Steps } from './steps.ts'

/** The options of a workflow. */
export interface WorkflowOptions<I, O, R, Sig extends Schemas> {
  /** The schemas of signals. */
  readonly signals?: Sig
  /** At most one running flow has a key; signals may be sent to it. */
  readonly key?: (input: NoInfer<O>) => string
  /** Limits that are paid before the body begins, and whose permits the flow keeps until it ends. */
  readonly hold?: readonly LimitUse<NoInfer<O>>[]
  /** For steps that say nothing else. `queue` is also that of the body: default `default`. */
  readonly defaults?: Pick<StepOptions, 'retry' | 'timeout' | 'priority' | 'queue'>
  /** Of the whole flow, from its start; waiting counts. Default: none. */
  readonly timeout?: Duration
  /** True: a flow whose body strays from what it has asked for before fails. Default false: one event tells. */
  readonly strict?: boolean
  /**
   * The body. It is entered again after each wait, and gets the results of its steps. Code between steps runs again:
   * it must have no effect of its own.
   */
  run(input: NoInfer<O>, flow: Steps<Sig>): Promise<R | Again<NoInfer<I>>>
}

/** Refuses `again` with another input: a compiler may otherwise take such a wish for the result of the workflow. */
type OwnAgain<I, R> = 0 extends 1 & R
  ? unknown
  : [Extract<R, Again<unknown>>] extends [never]
    ? unknown
    : { run(...given: never): Promise<Again<NoInfer<I>>> }

const OPTIONS = ['signals', 'key', 'hold', 'defaults', 'timeout', 'strict', 'run'] as const
const DEFAULTS = ['retry', 'timeout', 'priority', 'queue'] as const

/**
 * Defines a workflow: a durable function. Each step with a name runs to its end once, and waits for its limits without
 * a slot. After a wait or a crash the function is entered again, and gets the results of its steps.
 * @param name lower case words with dots; no task or other workflow of the engine may have it.
 * @param input any Standard Schema: checked at `start` and at each entry.
 * @throws {SluiceError} `task.name.invalid`, `option.invalid`, `retry.invalid`, `duration.invalid`
 */
export function workflow<I, O, R, const Sig extends Schemas = {}>(
  name: string,
  input: Schema<I, O>,
  options: WorkflowOptions<I, O, R, Sig> & OwnAgain<I, R>,
): Startable<I, R, Sig> {
  checkTaskName(name, 'The name of a workflow')
  checkSchema(input, `the schema of workflow ${name}`)
  checkOptions(options, OPTIONS, `workflow ${name}`, { aliases: { limits: 'hold', retry: 'defaults', steps: 'run' } })
  const code = codeOf(name, input, options as unknown as WorkflowOptions<unknown, unknown, unknown, Schemas>)
  const { key } = options
  if (key !== undefined) checkFunction(key, `key of workflow ${name}`)
  const hold = specsOf(options.hold, `hold of workflow ${name}`)
  const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, `timeout of workflow ${name}`)
  const prepare = async (engine: FlowEngine, given: unknown, started: FlowStartOptions): Promise<NewWorkflow> => {
    const what = `the input of workflow ${name}`
    const output = await validate(input as never, given, what)
    const plan = {
      kind: 'workflow' as const,
      name,
      queue: code.queue,
      output,
      text: toJsonText(given, what),
      key: key as ((input: never) => string) | undefined,
      hold,
      first: null,
      timeoutMs,
      definition: null,
      hash: null,
    }
    return prepareStart(engine, plan, started)
  }
  return startableOf(
    definitionOf({
      name,
      kind: 'workflow',
      queue: code.queue,
      retry: code.retry,
      uses: hold,
      prepare,
      signal: (signal, payload) => checkSignal(name, code.signals, signal, payload),
      enter: (entry) => enterWorkflow(code, entry),
    }),
  )
}

function codeOf(
  name: string,
  input: Schema,
  options: WorkflowOptions<unknown, unknown, unknown, Schemas>,
): WorkflowCode {
  const what = `workflow ${name}`
  const { defaults = {}, signals = {}, strict = false } = options
  checkFunction(Reflect.get(options, 'run'), `run of ${what}`)
  checkSignals(signals, what)
  if (typeof strict !== 'boolean')
    throw new SluiceError('option.invalid', `strict of ${what} is invalid: ${show(strict)}. Expected true or false.`)
  checkOptions(defaults, DEFAULTS, `defaults of ${what}`)
  const { retry, timeout, priority, queue } = defaults
  return {
    name,
    input,
    signals,
    retry: retryPolicy(retry, `retry of ${what}`),
    timeoutMs: timeout === undefined ? null : durationMs(timeout, `timeout of ${what}`),
    priority: priority === undefined ? null : checkPriority(priority, what),
    queue: queue === undefined ? 'default' : checkQueue(queue),
    strict,
    run: (given, flow) => options.run(given, flow),
  }
}
