/** The rarer verbs of a limiter: views of buckets, changes of limits, and refusals of their arguments. */
import type { Clock } from '../../base/clock.ts'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkRemark, keyOf, lengthUsOf, nameOf, type Remark } from '../../policy/limits/change-terms.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { MAX_UNITS } from '../../policy/limits/normalise.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import type { BucketReport, ChangeRequest } from '../contract/limiter.ts'
import { GrantedStart, type StartOwner } from './permit.ts'
import { unknown } from './waiter.ts'

/** Which buckets a change concerns, until when, by whom and why. */
export interface ChangeOptions extends Remark {
  /** One partition key; default: all keys. */
  key?: Key
  /** It ends by itself after this time, or at this instant; default: it does not. */
  until?: Duration | Date
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

/** The view of a bucket. @throws {SluiceError} `limit.unknown` */
export function bucketView(
  { limit, key }: { readonly limit: string; readonly key: string },
  report: BucketReport | null,
  clock: Clock,
  counts: Pick<LimiterBucket, 'waiting' | 'grantedBlindly'>,
): LimiterBucket {
  if (!report) throw unknown(limit)
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
  checkOptions(options, ['key', ...(change === null ? [] : ['until']), 'by', 'reason'], `the ${kind}`)
  const { key, until } = options
  const name = nameOf(limit)
  const forUs = until === undefined ? null : lengthUsOf(until, clock)
  return { kind, limit: name, key: keyOf(key, name), change, forUs, ...checkRemark(options) }
}

/** Checks the units of a charge. @throws {SluiceError} `limit.weight.invalid`, `option.invalid` */
export function checkCharged(units: number, permit: unknown, owner: StartOwner): void {
  if (permit !== undefined && !(permit instanceof GrantedStart && permit.isOf(owner)))
    throw new SluiceError('option.invalid', `permit of limiter.charge is invalid: ${notOwn(permit)}`)
  if (permit === undefined && units < 0)
    throw new SluiceError('option.invalid', 'limiter.charge needs the permit of the start whose units return.')
  if (!Number.isSafeInteger(units) || Math.abs(units) > MAX_UNITS)
    throw new SluiceError(
      'limit.weight.invalid',
      `The units of a charge are invalid: ${show(units)}. Expected a whole number of at most ${MAX_UNITS}.`,
    )
}

/** The refusal of a permit that is none, that was used, or that is of other limits. */
export function notUnused(permit: unknown, owner: StartOwner): SluiceError {
  let found = notOwn(permit)
  if (permit instanceof GrantedStart && permit.isOf(owner))
    found = permit.isUsed
      ? 'it was released, or another run has used it. Expected one start for each run.'
      : `it is of ${permit.uses.map(({ limit, key }) => `${limit} ${key}`.trim()).join(', ')}. Expected all units of the run.`
  return new SluiceError('option.invalid', `permit of limiter.run is invalid: ${found}`)
}

function notOwn(permit: unknown): string {
  return permit instanceof GrantedStart
    ? 'it is of another limiter. Expected one that this limiter granted.'
    : `${show(permit)}. Expected a permit.`
}
