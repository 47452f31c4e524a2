import { durationUs, type Duration } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkInstant, parseInstant } from '../base/instant.ts'
import { checkOptions, ownNames, show } from '../base/options.ts'
import { isStorable } from '../base/text.ts'
import { type JobState, STATES } from './job-state.ts'
import { storedUniqueKey } from './unique-key.ts'

/** A filter of jobs. A job matches if every given field does; a filter without fields matches all jobs. */
export interface JobFilter {
  readonly states?: readonly JobState[]
  readonly queue?: string
  readonly task?: string
  /** All of these tags. */
  readonly tags?: readonly string[]
  /** These values of `meta`, by name, compared as texts: `{ shop: 5 }` also matches `'5'`. */
  readonly meta?: Readonly<Record<string, string | number | boolean | null>>
  /**
   * A text in the id, the task, the unique key, the input, the error, the tags or `meta`, in small or capital letters
   * from A to Z. Payloads are searched as JSON. At most 1,000 characters.
   */
  readonly text?: string
  /** Jobs enqueued from then on: a date, a text in ISO 8601 with its zone, or so long ago (`'1h'`). The store's clock. */
  readonly since?: Date | string
  /** Jobs enqueued before then. */
  readonly until?: Date | string
  /** Jobs that need this limit. Completed and cancelled jobs need none. */
  readonly limitName?: string
  /** With `limitName`: jobs that need its budget of this key. */
  readonly limitKey?: string
  /** The key of `unique`, without the task's name. */
  readonly uniqueKey?: string
  /** Only jobs of the flow with this id; lists have them in the order of its nodes, callbacks last. */
  readonly flow?: string
  /** The name of the schedule whose occurrences they are. */
  readonly schedule?: string
  /** The code of their error, or a part of its message, in small or capital letters from A to Z. */
  readonly error?: string
  /** These jobs, at most 1,000. */
  readonly ids?: readonly string[]
}

/** A bound on the time of enqueue: an instant of the wall clock, or so long before the store's now. */
export type TimeBound = { readonly atMs: number } | { readonly agoUs: number }

/** A checked filter, as a store gets it. A server adds its own bounds on queues. */
export interface JobMatch {
  readonly states?: readonly JobState[]
  readonly queue?: string
  /** Only queues whose names begin with this. */
  readonly queuePrefix?: string
  /** Only queues whose names do not contain this. */
  readonly queueWithout?: string
  readonly task?: string
  readonly tags?: readonly string[]
  /** Names with their values as texts. */
  readonly meta?: readonly (readonly [name: string, value: string])[]
  /** Not empty; in small letters. */
  readonly text?: string
  readonly since?: TimeBound
  readonly until?: TimeBound
  readonly limitName?: string
  readonly limitKey?: string
  /** As it is stored behind the task's name. */
  readonly uniqueKey?: string
  readonly flow?: string
  readonly schedule?: string
  /** Not empty; in small letters. */
  readonly error?: string
  readonly ids?: readonly string[]
}

/** The names of a filter's fields. */
export const FILTER_FIELDS: readonly (keyof JobFilter)[] = [
  'states',
  'queue',
  'task',
  'tags',
  'meta',
  'text',
  'since',
  'until',
  'limitName',
  'limitKey',
  'uniqueKey',
  'flow',
  'schedule',
  'error',
  'ids',
]

/** Names that callers are likely to write, with the right ones. */
export const FILTER_ALIASES: Readonly<Record<string, string>> = {
  state: 'states',
  tag: 'tags',
  id: 'ids',
  q: 'text',
  key: 'limitKey',
  unique: 'uniqueKey',
  before: 'until',
  after: 'since',
}

const NAMES = ['queue', 'task', 'limitName', 'limitKey', 'schedule'] as const
const LONGEST_TEXT = 1_000
const MOST_VALUES = 1_000
const DAY = /^\d{4}-\d\d-\d\d$/

/**
 * Checks a filter.
 * @param what names the call in messages
 * @returns null: no job can match, since a store cannot hold one of its names
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function jobMatch(filter: JobFilter, what: string): JobMatch | null {
  checkOptions(filter, FILTER_FIELDS, what, { aliases: FILTER_ALIASES })
  const wrong = (name: string, value: unknown, expected: string): SluiceError =>
    new SluiceError('option.invalid', `${what}: ${name} is invalid: ${show(value)}. Expected ${expected}.`)
  const { states, tags, meta, ids, uniqueKey, limitKey, limitName } = filter
  for (const name of [...NAMES, 'flow', 'uniqueKey', 'text', 'error'] as const)
    if (filter[name] !== undefined && typeof filter[name] !== 'string') throw wrong(name, filter[name], 'a text')
  for (const name of ['text', 'error'] as const) {
    const value = filter[name]
    if (value !== undefined && (value === '' || value.length > LONGEST_TEXT))
      throw wrong(name, value, `1 to ${LONGEST_TEXT} characters`)
  }
  const expected = `a list of ${STATES.join(', ')}`
  for (const state of listOf(states, (value) => wrong('states', value, expected)))
    if (!STATES.includes(state as JobState)) throw wrong('states', state, STATES.join(', '))
  const textsOf = (name: 'tags' | 'ids'): readonly string[] => {
    const expectation = `a list of 1 to ${MOST_VALUES} texts`
    const values = listOf(filter[name], (value) => wrong(name, value, expectation))
    if (filter[name] !== undefined && (values.length === 0 || values.length > MOST_VALUES))
      throw wrong(name, filter[name], expectation)
    for (const value of values) if (typeof value !== 'string') throw wrong(name, value, 'a text')
    return values as readonly string[]
  }
  if (limitKey !== undefined && limitName === undefined)
    throw new SluiceError(
      'option.invalid',
      `${what}: limitKey needs limitName. Expected the name of a limit beside it.`,
    )
  const values = meta === undefined ? undefined : metaOf(meta, (value) => wrong('meta', value, META))
  const match: JobMatch = {
    ...(states !== undefined && { states }),
    ...given('queue', filter.queue),
    ...given('task', filter.task),
    ...(tags !== undefined && { tags: textsOf('tags') }),
    ...(values !== undefined && { meta: values }),
    ...given('text', filter.text === undefined ? undefined : inSmallLetters(filter.text)),
    ...(filter.since !== undefined && { since: boundOf(filter.since, `${what}: since`) }),
    ...(filter.until !== undefined && { until: boundOf(filter.until, `${what}: until`) }),
    ...given('limitName', limitName),
    ...given('limitKey', limitKey),
    ...given('uniqueKey', uniqueKey === undefined ? undefined : storedUniqueKey(uniqueKey)),
    ...given('flow', filter.flow),
    ...given('schedule', filter.schedule),
    ...given('error', filter.error === undefined ? undefined : inSmallLetters(filter.error)),
    ...(ids !== undefined && { ids: textsOf('ids') }),
  }
  return NAMES.every((name) => isStorable(filter[name] ?? '')) ? match : null
}

const META = 'an object of texts, numbers, booleans or null by name'

function metaOf(meta: unknown, wrong: (value: unknown) => SluiceError): readonly (readonly [string, string])[] {
  const names = ownNames(meta)
  if (names === null || names.length === 0 || names.length > MOST_VALUES) throw wrong(meta)
  return names.map((name) => {
    const value: unknown = (meta as Readonly<Record<string, unknown>>)[name]
    if (value !== null && !['string', 'number', 'boolean'].includes(typeof value)) throw wrong(value)
    return [name, String(value)]
  })
}

function listOf(value: unknown, wrong: (value: unknown) => SluiceError): readonly unknown[] {
  if (value === undefined) return []
  if (!Array.isArray(value)) throw wrong(value)
  return value
}

function given<Name extends string>(name: Name, value: string | undefined): { readonly [Each in Name]?: string } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [Each in Name]?: string }
}

function boundOf(value: unknown, what: string): TimeBound {
  if (value instanceof Date) return { atMs: checkInstant(value.getTime(), what) }
  const ms = typeof value === 'string' ? parseInstant(DAY.test(value) ? `${value}T00:00Z` : value) : Number.NaN
  if (!Number.isNaN(ms)) return { atMs: checkInstant(ms, what) }
  if (typeof value === 'string' && /^[\dP]/.test(value) && !/^\d{4}-/.test(value))
    return { agoUs: durationUs(value as Duration, what) }
  const expected = "a date, a text such as '2030-01-31T12:00:00Z', or a time ago such as '1h'"
  throw new SluiceError('option.invalid', `${what} is invalid: ${show(value)}. Expected ${expected}.`)
}

/** A text with A to Z in small letters: the letters that every store compares alike. */
export function inSmallLetters(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
}
