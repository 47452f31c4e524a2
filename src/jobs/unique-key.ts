import { createHash } from 'node:crypto'
import { durationUs, type Duration } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkOptions, quote, show } from '../base/options.ts'
import { isPath, readPath } from '../policy/limits/partition-key.ts'
import { isStorable } from '../base/text.ts'
import { messageOf } from '../base/thrown.ts'
import { STATES, type JobState } from './job-state.ts'

/** The treatment of a new job whose unique key another job holds. */
export type OnConflict = 'ignore' | 'reject' | 'replace' | 'update'

/** At most one job of a task per key: the key alone, or with the treatment of a second job. */
export type Unique<I> =
  | string
  | {
      /** Not empty; over 1 KiB it is kept as its SHA-256. Either this or `path`. */
      key?: string | ((input: I) => string)
      /** The path of the key in the input, as `'order.id'`: a required text or number. */
      path?: string
      /** Default `'ignore'`: the earlier job is returned. */
      onConflict?: OnConflict
      /** How long a job holds its key after its enqueue. Default: without end, while it is in one of `states`. */
      within?: Duration
      /** The states in which a job holds its key. Default: all but the final ones. */
      states?: readonly JobState[]
    }

/** A unique option in the form in which it is stored. */
export interface UniqueRule {
  /** The task's name, a colon, and the key; at most 1 KiB beyond the name. */
  readonly key: string
  readonly onConflict: OnConflict
  /** µs; null: without end. */
  readonly withinUs: number | null
  /** Null: all but the final states. */
  readonly states: readonly JobState[] | null
}

const MAX_KEY_BYTES = 1_024
const HASHED = 'sha256:'
const ON_CONFLICT: readonly string[] = ['ignore', 'reject', 'replace', 'update']
const OPTIONS = ['key', 'path', 'onConflict', 'within', 'states'] as const

/**
 * Normalises a unique option for one input; null without one. Keys of different tasks never collide.
 *
 * @param taskName the scope of the key. A task name contains no colon, so the scope ends at the first one.
 * @throws {SluiceError} `unique.invalid`, with the error of a failed key function as its cause
 * @throws {SluiceError} `duration.invalid`
 */
export function uniqueKey<I>(unique: Unique<I> | undefined, input: I, taskName: string): UniqueRule | null {
  if (unique === undefined) return null
  const what = `unique of task ${taskName}`
  const options = typeof unique === 'string' ? { key: unique } : checkShape(unique, what)
  const { onConflict = 'ignore', within, states } = options
  if (!ON_CONFLICT.includes(onConflict)) {
    throw invalid(what, `onConflict is invalid: ${quote(onConflict)}. Expected one of ${ON_CONFLICT.join(', ')}.`)
  }
  return {
    key: `${taskName}:${storedUniqueKey(keyText(options, input, what))}`,
    onConflict,
    withinUs: within === undefined ? null : withinUs(within, what),
    states: states === undefined ? null : checkedStates(states, what),
  }
}

function checkShape<I>(unique: Exclude<Unique<I>, string>, what: string): Exclude<Unique<I>, string> {
  // Callers without types may pass anything.
  const given: unknown = unique
  if (typeof given !== 'object' || given === null)
    throw invalid(what, `the option is invalid: ${show(given)}. Expected a key, or an object with a key.`)
  checkOptions(given, OPTIONS, what, { code: 'unique.invalid' })
  return unique
}

function keyText<I>({ key, path }: Exclude<Unique<I>, string>, input: I, what: string): string {
  if (path !== undefined) {
    if (key !== undefined) throw invalid(what, 'key and path exclude each other. Expected one of them.')
    return keyAt(path, input, what)
  }
  const value: unknown = typeof key === 'function' ? callKey(key, input, what) : key
  if (typeof value !== 'string')
    throw invalid(what, `the key is invalid: a value of type ${typeof value}. Expected a string.`)
  if (value === '') throw invalid(what, 'the key is empty. Expected a text; omit unique if the job need not be unique.')
  return value
}

function keyAt(path: unknown, input: unknown, what: string): string {
  if (!isPath(path)) throw invalid(what, `path is invalid: ${show(path)}. Expected a path such as 'order.id'.`)
  const value = readPath(input, path)
  if ((typeof value === 'string' && value !== '') || Number.isFinite(value)) return String(value)
  throw invalid(
    what,
    `the input's value at ${path} is invalid: ${show(value)}. Expected a non-empty text, or a number.`,
  )
}

function callKey<I>(key: (input: I) => string, input: I, what: string): string {
  try {
    return key(input)
  } catch (cause) {
    const why = messageOf(cause)
    throw new SluiceError('unique.invalid', `${what}: the key function threw: ${why}. The job was not enqueued.`, {
      cause,
    })
  }
}

/** A unique key as it is stored behind its task's name and a colon. */
export function storedUniqueKey(key: string): string {
  // A key that looks hashed must not meet one that is.
  const plain = Buffer.byteLength(key) <= MAX_KEY_BYTES && isStorable(key) && !key.startsWith(HASHED)
  // As JSON, in which lone surrogates are escaped: as UTF-8 they would all be the same.
  return plain ? key : HASHED + createHash('sha256').update(JSON.stringify(key)).digest('hex')
}

function withinUs(within: Duration, what: string): number {
  const us = durationUs(within, `${what}: within`)
  if (us === 0) throw invalid(what, 'within is invalid: zero. Expected a duration above zero.')
  return us
}

function checkedStates(states: readonly JobState[], what: string): readonly JobState[] {
  // Callers without types may pass anything.
  const given: unknown = states
  if (!Array.isArray(given) || given.length === 0)
    throw invalid(what, 'states is invalid. Expected a list of at least one state.')
  const at = states.findIndex((state) => !STATES.includes(state))
  if (at < 0) return states
  const unknown: unknown = states[at]
  throw invalid(what, `states is invalid: ${quote(unknown)}. Expected ${STATES.join(', ')}.`)
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('unique.invalid', `${what}: ${why}`)
}
