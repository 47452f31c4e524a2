/** The verbs of a limiter that look at buckets and change limits. */
import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { storableText } from '../../base/text.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import { partitionKey } from '../../policy/limits/partition-key.ts'
import type { BucketReport, ChangeRequest } from '../contract/limiter.ts'

/** Which buckets a change concerns, until when, by whom and why. */
export interface ChangeOptions {
  /** One partition key; default: all keys. */
  key?: Key
  /** It ends by itself after this time, or at this instant; default: it does not. */
  until?: Duration | Date
  /** The author: at most 255 characters. */
  by?: string
  /** The reason: at most 1,000 characters. */
  reason?: string
}

/** The present state of one bucket. */
export interface LimiterBucket {
  readonly limit: string
  /** Null: the one bucket of a limit without keys. */
  readonly key: string | null
  /** Units that could start now. */
  readonly available: number
  /** Units owed beyond the budget. */
  readonly debt: number
  /** Burst, max, or permits. */
  readonly capacity: number
  /** Permits held. */
  readonly active: number
  /** When one unit may start; null: a permit must return. */
  readonly nextStart: Date | null
  /** Until when a refusal closed it; null: it is open. */
  readonly closedUntil: Date | null
  /** The policy in force, overrides and pauses included. */
  readonly policy: LimitPolicy
  /** Calls of this process that wait, for any bucket. */
  readonly waiting: number
  /** Starts that went on without a budget, since the backend could not be reached. */
  readonly grantedBlindly: number
}

/** The view of a bucket. */
export function bucketView(
  { limit, key }: { readonly limit: string; readonly key: string },
  report: BucketReport,
  clock: Clock,
  counts: Pick<LimiterBucket, 'waiting' | 'grantedBlindly'>,
): LimiterBucket {
  const { available, debt, capacity, active, nextInUs, closedForUs, policy } = report
  const at = (us: number): Date => new Date(clock.now() + us / 1000)
  return {
    limit,
    key: key === '' ? null : key,
    available,
    debt,
    capacity,
    active,
    nextStart: nextInUs === null ? null : at(nextInUs),
    closedUntil: closedForUs === 0 ? null : at(closedForUs),
    policy,
    ...counts,
  }
}

/** The change that a call asks for. @throws {SluiceError} `option.invalid`, `limit.key.invalid`, `duration.invalid` */
export function changeOf(
  kind: 'override' | 'pause',
  limit: Limit | string,
  change: PolicyChange | null,
  options: ChangeOptions,
  clock: Clock,
): ChangeRequest {
  checkOptions(options, ['key', 'until', 'by', 'reason'], `the ${kind}`)
  const name: unknown = typeof limit === 'object' && limit !== null ? limit.name : limit
  if (typeof name !== 'string')
    throw new SluiceError(
      'option.invalid',
      `A limit is invalid: ${show(limit)}. Expected its name, or the limit itself.`,
    )
  const found = options.key === undefined ? null : partitionKey(options.key, 'shared', `limit ${name}`)
  return {
    kind,
    limit: name,
    key: found?.kind === 'key' ? found.key : null,
    change,
    forUs: options.until === undefined ? null : untilOf(options.until, clock),
    by: textOf(options.by, 'by', 255),
    reason: textOf(options.reason, 'reason', 1000),
  }
}

function untilOf(until: Duration | Date, clock: Clock): number {
  const forUs = until instanceof Date ? Math.round((until.getTime() - clock.now()) * 1000) : durationUs(until, 'until')
  if (forUs > 0) return forUs
  throw new SluiceError('option.invalid', `until is invalid: ${show(until)}. Expected a future time.`)
}

function textOf(text: unknown, name: string, most: number): string | null {
  if (text === undefined) return null
  if (typeof text === 'string' && text.length <= most) return storableText(text)
  throw new SluiceError('option.invalid', `${name} is invalid. Expected a text of at most ${most} characters.`)
}
