/** A partition key: the value that splits a limit into separate budgets. 42 and '42' are the same key. */
export type Key = string | number

/**
 * The inputs that have a path to a key, as `AtPath<'config.provider'>`. Every name in the path is a property of the
 * input's type. Each may be absent; `onMissingKey` then decides. A path unknown at compile time fits any input.
 */
export type AtPath<P extends string> = string extends P
  ? unknown
  : P extends `${infer Name}.${infer Rest}`
    ? With<Name, AtPath<Rest>>
    : With<P, Key>

type With<Name extends string, V> = Name extends `${number}`
  ? readonly (V | null | undefined)[] | { readonly [N in Name]?: V | null | undefined }
  : { readonly [N in Name]?: V | null | undefined }

/**
 * The paths of an input that lead to a key, as `'config.provider'` or `'items.0.id'`. Any text if the input's type is
 * unknown.
 */
export type KeyPath<I> = unknown extends I ? string : [I] extends [void] ? string : PathOf<I, [1, 1, 1, 1, 1, 1]>

/** The length of `Left` bounds the depth, since a type may contain itself. */
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
