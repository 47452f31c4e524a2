import { createHash } from 'node:crypto'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { type JobState, STATES } from '../../jobs/job-state.ts'

/** A filter of jobs. */
export interface JobFilter {
  readonly states?: readonly JobState[]
  readonly queue?: string
  readonly task?: string
  /** Only jobs of the flow with this id, in the order of its nodes, callbacks last. */
  readonly flow?: string
}

/** The newest jobs that match a filter. */
export interface JobListQuery extends JobFilter {
  /** 1 to 1,000; default 100. */
  readonly limit?: number
}

/** One page of jobs. */
export interface JobPageQuery extends JobListQuery {
  /** The cursor of the page before; null or absent: the first page. */
  readonly cursor?: string | null
}

const FILTER = ['states', 'queue', 'task', 'flow'] as const
const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000

/** Checks a filter, and reads the cursor of the page. @throws {SluiceError} `option.invalid` */
export function jobQuery(
  query: JobPageQuery,
  what: 'jobs.list' | 'jobs.page' | 'jobs.iterate',
): { readonly store: JobQuery; readonly limit: number } {
  const more = what === 'jobs.list' ? ['limit'] : what === 'jobs.page' ? ['limit', 'cursor'] : []
  checkOptions(query, [...FILTER, ...more], what, { aliases: { state: 'states', before: 'cursor of jobs.page' } })
  const { states, limit = DEFAULT_LIMIT, cursor } = query
  for (const name of ['queue', 'task', 'flow'] as const)
    if (query[name] !== undefined && typeof query[name] !== 'string')
      throw invalid(what, `${name} is invalid: ${show(query[name])}. Expected a text.`)
  if (states !== undefined && !Array.isArray(states))
    throw invalid(what, `states is invalid: ${show(states)}. Expected a list of ${STATES.join(', ')}.`)
  for (const state of (states ?? []) as readonly JobState[])
    if (!STATES.includes(state))
      throw invalid(what, `states is invalid: ${show(state)}. Expected ${STATES.join(', ')}.`)
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT))
    throw invalid(what, `limit is invalid: ${show(limit)}. Expected 1 to 1,000.`)
  const filter = Object.fromEntries(
    FILTER.flatMap((name) => (query[name] === undefined ? [] : [[name, query[name]]])),
  ) as JobFilter
  const place = cursor === undefined || cursor === null ? null : readCursor(cursor, filter, what)
  const from = place === null ? {} : filter.flow === undefined ? { before: place } : { afterNode: place }
  return { store: { ...filter, ...from, limit }, limit }
}

/** The cursor of the page behind these jobs. */
export function cursorAfter(last: JobRecord, filter: JobFilter): string {
  const place = filter.flow === undefined ? last.seq : (last.flow?.node ?? 0)
  return Buffer.from(`${VERSION}.${place}.${digestOf(filter)}`).toString('base64url')
}

const VERSION = 1

function readCursor(cursor: unknown, filter: JobFilter, what: string): number {
  const text = typeof cursor === 'string' && cursor.length <= 100 ? Buffer.from(cursor, 'base64url').toString() : ''
  const [, place, digest] = /^1\.(\d{1,15})\.([0-9a-f]{16})$/.exec(text) ?? []
  if (place === undefined || Buffer.from(text).toString('base64url') !== cursor)
    throw invalid(what, `cursor is invalid: ${show(cursor)}. Expected the cursor of an earlier page.`)
  if (digest !== digestOf(filter))
    throw invalid(what, 'cursor is invalid: it belongs to another filter. Expected the filter of the first page.')
  return Number(place)
}

/** A cursor belongs to one filter: its place means nothing in another list. */
function digestOf({ states, queue, task, flow }: JobFilter): string {
  const text = JSON.stringify([states ? [...new Set(states)].toSorted() : null, queue, task, flow])
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('option.invalid', `${what}: ${why}`)
}
