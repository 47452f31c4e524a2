import type { Key } from './key-path.ts'
import type { LimitPolicy } from './limit.ts'

/** Finds the key of a use. */
export type KeySource<I> =
  | { readonly kind: 'none' }
  | { readonly kind: 'fn'; readonly fn: (input: I) => Key | null | undefined }
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'value'; readonly value: Key }

/** Units that one start costs: a number, or a function of the input; undefined: the job's weight, or 1. */
export type Weight<I> = number | ((input: I) => number) | undefined

/** The terms of one use of a limit. */
export interface UseSpec<in I> {
  /** The limit's name. */
  readonly limit: string
  /** The limit's policy, as defined where the use was made. */
  readonly policy: LimitPolicy
  /** The policy if it is written inline, which belongs to its task alone; null for a named limit. */
  readonly inline: LimitPolicy | null
  readonly key: KeySource<I>
  readonly weight: Weight<I>
  /** The use of the common limit that each start pays to as well; absent: there is none. */
  readonly common?: UseSpec<never>
}

/** Marks a use of a limit, of any copy of this package. */
export const USE: unique symbol = Symbol.for('sluice.limit.use')

/** One limit as it applies to an input of type I. Opaque: it shares no property name with a policy, so inline policies keep their contextual types. */
export interface LimitUse<in I> {
  readonly [USE]: UseSpec<I>
}
