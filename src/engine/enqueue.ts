import { type Duration, durationUs } from '../base/duration.ts'
import { type ErrorCode, SluiceError } from '../base/errors.ts'
import { checkOptions, quote, show } from '../base/options.ts'
import { checkInstant } from '../base/instant.ts'
import { toJsonText } from '../base/json-value.ts'
import type { NewJob } from '../jobs/job.ts'
import { validate } from '../jobs/schema.ts'
import { uniqueKey } from '../jobs/unique-key.ts'
import { checkUnits, type UseSpec } from '../policy/define-limit.ts'
import { fairnessOfJob } from './fairness.ts'
import { type Carried, toCarry } from './instrumentation.ts'
import { type LimitRegistry, specsOf } from './limit-registry.ts'
import type { EnqueueOptions, TaskDefinition } from './task.ts'

/** What turning a call into a stored job needs of its engine. */
export interface EnqueueContext {
  readonly newId: () => string
  /** Wall clock, epoch ms. */
  readonly nowMs: () => number
  readonly limits: LimitRegistry
  /** Limits of a queue whose keys hang on the job: they count as the job's own. */
  readonly queueUses: (queue: string) => readonly UseSpec<never>[]
}

/** Of a task, not of a call; or under another name. */
const MEANT = { in: 'delay', at: 'runAt', limit: 'limits', key: 'unique' }
const QUEUE = /^[a-z0-9][a-z0-9.-]*$/
const OPTIONS = [
  'delay',
  'runAt',
  'expiresAt',
  'queue',
  'priority',
  'weight',
  'unique',
  'limits',
  'fairKey',
  'share',
  'meta',
  'tags',
  'tx',
] as const

/**
 * Checks one call and turns it into a job: everything that can be refused is refused here, before anything is written.
 * Answers at once when the schema does.
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

/** Refuses a name that is no queue's. @throws queue.invalid */
export function checkQueue(queue: string): string {
  if (typeof queue === 'string' && queue.length <= 128 && QUEUE.test(queue)) return queue
  throw new SluiceError(
    'queue.invalid',
    `${quote(queue)} is no queue name; write at most 128 lower case letters, digits, dots and hyphens, as mail-high`,
  )
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
  const more = context.queueUses(queue)
  const { priority = 0, weight } = options
  return {
    id: context.newId(),
    task: task.name,
    queue,
    priority,
    input: text,
    uses: context.limits.resolve(more.length > 0 ? [...own, ...more] : own, output, { weight, priority }, task.name),
    maxAttempts: task.retry.attempts,
    runAtMs: options.runAt === undefined ? null : dateMs(options.runAt, 'runAt'),
    ...(options.delay !== undefined && { delayUs: delayUs(options.delay, context.nowMs()) }),
    expiresAtMs: options.expiresAt === undefined ? null : dateMs(options.expiresAt, 'expiresAt'),
    unique: uniqueKey(options.unique, output as never, task.name),
    extra: extraText(options, toCarry(carried)),
    ...fairnessOfJob(task.fairness, options, output, task.name),
  }
}

/** Checks the options of a call. @throws option.invalid, priority.invalid, delay.invalid */
export function checkCall(options: EnqueueOptions<never>, task: string): void {
  checkOptions(options, OPTIONS, `enqueue of ${task}`, { meant: MEANT })
  const { priority, delay, runAt, weight, share, meta, tags } = options
  if (priority !== undefined && !(Number.isInteger(priority) && priority >= -100 && priority <= 100))
    throw new SluiceError(
      'priority.invalid',
      `The priority of a ${task} job is ${show(priority)}; give a whole number from -100 to 100, higher goes first`,
    )
  if (delay !== undefined && runAt !== undefined)
    throw new SluiceError('delay.invalid', `enqueue of ${task} got both delay and runAt; give one`)
  if (weight !== undefined) checkUnits(weight, `enqueue of ${task}`)
  if (share !== undefined && typeof share !== 'number')
    throw new SluiceError('fairness.invalid', `enqueue of ${task}: share is ${show(share)}; give a whole number`)
  checkMeta(meta, `enqueue of ${task}`)
  if (tags !== undefined && !(Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')))
    throw new SluiceError('option.invalid', `enqueue of ${task}: tags has to be a list of texts`)
}

/** Checks what callers note on a job or a flow. @throws option.invalid */
export function checkMeta(meta: unknown, what: string, code: ErrorCode = 'option.invalid'): void {
  if (meta === undefined || (typeof meta === 'object' && meta !== null && !Array.isArray(meta))) return
  throw new SluiceError(code, `${what}: meta is ${show(meta)}; give an object`)
}

function dateMs(date: Date, what: string): number {
  const ms = date instanceof Date ? date.getTime() : Number.NaN
  if (Number.isNaN(ms)) throw new SluiceError('delay.invalid', `${what} is no valid Date`)
  return checkInstant(ms, what)
}

function delayUs(delay: Duration, nowMs: number): number {
  const us = durationUs(delay, 'delay')
  checkInstant(nowMs + us / 1000, 'The end of delay')
  return us
}

function extraText({ meta, tags }: EnqueueOptions<never>, trace: Carried | null): string | null {
  if (!meta && !tags && !trace) return null
  return toJsonText({ ...(meta && { meta }), ...(tags && { tags }), ...(trace && { trace }) }, 'meta and tags')
}

/** The refusal of a job whose unique key another one holds. */
export function uniqueConflict(job: NewJob, holder: string): SluiceError {
  return new SluiceError(
    'unique.conflict',
    `The unique key of this ${job.task} job is held by the job ${holder}: nothing was enqueued for it.`,
  )
}
