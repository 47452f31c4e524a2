import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { isLimitUse, type Limit, type LimitUse, useOf, type UseSpec, notAList } from '../../policy/limits/define.ts'
import { isPath, readPath } from '../../policy/limits/partition-key.ts'

type Scalar = string | number | boolean
type Down = [never, 0, 1, 2, 3, 4]

/** The dot-paths of T that end at a text, a number or a boolean (or at V alone), to a depth of five. */
export type Path<T, V = Scalar, D extends number = 5> = [D] extends [never]
  ? never
  : {
      [K in keyof T & string]: NonNullable<T[K]> extends Scalar
        ? NonNullable<T[K]> extends V
          ? K
          : never
        : NonNullable<T[K]> extends readonly unknown[]
          ? never
          : NonNullable<T[K]> extends object
            ? `${K}.${Path<NonNullable<T[K]>, V, Down[D]>}`
            : never
    }[keyof T & string]

/** A limit whose key is a path, as data: it can be written in JSON, and shown without the code. */
export interface KeyedByPath<S> {
  readonly limit: Limit
  readonly by: Path<S>
  /** Units: a number, or the path of one; default 1. */
  readonly weight?: number | Path<S, number>
}

/**
 * A limit whose key is computed, as `limit.by(fn)`. In the limits of a machine the type of the state is known here, where
 * the function of `limit.by(fn)` needs an annotation.
 */
export interface KeyedByFunction<S> {
  readonly limit: Limit
  readonly by: (state: S) => string | number | null | undefined
  /** Units: a number, or a function of the state; default 1. */
  readonly weight?: number | ((state: S) => number)
}

/** A limit of a step: one budget for all, `limit.by(fn)`, `limit.key(value)`, or a limit keyed by a path or a function. */
export type StepLimit<S> = LimitUse<S> | KeyedByPath<S> | KeyedByFunction<S>

/** Reads the limits of a step. @throws {SluiceError} `option.invalid` */
export function stepUses(limits: readonly StepLimit<never>[] | undefined, what: string): readonly UseSpec<never>[] {
  if (limits === undefined) return []
  if (!Array.isArray(limits)) throw notAList(limits, what)
  return limits.map((each) => (isLimitUse(each) ? useOf(each) : keyed(each as KeyedByFunction<unknown>, what)))
}

function keyed(given: KeyedByFunction<unknown> | KeyedByPath<unknown>, what: string): UseSpec<never> {
  checkOptions(given, ['limit', 'by', 'weight'], `a limit of ${what}`)
  const limit: unknown = given.limit
  const by: unknown = given.by
  const weight: unknown = given.weight
  if (!isLimitUse(limit) || !(isPath(by) || typeof by === 'function'))
    throw new SluiceError(
      'option.invalid',
      `${what} has an invalid limit: ${show(given)}. Expected the result of limit(name, policy), or { limit, by } with a path or a function.`,
    )
  const units = typeof weight === 'string' ? (input: unknown): number => readPath(input, weight) as number : weight
  const key = isPath(by) ? (input: unknown): string | number | null | undefined => keyAt(input, by) : by
  return useOf((limit as Limit).by(key as never, units === undefined ? {} : { weight: units as number }))
}

function keyAt(input: unknown, path: string): string | number | null | undefined {
  const value = readPath(input, path)
  return typeof value === 'boolean' ? String(value) : (value as string | number | null | undefined)
}
