import { createHash } from 'node:crypto'
import { SluiceError } from '../../base/errors.ts'
import { isStorable } from '../../base/text.ts'
import type { OnMissingKey } from './limit.ts'

/** The longest key that is kept as it is, in bytes of UTF-8. */
const MAX_KEY_BYTES = 1024

/** The key of a use. `missing`: the limit does not apply this time. */
export type PartitionKey = { readonly kind: 'key'; readonly key: string } | { readonly kind: 'missing' }

/** The key of a limit without partitions, and of the bucket that jobs without a key share under `onMissingKey: 'shared'`. */
export const SHARED_KEY = ''

const MISSING: PartitionKey = { kind: 'missing' }
const SHARED: PartitionKey = { kind: 'key', key: SHARED_KEY }

/**
 * Reads a partition key: any text, or a finite number (42 is '42'). `null`, `undefined` and `''` are missing keys, and
 * `onMissing` decides about them. By default `null` and `''` are unlimited on purpose. `undefined` is a mistake: a
 * misspelt or absent property reads as `undefined`, and must not lift a limit. A text over 1 KiB, or one that stores
 * cannot keep (NUL, half a surrogate pair), is kept by its SHA-256.
 *
 * @param what names the use in the message, as in `'limit crm of task tenant.sync'`.
 * @param path the path of the key, for the message; null: a function or a caller gave it.
 * @throws {SluiceError} `limit.key.invalid` for a value that is neither text nor number
 * @throws {SluiceError} `limit.key.missing` for a missing key that is refused
 */
export function partitionKey(
  value: unknown,
  onMissing: OnMissingKey | undefined,
  what: string,
  path: string | null = null,
): PartitionKey {
  if (value === null || value === undefined || value === '') {
    if (onMissing === 'shared') return SHARED
    if (onMissing === 'unlimited' || (onMissing === undefined && value !== undefined)) return MISSING
    throw missing(value, onMissing, what, path)
  }
  // -0 would be the same key as 0 in every way but this one.
  if (typeof value === 'number' && Number.isFinite(value)) return { kind: 'key', key: String(value + 0) }
  if (typeof value === 'string') return { kind: 'key', key: isShortKey(value) ? value : bounded(value) }
  throw new SluiceError(
    'limit.key.invalid',
    `${what}: the key is invalid: ${describe(value)}. Expected a string or a finite number, or null if the limit does not apply.`,
  )
}

/** Whether a value is a key as it stands, as almost all are: a text that is neither empty nor long. */
export function isShortKey(value: unknown): value is string {
  // A UTF-16 unit takes at most three bytes, so short texts need not be measured.
  return typeof value === 'string' && value !== '' && value.length * 3 <= MAX_KEY_BYTES && isStorable(value)
}

/**
 * Reads the value at a path of property names joined by dots, as in `'config.provider'` or `'items.0.id'`. Undefined if
 * a part is missing. It reads own properties only, so that no input reaches a prototype.
 */
export function readPath(input: unknown, path: string): unknown {
  let value = input
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return value
}

/** Whether a value is such a path: names joined by dots, none of them empty. */
export function isPath(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.split('.').every((part) => part !== '')
}

function missing(
  value: null | undefined | '',
  onMissing: OnMissingKey | undefined,
  what: string,
  path: string | null,
): SluiceError {
  const shown = value === '' ? "''" : String(value)
  const found =
    path !== null && value === undefined ? `the input has no value at the path ${path}` : `the key is ${shown}`
  const remedy =
    onMissing === undefined
      ? "Expected a key, or null if the limit does not apply. onMissingKey 'unlimited' or 'shared' allows a missing key."
      : "onMissingKey is 'fail': give every input a key, or choose 'unlimited' or 'shared'."
  return new SluiceError('limit.key.missing', `${what}: ${found}. ${remedy}`)
}

function bounded(text: string): string {
  // As JSON behind a NUL: halves of surrogate pairs would all be one as UTF-8, and no text that is kept can hold a NUL.
  if (!isStorable(text)) return hashed(`\0${JSON.stringify(text)}`)
  return Buffer.byteLength(text) <= MAX_KEY_BYTES ? text : hashed(text)
}

function hashed(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'number') return String(value)
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
