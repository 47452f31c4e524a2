import { shownQueue } from '../contract/budgets.ts'
import type { LimitTotals } from '../contract/limits.ts'
import type { QueueCount } from '../contract/queues.ts'
import type { SampledList, StoreSample } from '../contract/sample.ts'
import { column, columns, type RowOf } from './columns.ts'
import type { Reading } from './reading.ts'
import { startUs } from './limit-keys.ts'
import { type Access, all, get, now, type Sql, type SqlValue } from './sql.ts'
import { LANE, STATE, stateName } from './state.ts'
import { namesOf } from './stored-bucket.ts'

/** A sample has so many blocks of so many rows, spread over the numbers of a table. */
const BLOCKS = 100
const BLOCK_ROWS = 50
/** Moves the block within its part of the table, so that no pattern of the rows is met each time. */
const GOLDEN = 0.618_033_988_749_895
/** Wait lists with fewer sampled jobs than this are counted; of the others, the number is the estimate. */
const SURE = 30
/** Wait lists that a sample names. */
const LISTS = 100
/** States of which the sample met fewer jobs than this are counted up to so many: it may have met none of a few. */
const RARE = 10_000
const GROUP = columns({
  queue: column<string | number>('j.queue'),
  state: column<number>('j.state'),
  shown: column<number>(),
  bucket: column<number | null>(),
  jobs: column<number>('count(*) AS jobs'),
  oldest: column<number>('min(j.seq)'),
})
const BUCKET = columns({
  id: column<number>('b.id'),
  limit: column<string>('b.limit_name'),
  key: column<string>('b.key'),
  worker: column<number>('b.worker'),
  active: column<number>('b.active'),
  wakeAtUs: column<number | null>('b.wake_at'),
})
const LIST = columns({
  queue: column<string | number>('l.queue'),
  bucket: column<number>('l.bucket'),
  jobs: column<number>('count(*)'),
})
const TOTALS = columns({
  limit: column<string>('limit_name'),
  keys: column<number>('count(*)'),
  active: column<number>('sum(active)::bigint'),
  heldKeys: column<number>('count(wake_at)'),
  wakeAtUs: column<number | null>('min(wake_at)'),
})

/** Some of the numbers of a table. A statement that names them all is planned as what it is: a few thousand look-ups. */
interface Sampled {
  readonly numbers: readonly number[]
  /** Numbers of the table for one of these. */
  readonly factor: number
}

/** Jobs of one queue, state and wait list. */
interface Group extends RowOf<typeof GROUP> {
  /** False: `jobs` are as many as the sample suggests. */
  readonly exact: boolean
}

/**
 * Estimates what waits, from some thousand jobs. States of few jobs are counted. Null: the store has fewer than
 * `atLeast` jobs, by the sample, so they are counted soon.
 */
export function* sample(access: Access, atLeast: number): Reading<StoreSample | null> {
  const { nowUs } = yield* now(access)
  const { numbers, factor } = yield* numbersOf(access.db, 'jobs', 'seq')
  if (factor * numbers.length < atLeast) return null
  const some = 'SELECT queue, seq, state, lane, booked FROM sluice.jobs WHERE seq = ANY ($1::bigint[])'
  const met = yield* groupsOf(access, some, [numbers, nowUs])
  if (sumOf(met) * factor < atLeast) return null
  const sampled = met.map((each) => ({ ...each, jobs: each.jobs * factor, exact: factor === 1 }))
  const groups = factor === 1 ? sampled : yield* withRare(access, sampled, nowUs)
  const { lists, byLimit } = yield* listsOf(
    access,
    groups.filter(({ bucket }) => bucket !== null),
    factor,
    nowUs,
  )
  return {
    counts: countsOf(access, groups),
    waiting: [...byLimit.values()].reduce((sum, jobs) => sum + jobs, 0),
    lists,
    totals: yield* totalsOf(access, byLimit, nowUs),
  }
}

/** Counts the states of few jobs instead: of these the sample may have met none, or too many. */
function* withRare(access: Access, sampled: readonly Group[], nowUs: number): Reading<Group[]> {
  let groups = [...sampled]
  for (const state of Object.values(STATE)) {
    const met = sampled.filter((each) => each.state === state)
    if (sumOf(met) >= RARE) continue
    const isWaiting = state === STATE.available
    const notes = isWaiting ? 'lane, booked' : 'NULL::text AS lane, NULL::bigint AS booked'
    const jobs = `${access.inState(state, `queue, seq, state, ${notes}`)} LIMIT $1`
    const counted = yield* groupsOf(access, jobs, [RARE, nowUs])
    const exact = sumOf(counted) < RARE
    if (!exact && met.length > 0) continue
    groups = [...groups.filter((each) => each.state !== state), ...counted.map((each) => ({ ...each, exact }))]
  }
  return groups
}

function sumOf(groups: readonly { readonly jobs: number }[]): number {
  return groups.reduce((sum, { jobs }) => sum + jobs, 0)
}

/** Counts selected jobs by queue, state and wait list. @param values $2 is the time */
function* groupsOf(access: Access, jobs: string, values: readonly SqlValue[]): Reading<RowOf<typeof GROUP>[]> {
  const rows = yield* all(
    access.db,
    `SELECT ${GROUP.list} FROM (SELECT j.queue, j.seq, j.state, ${bucketOf(access)} AS bucket,
       CASE WHEN j.state = ${STATE.available} AND j.booked > $2 THEN ${STATE.scheduled} ELSE j.state END AS shown
       FROM (${jobs}) j) j GROUP BY j.queue, j.state, shown, bucket`,
    ...values,
  )
  return rows.map(GROUP.read)
}

/** The bucket in whose wait list a job `j` stands; null: in none that all workers share. */
function bucketOf({ laneKey }: Access): string {
  return `CASE WHEN j.state = ${STATE.available} THEN
    (SELECT l.bucket FROM sluice.lanes l WHERE l.${laneKey} = j.lane AND l.state = ${LANE.waiting}) END`
}

function countsOf({ queueName }: Access, groups: readonly Group[]): QueueCount[] {
  const byState = Map.groupBy(groups, ({ queue, shown }) => `${shown} ${queueName(queue)}`)
  return [...byState.values()].map((some) => {
    const [{ queue, shown }] = some as [Group]
    return {
      queue: queueName(queue),
      state: stateName(shown),
      jobs: Math.round(sumOf(some)),
      oldest: Math.min(...some.map(({ oldest }) => oldest)),
    }
  })
}

/** The sampled wait lists: those with the most sampled jobs by name, all of them in the sums by limit. */
function* listsOf(
  access: Access,
  groups: readonly Group[],
  factor: number,
  nowUs: number,
): Reading<{ lists: SampledList[]; byLimit: Map<string, number> }> {
  const { db, limitName } = access
  const ids = [...new Set(groups.map(({ bucket }) => bucket as number))]
  const rows = yield* all(db, `SELECT ${BUCKET.list} FROM sluice.buckets b WHERE b.id = ANY ($1::bigint[])`, ids)
  const buckets = new Map(rows.map(BUCKET.read).map((each) => [each.id, each]))
  const byLimit = new Map<string, number>()
  for (const { bucket, jobs } of groups) {
    const limit = limitName(buckets.get(bucket as number)?.limit ?? '')
    byLimit.set(limit, (byLimit.get(limit) ?? 0) + Math.round(jobs))
  }
  const longest = groups.toSorted((a, b) => b.jobs - a.jobs).slice(0, LISTS)
  const isSure = ({ jobs, exact }: Group): boolean => exact || jobs >= SURE * factor
  const counted = yield* countsIn(
    access,
    longest.filter((each) => !isSure(each)).map(({ bucket }) => bucket as number),
  )
  const sure = longest.filter(isSure).map((each) => ({ ...each, jobs: Math.round(each.jobs) }))
  const found = [...sure, ...counted]
  const lists = found.flatMap(({ queue, bucket, jobs }) => {
    const of = buckets.get(bucket as number)
    if (!of) return []
    return {
      queue: shownQueue(access.queueName(queue)),
      ...namesOf({ limit: limitName(of.limit), key: of.key, worker: of.worker }),
      active: of.active,
      waiting: jobs,
      wakeAtUs: of.wakeAtUs,
      nextStartUs: startUs(of.wakeAtUs, nowUs),
    }
  })
  return { lists: lists.toSorted((a, b) => b.waiting - a.waiting), byLimit }
}

/** The jobs in the wait lists of some buckets, by queue. */
function* countsIn({ db, laneKey }: Access, buckets: readonly number[]): Reading<RowOf<typeof LIST>[]> {
  const rows = yield* all(
    db,
    `SELECT ${LIST.list} FROM sluice.lanes l CROSS JOIN sluice.jobs j WHERE l.bucket = ANY ($1::bigint[])
     AND l.state = ${LANE.waiting} AND j.lane = coalesce(l.base, l.${laneKey}) AND j.state = ${STATE.available}
     GROUP BY l.queue, l.bucket`,
    buckets,
  )
  return rows.map(LIST.read)
}

/** Estimates the budgets of the limits, from some of them. No index by worker is wanted: the numbers are few. */
function* totalsOf(access: Access, waiting: ReadonlyMap<string, number>, nowUs: number): Reading<LimitTotals[]> {
  const { db, limitName } = access
  const { numbers, factor } = yield* numbersOf(db, 'buckets', 'id')
  const rows = yield* all(
    db,
    `SELECT ${TOTALS.list} FROM sluice.buckets b WHERE b.id = ANY ($1::bigint[]) AND b.worker + 0 = 0 GROUP BY limit_name`,
    numbers,
  )
  return rows.map(TOTALS.read).map(({ limit, keys, active, heldKeys, wakeAtUs }) => ({
    limit: limitName(limit),
    keys: Math.round(keys * factor),
    active: Math.round(active * factor),
    waiting: waiting.get(limitName(limit)) ?? 0,
    heldKeys: Math.round(heldKeys * factor),
    nextStartUs: startUs(wakeAtUs, nowUs),
  }))
}

/** Blocks of numbers, spread evenly over a table; all numbers of a small one. */
function* numbersOf(db: Sql, table: 'jobs' | 'buckets', number: 'seq' | 'id'): Reading<Sampled> {
  const end = (which: string): string => `(SELECT ${which}(${number}) FROM sluice.${table})`
  const [from, to] = (yield* get<[number | null, number | null]>(db, `SELECT ${end('min')}, ${end('max')}`)) ?? []
  if (typeof from !== 'number' || typeof to !== 'number') return { numbers: [], factor: 1 }
  const part = Math.ceil((to - from + 1) / BLOCKS)
  const rows = Math.min(part, BLOCK_ROWS)
  const starts = Array.from(
    { length: BLOCKS },
    (_, n) => from + n * part + Math.floor(((n * GOLDEN) % 1) * (part - rows)),
  )
  return { numbers: starts.flatMap((start) => Array.from({ length: rows }, (_, n) => start + n)), factor: part / rows }
}
