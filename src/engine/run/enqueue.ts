import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { toJsonText } from '../../base/json-value.ts'
import type { NewJob } from '../../jobs/job.ts'
import { validate } from '../../jobs/schema.ts'
import { uniqueKey } from '../../jobs/unique-key.ts'
import { checkCall, checkQueue } from '../define/call-options.ts'
import { fairnessOfJob } from '../define/fairness.ts'
import { type Carried, toCarry } from '../events/instrumentation.ts'
import { type LimitRegistry, specsOf } from '../define/limit-registry.ts'
import type { QueueLimits } from '../define/queue-limits.ts'
import type { EnqueueOptions, TaskDefinition } from '../define/task.ts'

/** The engine's parts that turn a call into a stored job. */
export interface EnqueueContext {
  readonly newId: () => string
  readonly clock: Clock
  readonly limits: LimitRegistry
  readonly queueLimits: QueueLimits
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
  return {
    id: context.newId(),
    task: task.name,
    queue,
    priority,
    input: text,
    uses: context.limits.resolve(more.length > 0 ? [...own, ...more] : own, output, { weight, priority }, task.name),
    maxAttempts: task.retry.attempts,
    runAtMs: options.runAt === undefined ? null : dateMs(options.runAt, 'runAt'),
    ...(options.delay !== undefined && { delayUs: delayUs(options.delay, context.clock.now()) }),
    expiresAtMs: options.expiresAt === undefined ? null : dateMs(options.expiresAt, 'expiresAt'),
    unique: uniqueKey(options.unique, output as never, task.name),
    extra: extraText(options, toCarry(carried)),
    ...fairnessOfJob(task.fairness, options, output, task.name),
  }
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
