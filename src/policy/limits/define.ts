import { SluiceError } from '../../base/errors.ts'
import { checkOptions, quote, show } from '../../base/options.ts'
import { isName, LONGEST_NAME } from '../../base/text.ts'
import type { AtPath, Key, KeyPath } from './key-path.ts'
import type { LimitPolicy } from './limit.ts'
import { type KeySource, type LimitUse, USE, type UseSpec, type Weight } from './limit-use.ts'
import { guaranteeOf } from './read-guarantee.ts'
import { MAX_UNITS, normalisePolicy } from './normalise.ts'
import { isPath } from './partition-key.ts'
import type { Policy } from './policy.ts'

/** A named limit. Without `by` it is one budget for all jobs. */
export interface Limit<N extends string = string> extends LimitUse<unknown> {
  readonly name: N
  /**
   * Splits the budget by a key of the input. For `null` and `''` the limit does not apply; `undefined` fails with
   * `limit.key.missing`. `onMissingKey` changes both.
   */
  by<I>(key: (input: I) => Key | null | undefined, options?: { weight?: number | ((input: I) => number) }): LimitUse<I>
  /**
   * Splits the budget by the value at a path of the input, as in `'config.provider'`: where the key must be data. A
   * path that is not there is refused with `limit.key.missing`, unless `onMissingKey` says otherwise.
   */
  by<const P extends string, I extends AtPath<P> | void = AtPath<P> | void>(
    path: P,
    options?: { weight?: number | ((input: I) => number) },
  ): LimitUse<I>
  /** The budget of one key. */
  key(value: Key, options?: { weight?: number }): LimitUse<unknown>
  /** One budget for all, with the units that each start costs. */
  weight(units: number): LimitUse<unknown>
}

/** A policy written where it is used, which belongs to that task alone: an object, or a text such as `'100/m'`. */
export type InlineLimit<I> =
  | string
  | (Policy & {
      by?: ((input: I) => Key | null | undefined) | KeyPath<I>
      weight?: number | ((input: I) => number)
    })

/**
 * Defines a limit: a policy under a name. It holds no state; the same name is the same budget everywhere.
 *
 * @param name 1 to 255 characters, without NUL and half surrogate pairs.
 * @param policy an object such as `{ rate: 100, per: '1m' }`, or a text such as `'100/m'`.
 * @throws {SluiceError} `policy.invalid` for an invalid policy or name
 * @throws {SluiceError} `limit.weight.invalid`, `limit.key.invalid` from its uses
 */
export function limit<const N extends string>(name: N, policy: Policy | string): Limit<N> {
  checkName(name)
  const what = `limit ${name}`
  const { policy: normalised, ...common } = readPolicy(policy, name, what)
  // Not frozen, which would take most of the time of a call.
  const use = <I>(key: KeySource<I>, weight: Weight<I>): LimitUse<I> => ({
    [USE]: { limit: name, policy: normalised, inline: null, key, weight: checkWeight(weight, what), ...common },
  })
  const keyed = (value: Key, options?: { weight?: number }): LimitUse<unknown> =>
    use(
      { kind: 'value', value: checkKey(value, what) },
      options && constant(weightIn(options, `${what}: .key()`), what),
    )
  // Calls for one key often follow each other.
  let last: LimitUse<unknown> | null = null
  let lastKey: Key | null = null
  return Object.freeze({
    name,
    ...use<unknown>({ kind: 'none' }, undefined),
    by: <I>(key: string | ((input: I) => Key | null | undefined), options?: { weight?: Weight<I> }): LimitUse<I> =>
      use<I>(keySource(key, what), weightIn(options, `${what}: .by()`)),
    key(value: Key, options?: { weight?: number }): LimitUse<unknown> {
      if (options !== undefined) return keyed(value, options)
      if (last !== null && value === lastKey) return last
      last = keyed(value)
      lastKey = value
      return last
    },
    weight: (units: number): LimitUse<unknown> => use({ kind: 'none' }, checkUnits(units, what)),
  })
}

export type { LimitUse, UseSpec } from './limit-use.ts'

/** Whether a value is a limit or a use of one, from any copy of this package. An inline policy is neither. */
export function isLimitUse(value: unknown): value is LimitUse<never> {
  return typeof value === 'object' && value !== null && USE in value
}

/** Reads a caller's list of limits and of uses of limits. @throws {SluiceError} `option.invalid` */
export function checkLimits(limits: unknown, what: string): readonly LimitUse<never>[] {
  if (!Array.isArray(limits)) throw notAList(limits, what)
  return (limits as readonly unknown[]).map((each) => {
    if (isLimitUse(each)) return each
    throw notALimit(each, what)
  })
}

/** The refusal of limits that are not a list, such as a single one. */
export function notAList(limits: unknown, what: string): SluiceError {
  return new SluiceError('option.invalid', `${what} is invalid: ${show(limits)}. Expected a list, such as [crm].`)
}

/** The refusal of a value in a list of limits. */
export function notALimit(value: unknown, what: string): SluiceError {
  return new SluiceError(
    'option.invalid',
    `${what} has an invalid limit: ${show(value)}. Expected the result of limit(name, policy).`,
  )
}

/** Reads the terms of a use of a limit. */
export function useOf<I>(use: LimitUse<I>): UseSpec<I> {
  return use[USE]
}

/**
 * Reads an inline policy under the name that its task gives it.
 *
 * @throws {SluiceError} `policy.invalid`, `limit.key.invalid`, `limit.weight.invalid`
 */
export function inlineUse<I>(inline: InlineLimit<I>, name: string): UseSpec<I> {
  checkName(name)
  const what = `limit ${name}`
  // A policy that is none is refused as one.
  const isObject = typeof inline === 'object' && inline !== null && !Array.isArray(inline)
  const { by, weight, ...rest } = isObject ? inline : {}
  const policy = isObject ? (rest as Policy) : inline
  const { policy: normalised, ...common } = readPolicy(policy, name, what)
  return {
    limit: name,
    policy: normalised,
    inline: normalised,
    key: by === undefined ? { kind: 'none' } : keySource(by, what),
    weight: checkWeight(weight, what),
    ...common,
  }
}

/** Reads a policy, and the use of the common limit that it names. */
function readPolicy(
  given: Policy | string,
  name: string,
  what: string,
): { policy: LimitPolicy; common?: UseSpec<never> } {
  if (typeof given !== 'object' || given === null || given.of === undefined)
    return { policy: normalisePolicy(given, what) }
  const { of, ...rest } = given
  const own = normalisePolicy(rest, what)
  const common = commonUse(of, what)
  return { policy: { ...own, of: guaranteeOf(of, { name, policy: own }, common, what) }, common }
}

function commonUse(of: unknown, what: string): UseSpec<never> {
  const { limit: use } = typeof of === 'object' && of !== null ? (of as { limit?: unknown }) : {}
  if (isLimitUse(use)) return useOf(use)
  throw new SluiceError(
    'policy.invalid',
    `${what}: of.limit is invalid: ${show(use)}. Expected a limit, such as { limit: outbound, atLeast: '5/s' }.`,
  )
}

/**
 * Checks the units that a start costs: a whole number from 1 to 1,000,000,000.
 *
 * @throws {SluiceError} `limit.weight.invalid`
 */
export function checkUnits(units: unknown, what: string): number {
  if (typeof units === 'number' && Number.isInteger(units) && units >= 1 && units <= MAX_UNITS) return units
  const shown = typeof units === 'number' ? String(units) : `a ${typeof units}`
  throw new SluiceError(
    'limit.weight.invalid',
    `${what}: the weight is invalid: ${shown}. Expected a whole number from 1 to ${MAX_UNITS}.`,
  )
}

function weightIn<I>(options: { weight?: Weight<I> } | undefined, what: string): Weight<I> {
  if (options !== undefined) checkOptions(options, ['weight'], what)
  return options?.weight
}

/** The use of one key knows no input that a function could read. */
function constant(weight: Weight<unknown>, what: string): Weight<unknown> {
  return weight === undefined ? undefined : checkUnits(weight, what)
}

function checkWeight<I>(weight: Weight<I>, what: string): Weight<I> {
  if (weight !== undefined && typeof weight !== 'function') checkUnits(weight, what)
  return weight
}

function checkName(name: unknown): void {
  if (isName(name)) return
  throw new SluiceError(
    'policy.invalid',
    `the name of a limit is invalid: ${quote(name)}. Expected 1 to ${LONGEST_NAME} characters, without NUL and half surrogate pairs.`,
  )
}

function checkKey(value: unknown, what: string): Key {
  if ((typeof value === 'string' && value !== '') || (typeof value === 'number' && Number.isFinite(value))) return value
  const shown = typeof value === 'number' || value === '' ? `'${value}'` : typeof value
  throw new SluiceError(
    'limit.key.invalid',
    `${what}: the argument of .key() is invalid: ${shown}. Expected a non-empty string, or a number.`,
  )
}

function keySource<I>(by: unknown, what: string): KeySource<I> {
  if (typeof by === 'function') return { kind: 'fn', fn: by as (input: I) => Key | null | undefined }
  if (isPath(by)) return { kind: 'path', path: by }
  throw new SluiceError(
    'limit.key.invalid',
    `${what}: by is invalid: ${show(by)}. Expected a function of the input, or a path like 'a.b'.`,
  )
}
