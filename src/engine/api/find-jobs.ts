import type { Clock } from '../../base/clock.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord, JobSpan } from '../../jobs/job.ts'
import type { JobChange } from '../../store/contract/change-jobs.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { IndexedState } from '../../store/contract/find-jobs.ts'
import type { Store } from '../../store/contract/store.ts'

/** The first part of a search, and the largest: a statement over so many rows takes some ms. */
const FIRST_ROWS = 1_000
const MOST_ROWS = 16_000
const GROWTH = 4
/** A part of the time that is left, since one part of a search may be slower than those before. */
const MARGIN = 0.7

/** So many jobs are looked at by their `seq`. */
const FEW = 5_000
/** Jobs in these states wait in lanes, and may be shown in another one. */
const UNINDEXED: readonly JobState[] = ['available', 'scheduled', 'pending']

/** A search, and how far it looked. */
export interface Searched<T> {
  readonly found: T
  /** Jobs that it looked at one by one, at most. */
  readonly rows: number
  /** The `seq` of the oldest job that it looked at, if it stopped before the end; null: it looked at all. */
  readonly from: number | null
}

/** How far a search without an index looks: at 200,000 jobs, or for 400 ms, so that its last part ends within 500. */
export class Reach {
  static readonly ROWS_AT_MOST = 200_000
  static readonly US_AT_MOST = 400_000
  readonly #clock: Pick<Clock, 'monotonicUs'>
  readonly #beganUs: number
  #rows = 0

  constructor(clock: Pick<Clock, 'monotonicUs'>) {
    this.#clock = clock
    this.#beganUs = clock.monotonicUs()
  }

  /** The number of jobs taken so far. */
  get rows(): number {
    return this.#rows
  }

  /** Takes the jobs of the next part, at most `wanted`, as many as the time allows by the pace so far; 0: it is over. */
  take(wanted: number): number {
    const tookUs = this.#clock.monotonicUs() - this.#beganUs
    const leftUs = Reach.US_AT_MOST - tookUs
    const left = Reach.ROWS_AT_MOST - this.#rows
    if (left <= 0 || leftUs <= 0) return 0
    const inTime = tookUs <= 0 ? left : Math.max(FIRST_ROWS, Math.floor((this.#rows / tookUs) * leftUs * MARGIN))
    const rows = Math.min(wanted, left, inTime)
    this.#rows += rows
    return rows
  }
}

/** The spans to search for the jobs of a filter, newest first: one where a single statement finds them quickly. */
export async function* spansOf(
  store: Store,
  match: JobMatch,
  before?: number,
  reach?: Reach,
): AsyncGenerator<JobSpan, void, undefined> {
  const behind = before === undefined ? {} : { before }
  const seqs = isQuick(match) ? null : await fewInStates(store, match)
  if (isQuick(match)) yield behind
  else if (seqs) yield { seqs, ...behind }
  else yield* allSpans(store, before, reach)
}

/** The jobs in the states of a filter, if they are few: these are found by their states. Null: they are many. */
async function fewInStates(store: Store, { states }: JobMatch): Promise<readonly number[] | null> {
  if (!states?.every((state): state is IndexedState => UNINDEXED.every((each) => each !== state))) return null
  const seqs = await store.jobsInStates(states, FEW + 1)
  return seqs.length > FEW ? null : seqs
}

/**
 * Splits all jobs before `before` into spans, newest first, as far as `reach` allows. Between two spans the process
 * turns to other work: on SQLite a statement holds it up while it runs.
 */
export async function* allSpans(
  store: Store,
  before?: number,
  reach?: Reach,
): AsyncGenerator<JobSpan, void, undefined> {
  let end = before
  for (let wanted = FIRST_ROWS; ; wanted = Math.min(wanted * GROWTH, MOST_ROWS)) {
    const rows = reach ? reach.take(wanted) : wanted
    const from = rows === 0 ? null : await store.oldestOf(rows, end)
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

/** The newest jobs that match, older than `before`; those of one flow in its order, behind the node `before`. */
export async function searchJobs(
  store: Store,
  match: JobMatch,
  limit: number,
  before?: number,
  reach?: Reach,
): Promise<Searched<readonly JobRecord[]>> {
  if (match.flow !== undefined) {
    const found = await store.list({ ...match, limit, ...(before !== undefined && { afterNode: before }) })
    return { found, rows: found.length, from: null }
  }
  const found: JobRecord[] = []
  const look = async (span: JobSpan): Promise<boolean> => {
    found.push(...(await store.list({ ...match, ...span, limit: limit - found.length })))
    return found.length === limit
  }
  return { found, ...(await lookThrough(store, match, before, reach, look)) }
}

/**
 * The number of jobs that match. Jobs that change during the count count as they are when it meets them.
 * @param change only jobs that it applies to
 */
export async function countMatches(
  store: Store,
  match: JobMatch,
  change?: JobChange,
  reach?: Reach,
): Promise<Searched<number>> {
  let found = 0
  const looked = await lookThrough(store, match, undefined, reach, async (span) => {
    found += await store.countJobs(match, span, change)
    return false
  })
  return { found, ...looked }
}

/** Looks at one span after the other until `look` answers that it is enough. */
async function lookThrough(
  store: Store,
  match: JobMatch,
  before: number | undefined,
  reach: Reach | undefined,
  look: (span: JobSpan) => Promise<boolean>,
): Promise<{ readonly rows: number; readonly from: number | null }> {
  let from: number | null = null
  for await (const span of spansOf(store, match, before, reach)) {
    from = span.from ?? null
    if (await look(span)) return { rows: reach?.rows ?? 0, from: null }
  }
  // It has stopped for its reach only if there are jobs behind the last span.
  const isOver = from === null || (await store.oldestOf(1, from)) === null
  return { rows: reach?.rows ?? 0, from: isOver ? null : from }
}
