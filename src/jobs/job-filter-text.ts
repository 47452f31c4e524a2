import { SluiceError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { quote, show } from '../base/options.ts'
import { type JobFilter, jobMatch } from './job-filter.ts'
import type { JobState } from './job-state.ts'

/** Fields that a filter has once, by their names in texts. */
const SINGLE: Readonly<Record<string, Exclude<keyof JobFilter, 'states' | 'tags' | 'ids' | 'meta'>>> = {
  queue: 'queue',
  task: 'task',
  text: 'text',
  since: 'since',
  until: 'until',
  limit: 'limitName',
  key: 'limitKey',
  uniqueKey: 'uniqueKey',
  flow: 'flow',
  schedule: 'schedule',
  error: 'error',
}
/** The fields that a filter may have several times. */
export const FILTER_LISTS = ['state', 'tag', 'id'] as const
const META = 'meta.'
/** Names that callers are likely to write, with the right ones. */
const ALIASES: Readonly<Record<string, string>> = {
  states: 'state',
  tags: 'tag',
  ids: 'id',
  limitName: 'limit',
  limitKey: 'key',
  unique: 'uniqueKey',
  'unique-key': 'uniqueKey',
  q: 'text',
  after: 'since',
  before: 'until',
}

/** The names of a filter's fields in a URL or on the command line. `meta.` stands before the name of a value. */
const FILTER_TEXT_FIELDS: readonly string[] = [...Object.keys(SINGLE), ...FILTER_LISTS, `${META}<name>`]

/**
 * Reads a filter whose fields are texts by name, as in a URL: `state=available,active`, `tag=a`, `meta.shop=5`.
 * `state`, `tag` and `id` may come several times; `state` and `id` may have commas.
 * @param what names the call in messages
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function jobFilterOfTexts(fields: Iterable<readonly [name: string, value: string]>, what: string): JobFilter {
  const single: { [Name in (typeof SINGLE)[string]]?: string } = {}
  const lists: Record<(typeof FILTER_LISTS)[number], string[]> = { state: [], tag: [], id: [] }
  const meta = new Map<string, string>()
  const twice = (name: string): SluiceError =>
    new SluiceError('option.invalid', `${what} has ${quote(name)} twice. Expected it once.`)
  for (const [name, value] of fields) {
    if (name === 'tag') lists.tag.push(value)
    else if (name === 'state' || name === 'id') lists[name].push(...partsOf(value, `${what}: ${name}`))
    else if (name.startsWith(META) && name.length > META.length) {
      const key = name.slice(META.length)
      if (meta.has(key)) throw twice(name)
      meta.set(key, value)
    } else {
      const field = Object.hasOwn(SINGLE, name) ? SINGLE[name] : undefined
      if (field === undefined) throw unknown(name, what)
      if (single[field] !== undefined) throw twice(name)
      single[field] = value
    }
  }
  const filter: JobFilter = {
    ...single,
    ...(lists.state.length > 0 && { states: lists.state as JobState[] }),
    ...(lists.tag.length > 0 && { tags: lists.tag }),
    ...(lists.id.length > 0 && { ids: lists.id }),
    ...(meta.size > 0 && { meta: Object.fromEntries(meta) }),
  }
  jobMatch(filter, what)
  return filter
}

/** The two sides of `name=value`. @throws {SluiceError} `option.invalid` */
export function filterPair(text: string, what: string): readonly [name: string, value: string] {
  const at = text.indexOf('=')
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)]
  throw new SluiceError('option.invalid', `${what} is invalid: ${show(text)}. Expected name=value, as state=discarded.`)
}

function partsOf(value: string, what: string): readonly string[] {
  const parts = value.split(',').map((part) => part.trim())
  if (parts.every((part) => part !== '')) return parts
  throw new SluiceError(
    'option.invalid',
    `${what} is invalid: ${show(value)}. Expected texts with commas between them.`,
  )
}

function unknown(name: string, what: string): SluiceError {
  const hint = didYouMean(name, FILTER_TEXT_FIELDS, Object.hasOwn(ALIASES, name) ? ALIASES[name] : undefined)
  const expected = `Expected ${FILTER_TEXT_FIELDS.join(', ')}.`
  return new SluiceError('option.invalid', `${what} has no field ${quote(name)}${hint}${expected}`)
}
