import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { toJsonText } from '../../base/json-value.ts'
import { show } from '../../base/options.ts'
import type { JobTerms, NewJob } from '../../jobs/job.ts'
import type { JobExtra } from '../../jobs/job-extra.ts'
import { validate } from '../../jobs/schema.ts'
import { uniqueKey } from '../../jobs/unique-key.ts'
import { checkCall, checkQueue, optionsOfCalls, type TermsOfCall, termsOfCall } from '../define/call-options.ts'
import { fairnessOfJob } from '../define/fairness.ts'
import { type Carried, type Instrumentation, toCarry } from '../events/instrumentation.ts'
import { type LimitRegistry, specsOf } from '../define/limit-registry.ts'
import { retryOf, type TermsOfQueues } from '../define/job-terms.ts'
import type { QueueLimits } from '../define/queue-limits.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type { EnqueueOptions, Job, OptionsOf, TaskDefinition, TaskEngine } from '../define/task.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Results } from './results.ts'

const NO_TERMS: JobTerms = { givenId: false, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }

/** The engine's parts that turn a call into a stored job. */
export interface EnqueueContext {
  readonly newId: () => string
  readonly clock: Clock
  readonly limits: LimitRegistry
  readonly queueLimits: Pick<QueueLimits, 'ofJobs'>
  readonly queueTerms: TermsOfQueues
}

/** The options of an enqueuer. */
export interface EnqueuerOptions {
  readonly calls: EnqueueContext
  readonly events: Events
  readonly results: Results
  readonly servedQueues: ServedQueues
  readonly wakeup: Wakeup
  /** Names the engine in messages. */
  readonly about: () => string
  /** Answers at once when the store is open. */
  readonly store: () => Store | Promise<Store>
  /** Throws once the engine has been stopped. */
  readonly checkOpen: (what: string) => void
}

/** Stores the calls of an engine's tasks: `task.enqueue` calls it. */
export class Enqueuer implements TaskEngine {
  readonly #options: EnqueuerOptions
  /** Stands around every enqueue; null: nothing. */
  instrumentation: Instrumentation | null = null

  constructor(options: EnqueuerOptions) {
    this.#options = options
  }

  get about(): string {
    return this.#options.about()
  }

  /** Stores calls of one task in one transaction. */
  enqueueAll(
    task: TaskDefinition,
    inputs: readonly unknown[],
    options: EnqueueOptions<never> | OptionsOf<never, never>,
  ): Promise<Job<unknown>[]> {
    const all = optionsOfCalls(task, inputs, options)
    const store = (carried: Carried): Promise<Job<unknown>[]> => this.#store(task, inputs, all, carried)
    const call = { task: task.name, queue: all[0]?.queue ?? task.queue, count: inputs.length }
    return this.instrumentation?.enqueue(call, store) ?? store({})
  }

  async #store(
    task: TaskDefinition,
    inputs: readonly unknown[],
    options: readonly EnqueueOptions<never>[],
    carried: Carried,
  ): Promise<Job<unknown>[]> {
    const { calls, checkOpen, events, results, servedQueues, wakeup } = this.#options
    checkOpen(`enqueued for ${task.name}`)
    const prepared = inputs.map((input, at) => prepare(calls, task, input, options[at] ?? {}, carried))
    const later = prepared.some((job) => job instanceof Promise)
    const jobs = later ? await Promise.all(prepared.map(async (job) => job)) : (prepared as NewJob[])
    const opened = this.#options.store()
    const store = opened instanceof Promise ? await opened : opened
    // Only the first use of a limit needs a round trip of its own.
    const defining = calls.limits.store(store)
    if (defining && (await defining)) wakeup.notify('work')
    const answers = store.enqueue(jobs, options[0]?.tx)
    if (!store.notifiesOwnWrites) wakeup.notify('work')
    else if (store.takesClaim) wakeup.notify('storing')
    const stored = await answers
    servedQueues.enqueued(jobs)
    if (jobs.some((job) => job.runAtMs !== null || job.delayUs !== undefined)) wakeup.notify('delayed')
    return stored.map((answer, i) => results.enqueued(jobs[i] as NewJob, answer, events))
  }
}

/**
 * Checks one call and turns it into a job. All refusals happen here, before any write. It is synchronous if the schema
 * is.
 */
export function prepare(
  context: EnqueueContext,
  task: TaskDefinition,
  input: unknown,
  options: EnqueueOptions<never>,
  carried: Carried = {},
): NewJob | Promise<NewJob> {
  checkCall(options, task.name)
  const what = `the input of task ${task.name}`
  const checked = task.schema ? validate(task.schema, input, what) : input
  const text = toJsonText(input, what)
  return checked instanceof Promise
    ? checked.then((output) => toJob(context, task, text, output, options, carried))
    : toJob(context, task, text, checked, options, carried)
}

function toJob(
  context: EnqueueContext,
  task: TaskDefinition,
  text: string,
  output: unknown,
  options: EnqueueOptions<never>,
  carried: Carried,
): NewJob {
  const queue = checkQueue(options.queue === undefined ? task.queue : options.queue)
  const own =
    options.limits !== undefined
      ? [...task.uses, ...specsOf(options.limits, `limits of a call of ${task.name}`)]
      : task.uses
  const more = context.queueLimits.ofJobs(queue)
  const { priority = 0, weight } = options
  const terms = termsOfCall(options, task.name)
  const unique = uniqueKey(options.unique, output as never, task.name)
  const specs = more.length > 0 ? [...own, ...more] : own
  return {
    id: context.newId(),
    task: task.name,
    queue,
    priority,
    input: text,
    maxAttempts: (terms.retry ?? retryOf(task, queue, context.queueTerms)).attempts,
    runAtMs: options.runAt === undefined ? null : dateMs(options.runAt, 'runAt'),
    ...(options.delay !== undefined && { delayUs: delayUs(options.delay, context.clock.now()) }),
    expiresAtMs: options.expiresAt === undefined ? null : dateMs(options.expiresAt, 'expiresAt'),
    unique,
    extra: extraText(options, terms, toCarry(carried), unique?.withinUs ?? null),
    ...(terms.timeoutMs !== null && { terms: { ...NO_TERMS, timeoutUs: terms.timeoutMs * 1000 } }),
    ...fairnessOfJob(task.fairness, options, output, task.name),
    // The last check: a refused call defines no limit.
    uses: context.limits.resolve(specs, output, { weight, priority }, task.name),
  }
}

function dateMs(date: Date, what: string): number {
  const ms = date instanceof Date ? date.getTime() : Number.NaN
  if (Number.isNaN(ms))
    throw new SluiceError('delay.invalid', `${what} is invalid: ${show(date)}. Expected a valid Date.`)
  return checkInstant(ms, what)
}

function delayUs(delay: Duration, nowMs: number): number {
  const us = durationUs(delay, 'delay')
  checkInstant(nowMs + us / 1000, 'The end of delay')
  return us
}

function extraText(
  { meta, tags }: EnqueueOptions<never>,
  { retry, timeoutMs }: TermsOfCall,
  trace: Carried | null,
  keyUs: number | null,
): string | null {
  if (!meta && !tags && !trace && !retry && timeoutMs === null && keyUs === null) return null
  const extra: JobExtra = {
    ...(meta && { meta }),
    ...(tags && { tags }),
    ...(trace && { trace }),
    ...(retry && { retry: { ...retry, nonRetryable: [] } }),
    ...(timeoutMs !== null && { timeoutMs }),
    ...(keyUs !== null && { keyMs: keyUs / 1000 }),
  }
  return toJsonText(extra, 'meta and tags')
}
