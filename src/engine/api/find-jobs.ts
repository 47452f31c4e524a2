import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord, JobSpan } from '../../jobs/job.ts'
import type { JobChange } from '../../store/contract/change-jobs.ts'
import type { Store } from '../../store/contract/store.ts'

/** The first part of a search, and the largest: a statement over so many rows takes some ms. */
const FIRST_ROWS = 1_000
const MOST_ROWS = 16_000
const GROWTH = 4

/** The spans to search for the jobs of a filter, newest first: one where a single statement finds them. */
export async function* spansOf(
  store: Store,
  match: JobMatch,
  before?: number,
): AsyncGenerator<JobSpan, void, undefined> {
  if (isQuick(match)) yield before === undefined ? {} : { before }
  else yield* allSpans(store, before)
}

/**
 * Splits all jobs before `before` into spans, newest first. Between two spans the process turns to other work: on
 * SQLite a statement holds it up while it runs.
 */
export async function* allSpans(store: Store, before?: number): AsyncGenerator<JobSpan, void, undefined> {
  let end = before
  for (let rows = FIRST_ROWS; ; rows = Math.min(rows * GROWTH, MOST_ROWS)) {
    const from = await store.oldestOf(rows, end)
    if (from === null) return
    yield { from, ...(end !== undefined && { before: end }) }
    end = from
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Whether one statement finds the jobs of a filter at once: by an index, or since any job matches. */
function isQuick({ flow, ids, uniqueKey, task, ...rest }: JobMatch): boolean {
  if (flow !== undefined || ids !== undefined || (uniqueKey !== undefined && task !== undefined)) return true
  return uniqueKey === undefined && task === undefined && Object.keys(rest).length === 0
}

/** The newest jobs that match, older than `before`. */
export async function newestJobs(
  store: Store,
  match: JobMatch,
  limit: number,
  before?: number,
): Promise<readonly JobRecord[]> {
  const found: JobRecord[] = []
  for await (const span of spansOf(store, match, before)) {
    found.push(...(await store.list({ ...match, ...span, limit: limit - found.length })))
    if (found.length === limit) break
  }
  return found
}

/**
 * The number of jobs that match. Jobs that change during the count count as they are when it meets them.
 * @param change only jobs that it applies to
 */
export async function countMatches(store: Store, match: JobMatch, change?: JobChange): Promise<number> {
  let count = 0
  for await (const span of spansOf(store, match)) count += await store.countJobs(match, span, change)
  return count
}
