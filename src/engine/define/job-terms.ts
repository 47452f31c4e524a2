import { type Duration, durationMs, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { type RetryOptions, type RetryPolicy, retryPolicy } from '../../jobs/retry-policy.ts'

/** How long jobs are kept once they have ended. */
export interface KeepOptions {
  /** 0: the end of the run deletes the job. Only callers of `result()` that wait in its process get its result. */
  completed?: Duration
  cancelled?: Duration
  discarded?: Duration
}

/** The same of a task, and how many of them. */
export interface KeepOfTask extends KeepOptions {
  /** The newest so many ended jobs of the task; 0 to 100,000. Default: any number. */
  count?: number
}

/** The terms that a queue gives to jobs whose task and call have none of their own. */
export interface QueueDefaults {
  /** The time of each attempt. */
  timeout?: Duration
  retry?: RetryOptions
  retention?: KeepOptions
}

/** Times that ended jobs are kept, in µs; absent: as the queue or the store says. */
export interface KeptTimes {
  readonly completedUs?: number
  readonly cancelledUs?: number
  readonly discardedUs?: number
  /** How many of the newest are kept; absent: any number. */
  readonly count?: number
}

/** The checked terms of a queue. */
export interface QueueTerms {
  readonly timeoutMs: number | null
  readonly retry: RetryPolicy | null
  readonly kept: KeptTimes
}

/** The terms of queues by name. */
export type TermsOfQueues = ReadonlyMap<string, QueueTerms>

/** The terms of a task. */
interface OwnTerms {
  readonly retry: RetryPolicy
  readonly retryIsDefault?: boolean
  readonly timeoutMs: number | null
  readonly kept?: KeptTimes
}

const TIMES = ['completed', 'cancelled', 'discarded'] as const
const MOST_KEPT = 100_000

/** Checks how long jobs are kept. @throws {SluiceError} `option.invalid`, `duration.invalid` */
export function keptOf(options: KeepOfTask | undefined, what: string, hasCount: boolean): KeptTimes {
  if (options === undefined) return {}
  checkOptions(options, hasCount ? [...TIMES, 'count'] : TIMES, what, {
    aliases: { max: 'count', failed: 'discarded' },
  })
  const { count } = options
  if (count !== undefined && !(Number.isInteger(count) && count >= 0 && count <= MOST_KEPT))
    throw new SluiceError(
      'option.invalid',
      `${what}: count is invalid: ${show(count)}. Expected a whole number from 0 to 100,000.`,
    )
  const times = TIMES.flatMap((name) => {
    const time = options[name]
    return time === undefined ? [] : [[`${name}Us`, durationUs(time, `${what}: ${name}`)] as const]
  })
  return { ...(Object.fromEntries(times) as KeptTimes), ...(count !== undefined && { count }) }
}

/** Checks the terms of a queue. @throws {SluiceError} `option.invalid`, `duration.invalid`, `retry.invalid` */
export function queueTerms({ timeout, retry, retention }: QueueDefaults, queue: string): QueueTerms {
  const what = `queues.${queue}`
  return {
    timeoutMs: timeout === undefined ? null : durationMs(timeout, `${what}.timeout`),
    retry: retry === undefined ? null : retryPolicy(retry, `${what}.retry`),
    kept: keptOf(retention, `${what}.retention`, false),
  }
}

/** The retry policy of a job whose call gave none: its task's own, its queue's, or the default. */
export function retryOf(
  task: Pick<OwnTerms, 'retry' | 'retryIsDefault'>,
  queue: string,
  queues: TermsOfQueues,
): RetryPolicy {
  return (task.retryIsDefault && queues.get(queue)?.retry) || task.retry
}

/** The timeout of a job whose call gave none, in ms; null: it has none. */
export function timeoutOf(task: Pick<OwnTerms, 'timeoutMs'>, queue: string, queues: TermsOfQueues): number | null {
  return task.timeoutMs ?? queues.get(queue)?.timeoutMs ?? null
}

/** How long an ended job is kept: each time is its task's own, or its queue's. */
export function keptFor(task: Pick<OwnTerms, 'kept'>, queue: string, queues: TermsOfQueues): KeptTimes {
  return { ...queues.get(queue)?.kept, ...task.kept }
}
