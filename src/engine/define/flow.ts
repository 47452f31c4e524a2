import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { checkOptions as checkNames, quote, show } from '../../base/options.ts'
import { checkMeta } from './call-options.ts'
import type { Callback, PlainFlowKind } from '../../jobs/flow.ts'
import { checkFlowName, dependencies, type FlowJob, type NewFlow } from '../../jobs/new-flow.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { AnyTask, EnqueueOptions, Task } from './task.ts'

/** The options of a call that is part of a flow. Its `delay` begins once its flow lets it start. */
export type CallOptions<I> = Omit<EnqueueOptions<I>, 'unique' | 'tx'>

/** One call of a task, to be enqueued as part of a flow. It is opaque, and made by `call`. */
export interface Call {
  readonly task: AnyTask
  readonly input: unknown
  readonly options: EnqueueOptions<never>
}

/** A flow to start: one call after the other, all at once, or all at once with callbacks. */
export type FlowOptions = {
  /** For lists and for people; at most 255 characters. */
  name?: string
  meta?: Readonly<Record<string, unknown>>
} & (
  | {
      kind: 'chain'
      /**
       * 1 to 1,000 calls. Each starts once the one before it has completed, and receives the results of all before it.
       */
      steps: readonly Call[]
    }
  | {
      kind: 'group'
      /** 1 to 10,000 calls. */
      jobs: readonly Call[]
    }
  | {
      kind: 'batch'
      /** 1 to 10,000 calls. */
      jobs: readonly Call[]
      /** At least one. Each receives the results of all jobs, with null for each that did not complete. */
      callbacks: {
        /** All jobs have completed. */
        onSuccess?: Call
        /** All jobs have ended, and one of them did not complete. */
        onFailure?: Call
        /** All jobs have ended. */
        onComplete?: Call
      }
    }
)

type Prepare = (task: AnyTask, input: unknown, options: EnqueueOptions<never>) => NewJob | Promise<NewJob>

const OPTIONS: Readonly<Record<PlainFlowKind, readonly string[]>> = {
  chain: ['kind', 'name', 'meta', 'steps'],
  group: ['kind', 'name', 'meta', 'jobs'],
  batch: ['kind', 'name', 'meta', 'jobs', 'callbacks'],
}
const CALLED: Readonly<Record<string, Callback>> = {
  onSuccess: 'success',
  onFailure: 'failure',
  onComplete: 'complete',
}

/** Makes a call of a task with its input, as part of a flow: `call(charge, { order }, { priority: 5 })`. */
export function call<I, O, R>(
  task: Task<I, O, R>,
  ...args: undefined extends I ? [input?: I, options?: CallOptions<O>] : [input: I, options?: CallOptions<O>]
): Call {
  const [input, options = {}] = args
  return { task, input, options }
}

/**
 * Prepares and links the jobs of a flow by its kind.
 * @throws {SluiceError} `flow.invalid`, and the codes of `enqueue` for each call; then nothing is stored
 */
export async function toFlow(id: string, options: FlowOptions, prepare: Prepare): Promise<NewFlow> {
  const kind = checkOptions(options)
  const calls = checkCalls(kind, options.kind === 'chain' ? options.steps : options.jobs)
  const jobs = await Promise.all(calls.map((each) => toFlowJob(each, prepare)))
  const after = dependencies(kind, jobs.length)
  const callbacks: Partial<Record<Callback, FlowJob>> = {}
  if (options.kind === 'batch') {
    for (const [name, callbackCall] of Object.entries(options.callbacks ?? {}) as [string, Call | undefined][]) {
      const callback = CALLED[name]
      if (callback && callbackCall)
        callbacks[callback] = await toFlowJob(checkCalls(kind, [callbackCall])[0] as Call, prepare)
    }
  }
  return {
    id,
    kind,
    name: options.name ?? null,
    nodes: jobs.map((job, node) => ({ ...job, after: after[node] ?? [] })),
    callbacks,
    extra: options.meta ? toJsonText({ meta: options.meta }, `meta of a ${kind}`) : null,
  }
}

async function toFlowJob({ task, input, options }: Call, prepare: Prepare): Promise<FlowJob> {
  if (options?.tx !== undefined)
    throw invalid(
      'flow',
      'a call has tx. Omit it, since the jobs of a flow are stored together in a transaction of their own',
    )
  const { delayUs = null, ...job } = await prepare(task, input, options)
  return { job, delayUs }
}

function checkOptions(options: FlowOptions): PlainFlowKind {
  // Callers without types may pass anything.
  const value: unknown = options
  if (typeof value !== 'object' || value === null)
    throw invalid('flow', `the options are invalid: ${show(value)}. Expected { kind, steps } or { kind, jobs }`)
  const known =
    typeof options.kind === 'string' && Object.hasOwn(OPTIONS, options.kind) ? OPTIONS[options.kind] : undefined
  if (!known)
    throw invalid('flow', `the kind is invalid: ${quote(options.kind)}. Expected ${Object.keys(OPTIONS).join(', ')}`)
  const { kind } = options
  checkNames(options, known, `a ${kind}`, { code: 'flow.invalid' })
  if ('callbacks' in options && options.callbacks !== undefined)
    checkNames(options.callbacks, Object.keys(CALLED), `callbacks of a ${kind}`, { code: 'flow.invalid' })
  checkFlowName(kind, options.name ?? null)
  checkMeta(options.meta, `a ${kind}`, 'flow.invalid')
  return kind
}

function checkCalls(kind: PlainFlowKind, calls: readonly Call[]): readonly Call[] {
  const list: unknown = calls
  const fine = Array.isArray(list) && calls.every((each) => typeof each === 'object' && each !== null && 'task' in each)
  if (fine) return calls
  throw invalid(
    kind,
    `its ${kind === 'chain' ? 'steps' : 'jobs'} are invalid. Expected a list of calls, made by call(task, input)`,
  )
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('flow.invalid', `A ${what} was not started: ${why}.`)
}
