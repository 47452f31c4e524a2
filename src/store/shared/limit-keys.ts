import { isStorable } from '../../base/text.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { shownQueue } from '../contract/budgets.ts'
import type { KeyCount, KeyQuery, LimitTotals } from '../contract/limits.ts'
import type { Throttled, ThrottledRow } from '../contract/waits.ts'
import { column, columns } from './columns.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, now } from './sql.ts'
import { LANE, STATE } from './state.ts'
import { namesOf } from './stored-bucket.ts'

const KEY_COUNT = columns({
  key: column<string>(),
  waiting: column<number>(),
  active: column<number>(),
  wakeAtUs: column<number | null>('wake_at'),
})
const TOTALS = columns({
  limit: column<string>('limit_name'),
  keys: column<number>('count(*)'),
  active: column<number>('sum(active)::bigint'),
  waiting: column<number>('sum(waiting)::bigint'),
  heldKeys: column<number>('sum(CASE WHEN waiting > 0 THEN 1 ELSE 0 END)::bigint'),
  nextStartUs: column<number | null>('min(CASE WHEN waiting > 0 THEN wake_at END)'),
})
const THROTTLED = columns({
  queue: column<string | number>('l.queue'),
  limit: column<string>('b.limit_name'),
  key: column<string>('b.key'),
  worker: column<number>('b.worker'),
  wakeAtUs: column<number | null>('b.wake_at'),
  waiting: column<number>('count(*) AS waiting'),
  base: column<string | number | null>('min(l.base)'),
})

/** Keys of a limit with the number of jobs in their wait lists. It counts one by one, so it is not for a hot path. */
export function* limitKeys(access: Access, { limit, sort, after, rows }: KeyQuery): Reading<KeyCount[]> {
  const { db } = access
  const { nowUs } = yield* now(access)
  const counted = `SELECT b.key, ${waitingIn(access)} AS waiting, b.active, b.wake_at FROM sluice.buckets b
    WHERE b.limit_name = $1 AND b.worker = 0`
  const key = 'key COLLATE "C"'
  const last = after?.key ?? null
  if (sort === 'next') return yield* keysByStart(access, { limit, after, rows }, nowUs)
  const found =
    sort === 'key'
      ? yield* all(
          db,
          `${counted} AND ${last === null ? '$2::text IS NULL' : `b.${key} > $2`} ORDER BY b.${key} LIMIT $3`,
          limit,
          last,
          rows,
        )
      : yield* all(
          db,
          `SELECT ${KEY_COUNT.list} FROM (${counted}) k
           WHERE $2::bigint IS NULL OR waiting < $2 OR (waiting = $2 AND ${key} > $3) ORDER BY waiting DESC, ${key} LIMIT $4`,
          limit,
          after?.waiting ?? null,
          last,
          rows,
        )
  return found.map((row) => keyCount(row, nowUs))
}

/** Keys by the next start, and behind them those in whose wait lists nothing is. Only a page of them is counted. */
function* keysByStart(
  access: Access,
  { limit, after, rows }: Omit<KeyQuery, 'sort'>,
  nowUs: number,
): Reading<KeyCount[]> {
  const { db } = access
  const key = 'b.key COLLATE "C"'
  const page = (where: string): string =>
    `SELECT key, ${waitingIn(access)} AS waiting, active, wake_at FROM (SELECT * FROM sluice.buckets b WHERE ${where}) b`
  const of = 'b.limit_name = $1 AND b.worker = 0'
  const waiting =
    page(`${of} AND b.wake_at IS NOT NULL AND ($2::bigint IS NULL OR b.wake_at > $2 OR (b.wake_at = $2 AND ${key} > $3))
    ORDER BY b.wake_at, ${key} LIMIT $4`)
  const idle = page(`${of} AND b.wake_at IS NULL AND ($2::text IS NULL OR ${key} > $2) ORDER BY ${key} LIMIT $3`)
  const isIdle = after?.wakeAtUs === null
  const last = after?.key ?? null
  const found = isIdle ? [] : yield* all(db, waiting, limit, after?.wakeAtUs ?? null, last, rows)
  if (found.length < rows) found.push(...(yield* all(db, idle, limit, isIdle ? last : null, rows - found.length)))
  return found.map((row) => keyCount(row, nowUs))
}

function keyCount(row: readonly unknown[], nowUs: number): KeyCount {
  const fields = KEY_COUNT.read(row)
  return { ...fields, nextStartUs: startUs(fields.wakeAtUs, nowUs) }
}

/** The first jobs in the wait list of one budget, by priority and age. */
export function* waitList({ db, laneKey }: Access, limit: string, key: string, rows: number): Reading<string[]> {
  if (!isStorable(limit) || !isStorable(key)) return []
  const found = yield* all<[string]>(
    db,
    `SELECT j.id FROM sluice.buckets b JOIN sluice.lanes l ON l.bucket = b.id CROSS JOIN sluice.jobs j
     WHERE b.limit_name = $1 AND b.key = $2 AND b.worker = 0 AND l.state = ${LANE.waiting}
       AND j.lane = coalesce(l.base, l.${laneKey}) AND j.state = ${STATE.available}
     ORDER BY j.priority DESC, j.seq LIMIT $3`,
    limit,
    key,
    rows,
  )
  return found.map(([id]) => id)
}

/** All budgets of each of these limits together. */
export function* limitTotals(access: Access, limits: readonly string[]): Reading<LimitTotals[]> {
  const { nowUs } = yield* now(access)
  const rows = yield* all(
    access.db,
    `SELECT ${TOTALS.list} FROM (SELECT b.limit_name, b.active, b.wake_at, ${waitingIn(access)} AS waiting
     FROM sluice.buckets b WHERE b.limit_name = ANY ($1::text[]) AND b.worker = 0) t GROUP BY limit_name`,
    limits,
  )
  return rows.map(TOTALS.read).map((each) => ({ ...each, nextStartUs: startUs(each.nextStartUs, nowUs) }))
}

/** Buckets whose wait lists one part counts: some ms, in which an embedded store does nothing else. */
const PART = 2000
const LAST_OF_PART = `SELECT max(id) FROM (SELECT id FROM sluice.buckets WHERE id > $1 AND wake_at IS NOT NULL
  ORDER BY id LIMIT ${PART}) b`

/** Waiting jobs by queue and by the bucket in whose wait list they stand, the longest first. */
export function* throttled(access: Access, rows: number, after = 0): Reading<Throttled> {
  const { db, laneKey } = access
  const { nowUs } = yield* now(access)
  const [last] = (yield* get<[number | null]>(db, LAST_OF_PART, after)) as [number | null]
  const found = yield* all(
    db,
    `SELECT ${THROTTLED.list} FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket CROSS JOIN sluice.jobs j
     WHERE j.lane = coalesce(l.base, l.${laneKey}) AND j.state = ${STATE.available} AND l.state = ${LANE.waiting}
     AND l.bucket > $1 AND l.bucket <= $2
     GROUP BY b.id, l.queue ORDER BY waiting DESC, b.limit_name, b.key, l.queue`,
    after,
    last ?? after,
  )
  // Jobs of which each worker has a view wait in one list per worker. They are delayed once none of these is open. The
  // CASE keeps the planner from a join, which would read the wait lists of all others.
  const views = `SELECT 1 FROM sluice.lanes v WHERE v.base = l.${laneKey} AND v.state =`
  const [apart] =
    after > 0
      ? [0]
      : ((yield* get<[number]>(
          db,
          `SELECT count(*) FROM sluice.lanes l CROSS JOIN sluice.jobs j WHERE j.lane = l.${laneKey} AND j.state = ${STATE.available}
     AND l.state = ${LANE.spread}
     AND CASE WHEN EXISTS (${views} ${LANE.waiting}) THEN NOT EXISTS (${views} ${LANE.open}) ELSE false END`,
        )) as [number])
  const groups = found.map(THROTTLED.read)
  return {
    next: last,
    waiting: groups.reduce((sum, { waiting, base }) => sum + (base === null ? waiting : 0), apart),
    rows: joinStripes(
      groups.map(({ queue, limit, key, worker, wakeAtUs, waiting }) => ({
        queue: shownQueue(access.queueName(queue)),
        ...namesOf({ limit: access.limitName(limit), key, worker }),
        waiting,
        nextStartUs: startUs(wakeAtUs, nowUs),
      })),
    ).slice(0, rows),
  }
}

/** One row for each queue and bucket, the longest first: the lanes of a queue with stripes are counted by stripe. */
function joinStripes(rows: readonly ThrottledRow[]): ThrottledRow[] {
  const found = new Map<string, ThrottledRow>()
  for (const row of rows) {
    const name = JSON.stringify([row.queue, row.limit, row.key, row.worker])
    found.set(name, { ...row, waiting: row.waiting + (found.get(name)?.waiting ?? 0) })
  }
  return [...found.values()].toSorted((a, b) => b.waiting - a.waiting)
}

/** The possible start of the first in a wait list; null: a permit has to return first. */
export function startUs(wakeAtUs: number | null, nowUs: number): number | null {
  return wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
}

/** The jobs in the wait list of a bucket `b`. */
function waitingIn({ laneKey }: Access): string {
  return `(SELECT count(*) FROM sluice.lanes l CROSS JOIN sluice.jobs j WHERE j.lane = coalesce(l.base, l.${laneKey})
    AND j.state = ${STATE.available} AND l.bucket = b.id AND l.state = ${LANE.waiting})`
}
