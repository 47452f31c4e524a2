import { SluiceError } from './errors.ts'
import { messageOf } from './thrown.ts'

/** A value that JSON can hold. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** The type of a value after a round trip through JSON. */
export type Json<T> = unknown extends T
  ? T
  : T extends { toJSON(): infer J }
    ? Json<J>
    : T extends string | number | boolean | null
      ? T
      : T extends undefined | symbol | ((...a: never[]) => unknown)
        ? never
        : T extends bigint
          ? never
          : T extends readonly unknown[]
            ? { [K in keyof T]: Json<T[K]> }
            : { [K in keyof T as T[K] extends (...a: never[]) => unknown ? never : K]: Json<T[K]> }

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
 * @throws {SluiceError} `payload.unserialisable` for a BigInt, a cycle, a top-level function or symbol, or a `toJSON`
 * that throws
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
