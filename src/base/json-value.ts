import { SluiceError } from './errors.ts'
import { messageOf } from './thrown.ts'

/** A value that JSON can hold. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/**
 * The type of a value after a round trip through JSON. A member that may be `undefined`, a function or a symbol is
 * optional, since JSON leaves it out; in a list JSON writes null for it. `toJSON` is called. A BigInt has no JSON, which
 * gives `never`. `undefined` at the top stays `undefined`.
 */
export type Kept<T> = unknown extends T
  ? T
  : T extends undefined | void
    ? undefined
    : T extends LeftOut
      ? never
      : KeptInside<T>

/** JSON leaves these out of an object. */
type LeftOut = undefined | void | symbol | ((...a: never[]) => unknown) | (abstract new (...a: never[]) => unknown)

// A type that is JSON already needs no mapping.
type KeptInside<T> = unknown extends T
  ? T
  : T extends JsonValue
    ? T
    : T extends { toJSON(key: string): infer J }
      ? KeptBare<J>
      : KeptBare<T>

/** A value without its `toJSON`, which JSON calls once. */
type KeptBare<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null
    ? T
    : T extends bigint | LeftOut
      ? never
      : T extends readonly unknown[]
        ? KeptList<T>
        : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
          ? Record<string, never>
          : Flat<
              { [K in keyof T as Stays<T, K> extends 'always' ? K : never]: KeptMember<T[K]> } & {
                [K in keyof T as Stays<T, K> extends 'perhaps' ? K : never]?: KeptMember<T[K]>
              }
            >

// TypeScript resolves a mapped type of a list at once, and for a recursive list that has no end.
type KeptList<T extends readonly unknown[]> = T[number][] extends T
  ? T extends unknown[]
    ? KeptElement<T[number]>[]
    : readonly KeptElement<T[number]>[]
  : { [K in keyof T]: KeptElement<T[K]> }

type KeptElement<E> = unknown extends E ? E : E extends LeftOut ? null : KeptInside<E>
type KeptMember<M> = unknown extends M ? M : KeptInside<Exclude<M, LeftOut>>

/** Whether JSON keeps a member. Any key of an index may be missing by its nature, so that it needs no mark. */
type Stays<T, K extends keyof T> = K extends symbol
  ? 'never'
  : unknown extends T[K]
    ? 'perhaps'
    : [T[K]] extends [LeftOut]
      ? 'never'
      : {} extends Record<K, 1>
        ? 'always'
        : {} extends Pick<T, K>
          ? 'perhaps'
          : [Extract<T[K], LeftOut>] extends [never]
            ? 'always'
            : 'perhaps'

type Flat<T> = { [K in keyof T]: T[K] }

/** Parses JSON text. Invalid text gives `fallback`, since another program may have changed the store. */
export function fromJsonText<T>(text: string | null, fallback: T): unknown {
  if (text === null) return fallback
  try {
    return JSON.parse(text) as unknown
  } catch {
    return fallback
  }
}

/** Parses the JSON text of an object. Any other text gives an empty object. */
export function objectIn<T extends object>(text: string | null): Partial<T> {
  const value = fromJsonText(text, null)
  return typeof value === 'object' && value !== null ? value : {}
}

/** The default bound on a payload or a result: 1 MiB of JSON text in UTF-8, in bytes. */
const MAX_JSON_BYTES = 1_048_576

/**
 * Writes a value as JSON text; `undefined` becomes `null`. Inside the value, JSON's own rules hold: functions and
 * undefined are left out, NaN becomes null.
 *
 * @param what names the value in the message, as in `'the input of task tenant.sync'`.
 * @param maxBytes the largest accepted text, in bytes of UTF-8; 1 MiB by default.
 * @throws {SluiceError} `payload.unserialisable` for a BigInt, a cycle, a top-level function, symbol or promise, or a
 * `toJSON` that throws
 * @throws {SluiceError} `payload.too_large`
 */
export function toJsonText(value: unknown, what: string, maxBytes: number = MAX_JSON_BYTES): string {
  const text = stringify(value, what)
  // A UTF-16 unit takes at most three bytes of UTF-8, so most payloads need not be counted.
  if (text.length * 3 <= maxBytes) return text
  const bytes = Buffer.byteLength(text)
  if (bytes <= maxBytes) return text
  throw new SluiceError(
    'payload.too_large',
    `${what} is too large: ${bytes} bytes as JSON. Expected at most ${maxBytes}. Store the data elsewhere and pass a reference to it.`,
  )
}

function stringify(value: unknown, what: string): string {
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new SluiceError(
      'payload.unserialisable',
      `${what} cannot be written as JSON: it is a ${typeof value}. Expected plain data.`,
    )
  }
  if (value instanceof Promise)
    throw new SluiceError(
      'payload.unserialisable',
      `${what} cannot be written as JSON: it is a promise. Await it first.`,
    )
  try {
    // The declared type leaves out that a toJSON may return undefined.
    const text: string | undefined = JSON.stringify(value)
    return text ?? 'null'
  } catch (cause) {
    const why = faultIn(value) ?? messageOf(cause)
    throw new SluiceError('payload.unserialisable', `${what} cannot be written as JSON: ${why}`, { cause })
  }
}

/** A step on the path from the top of a value. Links point upwards, so that a deep value costs only its depth. */
interface Place {
  readonly value: unknown
  readonly step: string
  readonly above: Place | null
}

/** Repeats the walk after a failure to find where it ends. Null means that the user's own code failed. */
function faultIn(value: unknown): string | null {
  const places = new Map<object, Place>()
  let last: Place | null = null
  try {
    JSON.stringify(value, function (this: object, key: string, item: unknown): unknown {
      const above = places.get(this) ?? null
      last = { value: item, step: above === null ? '' : stepTo(key, Array.isArray(this)), above }
      if (typeof item === 'object' && item !== null) places.set(item, last)
      return item
    })
  } catch {
    // The caller already reports the first failure; this walk only finds its place.
  }
  return last === null ? null : faultAt(last)
}

function faultAt(place: Place): string | null {
  if (typeof place.value === 'bigint') return `${pathOf(place)} is a BigInt; convert it to a string or a number first`
  for (let above = place.above; above !== null; above = above.above) {
    if (above.value === place.value) return `${pathOf(place)} leads back to ${pathOf(above)}; remove the cycle`
  }
  return null
}

function stepTo(key: string, inArray: boolean): string {
  if (inArray) return `[${key}]`
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}

function pathOf(place: Place): string {
  const steps: string[] = []
  for (let at: Place | null = place; at !== null; at = at.above) steps.push(at.step)
  const path = steps.toReversed().join('').replace(/^\./, '')
  return path === '' ? 'the value itself' : path
}
