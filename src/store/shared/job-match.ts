import { isStorable } from '../../base/text.ts'
import type { JobMatch, TimeBound } from '../../jobs/job-filter.ts'
import { formsInJson, looksIntoTexts, matchesTexts } from '../../jobs/job-matches.ts'
import { NOW, shownIn } from './get.ts'
import { type Access, isUuid, type SqlValue } from './sql.ts'
import { STATE } from './state.ts'

/** Adds a value to a statement and returns its place there: `$3`. */
export type Place = (value: SqlValue) => string

/** A filter as conditions on `jobs j`. */
export interface CompiledMatch {
  /** All of them hold for each job that matches. */
  readonly where: readonly string[]
  /** Behind the other columns of a row: those by which `decide` decides, with a comma before them. May be empty. */
  readonly searched: string
  /** Whether the job of a row matches, for whose columns the conditions hold. Null: they decide alone. */
  readonly decide: ((row: readonly unknown[]) => boolean) | null
}

const SEARCHED = 3

/**
 * Compiles a filter for both stores. `place` adds its values.
 * @param bounded true: the jobs are few by their numbers, so no index by state is wanted
 */
export function compileMatch(access: Access, match: JobMatch, place: Place, bounded = false): CompiledMatch {
  const text = match.text === undefined ? null : holdsText(match.text, place)
  const where = [...ofQueue(access, match, place), ...ofColumns(match, place, bounded), ...ofNotes(match, place)]
  if (text) where.push(`(${text.sure} OR ${text.maybe})`)
  if (match.limitName !== undefined) {
    // The lanes of jobs that ended well may be gone, and their budgets with them.
    const needs = access.needs(match.limitName, match.limitKey ?? null, place)
    where.push(`state NOT IN (${STATE.completed}, ${STATE.cancelled}) AND ${needs}`)
  }
  if (!looksIntoTexts(match)) return { where, searched: '', decide: null }
  return {
    where,
    searched: `, error, extra, ${text ? text.sure : 'true'}`,
    decide(row) {
      const [error, extra, hasText] = row.slice(-SEARCHED) as [string | null, string | null, boolean | number]
      return matchesTexts(match, { error, extra, hasText: Boolean(hasText) })
    },
  }
}

function ofQueue({ queues }: Access, { queue, queuePrefix, queueWithout }: JobMatch, place: Place): string[] {
  const where: string[] = []
  if (queue !== undefined) where.push(queues((name) => `${name} = ${place(queue)}`))
  if (queuePrefix !== undefined) where.push(queues((name) => `starts_with(${name}, ${place(queuePrefix)})`))
  if (queueWithout !== undefined) where.push(queues((name) => `strpos(${name}, ${place(queueWithout)}) = 0`))
  return where
}

function ofColumns(match: JobMatch, place: Place, bounded: boolean): string[] {
  const { states, task, since, until, uniqueKey, flow, schedule, ids } = match
  const where: string[] = []
  if (states) where.push(shownIn(states, NOW, bounded ? '(state + 0)' : 'state'))
  if (task !== undefined) where.push(`task = ${place(task)}`)
  if (since) where.push(`created >= ${instantOf(since, place)}`)
  if (until) where.push(`created < ${instantOf(until, place)}`)
  if (uniqueKey !== undefined) {
    // With its task, the key is found by the index.
    const key = task === undefined ? `task || ':' || ${place(uniqueKey)}::text` : place(`${task}:${uniqueKey}`)
    where.push(`unique_key = ${key}`)
  }
  if (flow !== undefined)
    where.push(`flow = (SELECT f.seq FROM sluice.flows f WHERE f.id = ${place(isUuid(flow) ? flow : null)}::uuid)`)
  if (schedule !== undefined) where.push(`schedule = ${place(schedule)}`)
  if (ids) where.push(`id = ANY (${place(ids.filter(isUuid))}::uuid[])`)
  return where
}

/** Candidates for `matchesTexts`: the stored text holds the JSON of what is wanted. */
function ofNotes({ tags = [], meta = [], error }: JobMatch, place: Place): string[] {
  const where = tags.map((tag) => `strpos(extra, ${place(JSON.stringify(tag))}) > 0`)
  for (const [name] of meta) where.push(`strpos(extra, ${place(`${JSON.stringify(name)}:`)}) > 0`)
  if (error !== undefined) where.push(holds(['error'], formsInJson(error), place))
  return where
}

/** `extra` also holds parts beside the notes of the caller. */
function holdsText(text: string, place: Place): { readonly sure: string; readonly maybe: string } {
  const forms = formsInJson(text)
  const plain = isStorable(text) ? ` OR ${holds(['id::text', 'task', 'unique_key'], [text], place)}` : ''
  return { sure: `(${holds(['input', 'error'], forms, place)}${plain})`, maybe: holds(['extra'], forms, place) }
}

function holds(columnNames: readonly string[], forms: readonly string[], place: Place): string {
  const tests = forms.filter(isStorable).flatMap((form) => {
    const at = place(form)
    return columnNames.map((name) => `coalesce(strpos(lower(${name} COLLATE "C"), ${at}), 0) > 0`)
  })
  return `(${tests.join(' OR ')})`
}

function instantOf(bound: TimeBound, place: Place): string {
  if ('agoUs' in bound) return `${NOW} - ${place(bound.agoUs)}::bigint`
  return `(SELECT ${place(Math.round(bound.atMs * 1000))}::bigint - sluice.wall_us() + sluice.now_us())`
}
