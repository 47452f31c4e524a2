import { checkOptions } from '../../base/options.ts'
import { FILTER_ALIASES, FILTER_FIELDS, type JobFilter, type JobMatch, jobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord } from '../../jobs/job.ts'
import { checkLimit, readCursor, writeCursor } from './cursor.ts'
import type { JobView } from './job-view.ts'

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

/** A page of jobs. */
export interface JobPage {
  readonly jobs: JobView[]
  /** Null: there is no further page. */
  readonly cursor: string | null
  /**
   * The number of jobs that it looked at one by one, at most: it looks at 1,000 or more together, also where there are
   * fewer. `complete: false`: older jobs may match too.
   */
  readonly looked: { readonly jobs: number; readonly complete: boolean }
}

const DEFAULT_LIMIT = 100

/** A checked query of a page. */
export interface CheckedPage {
  /** Null: no job can match. */
  readonly match: JobMatch | null
  readonly limit: number
  /** Behind the page before: a `seq`, or a node of the flow. */
  readonly place: number | null
}

/** Checks a filter and a page, and reads its cursor. @throws {SluiceError} `option.invalid`, `duration.invalid` */
export function jobPage(query: JobPageQuery, what: 'jobs.list' | 'jobs.page' | 'jobs.iterate'): CheckedPage {
  const more = what === 'jobs.list' ? ['limit'] : what === 'jobs.page' ? ['limit', 'cursor'] : []
  checkOptions(query, [...FILTER_FIELDS, ...more], what, {
    aliases: { ...FILTER_ALIASES, before: 'cursor of jobs.page', key: 'limitKey' },
  })
  const { limit = DEFAULT_LIMIT, cursor, ...filter } = query
  const match = jobMatch(filter, what)
  checkLimit(limit, what)
  return { match, limit, place: readCursor(cursor, fieldsOf(filter), what) }
}

/** The place behind a job: its `seq`, or its node in the flow. */
export function placeOf(last: JobRecord, { flow }: JobFilter): number {
  return flow === undefined ? last.seq : (last.flow?.node ?? 0)
}

/** The cursor of the page behind a place. */
export function cursorAfter(place: number, filter: JobFilter): string {
  return writeCursor(place, fieldsOf(filter))
}

function fieldsOf(filter: JobFilter): unknown[] {
  return FILTER_FIELDS.map((name) => {
    const value = filter[name]
    if (name === 'states' && value !== undefined) return [...new Set(value as readonly string[])].toSorted()
    return value ?? null
  })
}
