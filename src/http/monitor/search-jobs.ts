import { spansOf } from '../../engine/api/find-jobs.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'

/** A search, and how far it looked. */
export interface Searched<T> {
  readonly found: T
  /** Jobs that it looked at one by one, about. */
  readonly rows: number
  /** The `seq` of the oldest job that it looked at, if it stopped before the end; null: it looked at all. */
  readonly from: number | null
}

/** Whether a search is over, by the jobs that it has looked at. */
export type IsOver = (rows: number) => boolean

/** The jobs of the newest span, of which the other end is not known. */
const FIRST_ROWS = 1000

/** The newest jobs that match, older than `before`, as far as the search comes. */
export async function searchJobs(
  store: Store,
  match: JobMatch,
  limit: number,
  isOver: IsOver,
  before?: number,
): Promise<Searched<readonly JobRecord[]>> {
  const found: JobRecord[] = []
  let rows = 0
  for await (const span of spansOf(store, match, before)) {
    found.push(...(await store.list({ ...match, ...span, limit: limit - found.length })))
    if (span.from === undefined || found.length === limit) break
    rows += span.before === undefined ? FIRST_ROWS : span.before - span.from
    if (isOver(rows)) return { found, rows, from: span.from }
  }
  return { found, rows, from: null }
}

/** The number of jobs that match, as far as the search comes. */
export async function countJobs(store: Store, match: JobMatch, isOver: IsOver): Promise<Searched<number>> {
  let found = 0
  let rows = 0
  for await (const span of spansOf(store, match)) {
    found += await store.countJobs(match, span)
    if (span.from === undefined) break
    rows += span.before === undefined ? FIRST_ROWS : span.before - span.from
    if (isOver(rows)) return { found, rows, from: span.from }
  }
  return { found, rows, from: null }
}
