import { durationMs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, checkTaskName, checkText, show } from '../../base/options.ts'
import type { Kept } from '../../base/json-value.ts'
import type { Logger } from '../../base/logger.ts'
import type { FlowPlace } from '../../jobs/flow.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { RetryOptions, RetryPolicy } from '../../jobs/retry-policy.ts'
import { retryPolicy } from '../../jobs/retry-policy.ts'
import { checkSchema, type Schema } from '../../jobs/schema.ts'
import type { Unique } from '../../jobs/unique-key.ts'
import {
  type InlineLimit,
  inlineUse,
  isLimitUse,
  type Limit,
  type LimitUse,
  useOf,
  notAList,
  type UseSpec,
} from '../../policy/limits/define.ts'
import type { Key, KeyPath } from '../../policy/limits/key-path.ts'
import { type Fairness, fairnessOf } from './fairness.ts'
import { type KeepOfTask, keptOf, type KeptTimes } from './job-terms.ts'
import type { FlowEnd, FlowEntry } from './flow-entry.ts'
import type { Snooze } from './snooze.ts'

/** A handler's context, beside its input. */
export interface Context<I> {
  readonly job: {
    readonly id: string
    readonly input: I
    /** The schedule and due time of this job; null for any other job. */
    readonly occurrence: { readonly schedule: string; readonly dueAt: Date } | null
    /** The flow of this job and its place there; null for any other job. */
    readonly flow: FlowPlace | null
    /**
     * Results in the order of the flow. A job receives those of all jobs that it waited for, directly or not. A
     * callback receives those of all jobs, with null for each that did not complete. Null: the job has no flow, or the
     * results of a callback exceed 4 MiB.
     */
    readonly parentResults: readonly unknown[] | null
  }
  /** 1 on the first run. */
  readonly attempt: number
  /** Aborts on a cancel, on the timeout, on a lost lease, and when a stop has waited long enough. */
  readonly signal: AbortSignal
  /** The engine's logger; each line names the job, the task and the attempt. */
  readonly logger: Logger
  /**
   * Corrects the charge of this job in a limit with a rate or a window. Positive units take more, into debt if
   * necessary. Negative ones give back, in total at most the charge. For other limits, and after the run, it logs a
   * warning and does nothing.
   */
  charge(limit: Limit | string, units: number): void
  /**
   * Reads the rate-limit headers of a response, which may be a plain object. A refusal (429, or GitHub's 403) closes
   * the bucket as `RateLimited` does. Limits with `calibrate` are corrected to the remaining budget that the API
   * reports.
   */
  observe(response: Answer): void
  /** Tells how far the run has come, 0 to 1: kept with the job, and told by `job.progress`. */
  progress(fraction: number): void
  /**
   * Makes a value which, returned by `run`, schedules the job again after this time (0 to 100 years). The run counts as
   * no attempt, its result is dropped, and its next start pays its limits again. A job may snooze any number of times.
   * By itself the call does nothing.
   * @throws {SluiceError} `duration.invalid`; `option.invalid` for an end after 2199
   */
  snooze(duration: Duration): Snooze
}

/** A stored job, as `enqueue` returns it. */
export interface Job<R> {
  readonly id: string
  /** An earlier job with the same unique key was returned. */
  readonly duplicate: boolean
  /**
   * Waits until the job has ended. The result is the value of `run` after JSON: see `Kept`.
   * @throws {SluiceError} `job.discarded`, `job.cancelled`; `job.result.timeout` after `timeout`, while the job
   * continues
   */
  result(options?: { timeout?: Duration }): Promise<Kept<R>>
}

/** The options of one call of a task. */
export interface EnqueueOptions<I> {
  /** The earliest start from now; wall clock. */
  delay?: Duration
  /** The earliest start; wall clock. */
  runAt?: Date
  /** The job is discarded if it has not started by then; wall clock. */
  expiresAt?: Date
  queue?: string
  /** −100 to 100, higher first; default 0. */
  priority?: number
  /** Units for rate and window rules without a weight of their own; default 1. */
  weight?: number
  unique?: Unique<I>
  /** Replaces the task's: the time of each attempt, from its start. */
  timeout?: Duration
  /** Replaces the task's as a whole: a member that it leaves out has its default. */
  retry?: RetryOptions
  /** Limits beside the task's. */
  limits?: readonly LimitUse<I>[]
  /** Replaces the task's: jobs of one key take turns with those of others; `null` or `''`: no key. */
  fairKey?: Key | null
  /** Replaces the task's: the starts in one turn of the job's lane, 1 to 100. */
  share?: number
  meta?: Readonly<Record<string, unknown>>
  tags?: readonly string[]
  /**
   * A connection of `pg` on which you have begun a transaction. The job is stored, and visible, once you commit.
   * PostgreSQL only.
   */
  tx?: unknown
}

/** The options of one of many calls, from its input and its index. */
export type OptionsOf<I, O> = (input: I, index: number) => EnqueueOptions<O>

/** A task of any input and result. */
export interface AnyTask {
  readonly name: string
}

/** Code with a name: enqueued as jobs, run by workers. */
export interface Task<I, O, R> extends AnyTask {
  /**
   * Stores one call durably, through the one engine that lists the task.
   * @throws {SluiceError} `task.no_engine`, `task.ambiguous`, `input.invalid` and other refusals; then nothing is
   * stored
   */
  enqueue(
    ...args: undefined extends I ? [input?: I, options?: EnqueueOptions<O>] : [input: I, options?: EnqueueOptions<O>]
  ): Promise<Job<R>>
  /**
   * Stores many calls in one transaction, all or none.
   * @param options those of all calls, or a function of each input and its index, which is called before anything is
   * stored. Calls with different `tx` are refused.
   * @throws {SluiceError} the codes of `enqueue`
   */
  enqueueMany(inputs: readonly I[], options?: EnqueueOptions<O> | OptionsOf<I, O>): Promise<Job<R>[]>
}

/** The options of a task. */
export interface TaskOptions<O, R> {
  /** Every one must admit a job; default: none. */
  limits?: readonly (LimitUse<NoInfer<O>> | InlineLimit<NoInfer<O>>)[]
  /**
   * Jobs of one key take turns with those of others, so that no backlog delays another's. A function of the input, or a
   * path like `'tenant.id'`. `null`, `undefined` and `''` mean no key; default: none. Beside limits it splits their
   * lanes further.
   */
  fairKey?: ((input: NoInfer<O>) => Key | null | undefined) | KeyPath<O>
  /**
   * The starts in one turn of a job's lane, a whole number from 1 to 100; default 1. The last job of the lane decides.
   * Jobs without limits and fair key have no lane.
   */
  share?: number | ((input: NoInfer<O>) => number)
  /** Default: `default`. */
  queue?: string
  /** The time of each attempt, from its start; default: its queue's, else none. */
  timeout?: Duration
  /** Default: its queue's, else 3 attempts. */
  retry?: RetryOptions
  /**
   * How long jobs that ended by a run are kept, and how many: `{ completed: '1d', count: 1000 }`. Default: as their queue
   * or the engine says. `completed: 0` deletes a job as its run completes. Jobs of flows are kept with their flow.
   */
  retention?: KeepOfTask
  /** Its value is the job's result, or `ctx.snooze(duration)`. */
  run(input: NoInfer<O>, ctx: Context<NoInfer<O>>): R | Snooze | Promise<R | Snooze>
  /** Runs at the start of each attempt, beside the handler: it delays no run. */
  onStarted?(job: { id: string; input: NoInfer<O>; attempt: number }): void
  /** Runs once, after a job has completed durably, with the result after JSON. */
  onCompleted?(result: unknown, job: { id: string; input: NoInfer<O> }): void
  /** Runs once, after a job was discarded. */
  onError?(error: Error, job: { id: string; input: NoInfer<O> }): void
  /** Runs after each failed attempt that has a retry. */
  onRetry?(error: Error, job: { id: string; input: NoInfer<O>; attempt: number; delayMs: number }): void
}

/** An engine's view of a task: its normalised options. */
export interface TaskDefinition {
  readonly name: string
  readonly schema: Schema<never, unknown> | null
  readonly uses: readonly UseSpec<never>[]
  readonly fairness: Fairness
  readonly queue: string
  readonly timeoutMs: number | null
  readonly retry: RetryPolicy
  /** Its code gave no retry policy; absent: it did. */
  readonly retryIsDefault?: boolean
  /** How long its ended jobs are kept; absent: as their queue or the store says. */
  readonly kept?: KeptTimes
  readonly run: (input: never, ctx: Context<never>) => unknown
  /** Runs the jobs of a workflow in place of `run`; absent: it is a task. */
  readonly enter?: (entry: FlowEntry) => Promise<FlowEnd>
  readonly onStarted: ((job: { id: string; input: never; attempt: number }) => void) | undefined
  readonly onCompleted: ((result: unknown, job: { id: string; input: never }) => void) | undefined
  readonly onError: ((error: Error, job: { id: string; input: never }) => void) | undefined
  readonly onRetry:
    | ((error: Error, job: { id: string; input: never; attempt: number; delayMs: number }) => void)
    | undefined
}

/** The engine behind a task's `enqueue`. */
export interface TaskEngine {
  /** The engine in messages: its store, whether it runs, and where it was made. */
  readonly about: string
  enqueueAll(
    task: TaskDefinition,
    inputs: readonly unknown[],
    options: EnqueueOptions<never> | OptionsOf<never, never>,
  ): Promise<Job<unknown>[]>
}

interface Bound {
  readonly definition: TaskDefinition
  readonly engines: Set<TaskEngine>
}

const BOUND = new WeakMap<AnyTask, Bound>()
const OPTIONS = [
  'limits',
  'fairKey',
  'share',
  'queue',
  'timeout',
  'retry',
  'run',
  'onStarted',
  'onCompleted',
  'onError',
  'onRetry',
  'retention',
] as const
const CALLBACKS = ['onStarted', 'onCompleted', 'onError', 'onRetry'] as const
/** The names of options in other libraries. */
const ALIASES = {
  retries: 'retry',
  attempts: 'retry',
  backoff: 'retry',
  handler: 'run',
  concurrency: 'limits',
  limit: 'limits',
}

/**
 * Defines a task: a handler under a name, with its input's schema and its options.
 * @param name lower case words with dots, such as `tenant.sync`; at most 255 characters.
 * @param input any Standard Schema: checked at `enqueue` and again before the run.
 * @throws {SluiceError} `task.name.invalid`, `option.invalid`, `policy.invalid`, `fairness.invalid`, `retry.invalid`,
 * `duration.invalid`
 */
export function task<I, O, R>(name: string, input: Schema<I, O>, options: TaskOptions<O, R>): Task<I, O, R>
export function task<R>(name: string, options: TaskOptions<void, R>): Task<void, void, R>
export function task<I, O, R>(
  name: string,
  second: Schema<I, O> | TaskOptions<void, R>,
  third?: TaskOptions<O, R>,
): Task<I, O, R> {
  const schema = third ? (second as Schema<never, unknown>) : null
  const definition = define(name, schema, (third ?? second) as TaskOptions<O, R>)
  const engines = new Set<TaskEngine>()
  const created: Task<I, O, R> = Object.freeze({
    name,
    enqueue: async (value?: I, options: EnqueueOptions<O> = {}): Promise<Job<R>> =>
      (await theOne(name, engines).enqueueAll(definition, [value], options))[0] as Job<R>,
    enqueueMany: async (inputs: readonly I[], options: EnqueueOptions<O> | OptionsOf<I, O> = {}): Promise<Job<R>[]> => {
      if (!Array.isArray(inputs))
        throw new SluiceError(
          'option.invalid',
          `The inputs of enqueueMany of ${name} are invalid: ${show(inputs)}. Expected a list of inputs.`,
        )
      return (await theOne(name, engines).enqueueAll(definition, inputs, options)) as Job<R>[]
    },
  })
  BOUND.set(created, { definition, engines })
  return created
}

/** The normalised options of a task. @throws {SluiceError} `option.invalid` for an object that `task` did not make */
export function definitionOf(created: AnyTask): TaskDefinition {
  return boundOf(created).definition
}

/** Puts an engine behind a task's `enqueue`. Returns a function that undoes it. */
export function bind(created: AnyTask, engine: TaskEngine): () => void {
  const { engines } = boundOf(created)
  engines.add(engine)
  return () => engines.delete(engine)
}

function boundOf(created: AnyTask): Bound {
  const bound = BOUND.get(created)
  if (!bound)
    throw new SluiceError(
      'option.invalid',
      `A task is invalid: ${show(created)}. Expected the result of task(name, input, options).`,
    )
  return bound
}

function theOne(name: string, engines: ReadonlySet<TaskEngine>): TaskEngine {
  const [first, second] = engines
  if (!first)
    throw new SluiceError(
      'task.no_engine',
      `No engine lists the task ${name}. Create one with new Sluice({ tasks: [...] }), or use sluice.enqueue(task, input).`,
    )
  if (second)
    throw new SluiceError(
      'task.ambiguous',
      `${engines.size} engines list the task ${name}: ${[...engines].map((each) => each.about).join('; ')}. Choose one with sluice.enqueue(task, input), or stop the others.`,
    )
  return first
}

function define<O, R>(name: string, schema: Schema<never, unknown> | null, options: TaskOptions<O, R>): TaskDefinition {
  checkTaskName(name, 'The task name')
  if (typeof options !== 'object' || options === null || typeof options.run !== 'function')
    throw new SluiceError('option.invalid', `task ${name} has no run function. Expected { run(input, ctx) { … } }.`)
  checkOptions(options, OPTIONS, `task ${name}`, { aliases: ALIASES })
  if (schema !== null) checkSchema(schema, `the schema of task ${name}`)
  for (const each of CALLBACKS)
    if (options[each] !== undefined && typeof options[each] !== 'function')
      throw new SluiceError(
        'option.invalid',
        `${each} of task ${name} is invalid: ${show(options[each])}. Expected a function.`,
      )
  const { limits } = options
  if (limits !== undefined && !Array.isArray(limits)) throw notAList(limits, `limits of task ${name}`)
  let inline = 0
  const uses = (limits ?? []).map((use) => {
    if (isLimitUse(use)) return useOf(use)
    inline++
    return inlineUse(use as InlineLimit<O>, inline === 1 ? name : `${name}#${inline}`)
  })
  const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, `timeout of task ${name}`)
  return {
    name,
    schema,
    uses: uses,
    fairness: fairnessOf(options.fairKey, options.share, name),
    timeoutMs,
    queue: options.queue === undefined ? 'default' : checkText(options.queue, `queue of task ${name}`),
    retry: retryPolicy(options.retry, `retry of task ${name}`),
    retryIsDefault: options.retry === undefined,
    kept: keptOf(options.retention, `retention of task ${name}`, true),
    run: (input, ctx) => options.run(input, ctx),
    onStarted: options.onStarted && ((job) => options.onStarted?.(job)),
    onCompleted: options.onCompleted && ((result, job) => options.onCompleted?.(result, job)),
    onError: options.onError && ((error, job) => options.onError?.(error, job)),
    onRetry: options.onRetry && ((error, job) => options.onRetry?.(error, job)),
  }
}
