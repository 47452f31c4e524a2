/** A partition key: the value that splits a limit into separate budgets; 42 and '42' are one. */
export type Key = string | number

/**
 * The inputs in which a path may lead to a key, as `AtPath<'config.provider'>`: every name of it is a property that the input's type
 * knows. Each may be absent; what that means is said by `onMissingKey`. A path that is not known when the code is compiled fits any input.
 */
export type AtPath<P extends string> = string extends P
  ? unknown
  : P extends `${infer Name}.${infer Rest}`
    ? With<Name, AtPath<Rest>>
    : With<P, Key>

type With<Name extends string, V> = Name extends `${number}`
  ? readonly (V | null | undefined)[] | { readonly [N in Name]?: V | null | undefined }
  : { readonly [N in Name]?: V | null | undefined }

/** The paths of an input that lead to a key, as `'config.provider'` or `'items.0.id'`; any text where the input's type is not known, as of a task without one. */
export type KeyPath<I> = unknown extends I ? string : [I] extends [void] ? string : PathOf<I, [1, 1, 1, 1, 1, 1]>

/** At most so many names deep as `Left` is long: a type may hold itself. */
type PathOf<I, Left extends readonly unknown[]> = Left extends readonly [unknown, ...infer Less]
  ? I extends (...args: never) => unknown
    ? never
    : I extends readonly (infer E)[]
      ? Named<`${number}`, E, Less>
      : I extends object
        ? { [K in keyof I & (string | number)]-?: Named<`${K}`, I[K], Less> }[keyof I & (string | number)]
        : never
  : string

type Named<Name extends string, V, Left extends readonly unknown[]> = unknown extends V
  ? Name | `${Name}.${string}`
  : (Extract<V, Key> extends never ? never : Name) | (V extends object ? `${Name}.${PathOf<V, Left>}` : never)
