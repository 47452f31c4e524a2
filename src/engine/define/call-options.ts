import { durationMs } from '../../base/duration.ts'
import { type ErrorCode, SluiceError } from '../../base/errors.ts'
import { checkOptions, ownNames, quote, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { type RetryPolicy, retryPolicy } from '../../jobs/retry-policy.ts'
import { checkUnits } from '../../policy/limits/define.ts'
import type { EnqueueOptions, OptionsOf, TaskDefinition } from './task.ts'

/** Options of a task, or with another name in a call. */
export const CALL_ALIASES: Readonly<Record<string, string>> = {
  in: 'delay',
  at: 'runAt',
  limit: 'limits',
  key: 'unique',
  attempts: 'retry',
  retries: 'retry',
  backoff: 'retry',
}
const QUEUE = /^[a-z0-9][a-z0-9.-]*$/
const OPTIONS = [
  'delay',
  'runAt',
  'expiresAt',
  'queue',
  'priority',
  'weight',
  'unique',
  'timeout',
  'retry',
  'limits',
  'fairKey',
  'share',
  'meta',
  'tags',
  'tx',
] as const

/** Of a call in a flow: its job is stored with the flow, and the flow itself calls it once. */
export const CALL_OPTIONS: readonly string[] = OPTIONS.filter((name) => name !== 'unique' && name !== 'tx')

/** Checks the options of a call. @throws {SluiceError} `option.invalid`, `priority.invalid`, `delay.invalid` */
export function checkCall(options: EnqueueOptions<never>, task: string): void {
  checkOptions(options, OPTIONS, `enqueue of ${task}`, { aliases: CALL_ALIASES })
  const { priority, delay, runAt, weight, share, meta, tags } = options
  if (priority !== undefined) checkPriority(priority, `a ${task} job`)
  if (delay !== undefined && runAt !== undefined)
    throw new SluiceError(
      'delay.invalid',
      `enqueue of ${task}: delay and runAt exclude each other. Expected one of them.`,
    )
  if (weight !== undefined) checkUnits(weight, `enqueue of ${task}`)
  if (share !== undefined && typeof share !== 'number')
    throw new SluiceError(
      'fairness.invalid',
      `enqueue of ${task}: share is invalid: ${show(share)}. Expected a whole number.`,
    )
  checkMeta(meta, `enqueue of ${task}`)
  if (tags !== undefined && !(Array.isArray(tags) && tags.every((tag) => typeof tag === 'string')))
    throw new SluiceError(
      'option.invalid',
      `enqueue of ${task}: tags is invalid: ${show(tags)}. Expected a list of texts.`,
    )
}

/**
 * The options of each of many calls. A function of the caller gives them one by one, before anything is stored.
 * @throws {SluiceError} `option.invalid` for calls with different `tx`, and for what `checkCall` refuses of the others
 */
export function optionsOfCalls(
  task: TaskDefinition,
  inputs: readonly unknown[],
  options: EnqueueOptions<never> | OptionsOf<never, never>,
): readonly EnqueueOptions<never>[] {
  if (typeof options !== 'function') {
    // An enqueue checks the contents call by call, within its span.
    if (inputs.length === 0 || typeof options !== 'object' || options === null) checkCall(options, task.name)
    return inputs.map(() => options)
  }
  const all = inputs.map((input, index) => options(input as never, index))
  for (const each of all) checkCall(each, task.name)
  if (all.some(({ tx }) => tx !== all[0]?.tx))
    throw new SluiceError(
      'option.invalid',
      `enqueueMany of ${task.name}: the calls have different tx. Expected one for all, since they are stored together.`,
    )
  return all
}

/** The retry policy and the timeout of a call; null: that of its task. */
export interface TermsOfCall {
  readonly retry: RetryPolicy | null
  readonly timeoutMs: number | null
}

const OF_TASK: TermsOfCall = { retry: null, timeoutMs: null }

/** Reads the retry policy and the timeout of a call. @throws {SluiceError} `retry.invalid`, `duration.invalid` */
export function termsOfCall({ retry, timeout }: EnqueueOptions<never>, task: string): TermsOfCall {
  if (retry === undefined && timeout === undefined) return OF_TASK
  return {
    retry: retry === undefined ? null : retryPolicy(retry, `retry of a call of task ${task}`),
    timeoutMs: timeout === undefined ? null : durationMs(timeout, `timeout of a call of task ${task}`),
  }
}

/** Checks the notes of a job or a flow. @throws {SluiceError} `option.invalid` */
export function checkMeta(meta: unknown, what: string, code: ErrorCode = 'option.invalid'): void {
  if (meta === undefined || ownNames(meta) !== null) return
  throw new SluiceError(code, `${what}: meta is invalid: ${show(meta)}. Expected an object.`)
}

/** Checks the name of a queue. @throws {SluiceError} `queue.invalid` */
export function checkQueue(queue: string): string {
  if (typeof queue === 'string' && queue.length <= 128 && QUEUE.test(queue)) return queue
  throw new SluiceError(
    'queue.invalid',
    `The queue name is invalid: ${quote(queue)}. Expected at most 128 lower case letters, digits, dots and hyphens, such as mail-high.`,
  )
}
