import { bucketId, wakeLine } from './buckets.ts'
import { type Context, queueName } from './context.ts'
import { nameFor, ownQueue, readName } from './own.ts'
import { readAhead } from './read-ahead.ts'
import { column, columns, numbers, type RowOf, texts } from '../shared/columns.ts'
import { LANE, STATE } from '../shared/state.ts'

/** The first waiting job of a lane. */
export const FIRST_JOB: string = `SELECT priority, seq FROM jobs WHERE lane = ? AND state = ${STATE.available} ORDER BY priority DESC, seq LIMIT 1`
/** The states of jobs that may come back to their lane, in the words of the index `jobs_parked`: others do not find it. */
export const MAY_COME_BACK: string = [STATE.scheduled, STATE.retryable, STATE.pending, STATE.discarded]
  .map((state) => `state = ${state}`)
  .join(' OR ')

/**
 * Jobs under a limit of scope `worker` wait in one lane, and each worker has a view of it: a lane of its own queue and
 * buckets, without jobs of its own. A view waits in the wait list of its worker's bucket while others stay open. All
 * rules for lanes apply to views: no claim examines one while its bucket is closed, and its worker wakes at the
 * instant.
 */

const SPREAD = columns({
  ...numbers('id', 'queue', 'share'),
  ...texts('key', 'buckets'),
  fair: column<string | null>(),
})
type Spread = RowOf<typeof SPREAD>

const ADOPTED_AT_ONCE = 1000

/** The views of a spread lane, one for each worker that serves its queue; missing ones are created. */
export function viewsFor(context: Context, lane: number, nowUs: number): number[] {
  const spread = find(context, lane)
  const workers = context.db.all<[number]>(
    'SELECT id FROM workers WHERE EXISTS (SELECT 1 FROM json_each(workers.queues) WHERE value = ?)',
    queueName(context, spread.queue),
  )
  return workers.map(([worker]) => viewOf(context, spread, worker, nowUs))
}

/** The existing views of a spread lane. */
export function viewsOf(context: Context, lane: number): number[] {
  return context.db.all<[number]>('SELECT id FROM lanes WHERE base = ?', lane).map(([id]) => id)
}

/**
 * Creates a new worker's views of the lanes in which jobs already wait, a bounded number at a time.
 * @param arrive adds its first job to a view
 * @returns true: more are left
 */
export function adopt(
  context: Context,
  worker: number,
  queues: ReadonlySet<number>,
  nowUs: number,
  arrive: (view: number, priority: number, seq: number) => void,
): boolean {
  const after = context.adopted.get(worker) ?? 0
  if (after === Infinity) return false
  const found = context.db.all(
    `SELECT ${SPREAD.list} FROM lanes WHERE state = ${LANE.spread} AND id > ? ORDER BY id LIMIT ${readAhead(ADOPTED_AT_ONCE)}`,
    after,
  )
  const rows = found.map(SPREAD.read)
  for (const spread of rows) {
    if (!queues.has(spread.queue)) continue
    const head = context.db.get<[number, number]>(FIRST_JOB, spread.id)
    if (head) arrive(viewOf(context, spread, worker, nowUs), ...head)
    else dropSpread(context, spread.id)
  }
  const last = rows.at(-1)
  context.adopted.set(worker, last && rows.length >= ADOPTED_AT_ONCE ? last.id : Infinity)
  return rows.length >= ADOPTED_AT_ONCE
}

/** Ends a worker's registration: its views are deleted, and the rest of its own budgets is lost. */
export function dropViews(context: Context, worker: number, nowUs: number): void {
  context.adopted.delete(worker)
  const views = context.db.all<[number, string, number | null, number | null]>(
    'SELECT base, buckets, bucket, deputy_of FROM lanes WHERE worker = ?',
    worker,
  )
  for (const [, buckets, bucket, deputyOf] of views) {
    for (const id of JSON.parse(buckets) as number[])
      context.db.run('UPDATE buckets SET lanes = lanes - 1 WHERE id = ?', id)
    if (bucket !== null) wakeLine(context, bucket, nowUs)
    if (deputyOf !== null) wakeLine(context, deputyOf, nowUs)
  }
  if (views.length === 0) return
  context.db.run('DELETE FROM lanes WHERE worker = ?', worker)
  // No job waits there any more, and a worker's own bucket has no other lanes.
  context.db.run(
    'UPDATE buckets SET wake_at = NULL, deferred = 0, told = NULL WHERE lanes = 0 AND id IN (SELECT value FROM json_each(?))',
    JSON.stringify([...new Set(views.flatMap(([, buckets]) => JSON.parse(buckets) as number[]))]),
  )
  for (const [base] of views) dropSpread(context, base)
}

/** Deletes a spread lane without views, unless a job of it waits, runs or can come back. */
export function dropSpread(context: Context, lane: number): void {
  const row = context.db.get<[string]>(
    `SELECT buckets FROM lanes l WHERE id = ? AND NOT EXISTS (SELECT 1 FROM lanes v WHERE v.base = l.id)
     AND NOT EXISTS (SELECT 1 FROM jobs WHERE lane = l.id AND state = ${STATE.available})
     AND NOT EXISTS (SELECT 1 FROM jobs WHERE lane = l.id AND (${MAY_COME_BACK}))
     AND id NOT IN (SELECT lane FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL)`,
    lane,
  )
  if (row) deleteLane(context, lane, row[0])
}

/** @param buckets as stored */
export function deleteLane(context: Context, lane: number, buckets: string): void {
  context.db.run('DELETE FROM lanes WHERE id = ?', lane)
  context.db.run('DELETE FROM drop_watch WHERE lane = ?', lane)
  for (const bucket of JSON.parse(buckets) as number[])
    context.db.run('UPDATE buckets SET lanes = lanes - 1 WHERE id = ?', bucket)
}

/** Deletes the views of workers that are gone. */
export function dropViewsOfTheGone(context: Context, nowUs: number): void {
  const gone = context.db.all<[number]>(
    'SELECT DISTINCT worker FROM lanes WHERE worker IS NOT NULL AND worker NOT IN (SELECT id FROM workers)',
  )
  for (const [worker] of gone) dropViews(context, worker, nowUs)
}

function find(context: Context, lane: number): Spread {
  const row = SPREAD.read(context.db.get(`SELECT ${SPREAD.list} FROM lanes WHERE id = ?`, lane))
  if (!row) throw new RangeError(`Lane ${lane} is named by a job, but it is not stored`)
  return row
}

/** The buckets that a worker uses for those of the fleet, or of all workers. */
export function ownBuckets(context: Context, ids: readonly number[], worker: number, nowUs: number): number[] {
  return ids.map((id) => {
    const [stored, of] = context.db.get<[string, string]>('SELECT limit_name, key FROM buckets WHERE id = ?', id) as [
      string,
      string,
    ]
    return bucketId(context, nameFor(context, readName(stored).limit, of, worker), of, nowUs)
  })
}

function viewOf(context: Context, spread: Spread, worker: number, nowUs: number): number {
  const key = `${spread.key}\0${worker}`
  const found = context.db.get<[number]>('SELECT id FROM lanes WHERE key = ?', key)
  if (found) return found[0]
  const buckets = ownBuckets(context, JSON.parse(spread.buckets) as number[], worker, nowUs)
  for (const bucket of buckets) context.db.run('UPDATE buckets SET lanes = lanes + 1 WHERE id = ?', bucket)
  const { lastInsertRowid } = context.db
    .prepare(
      'INSERT INTO lanes (key, queue, buckets, base, worker, emptied, share, fair) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    )
    .run(
      key,
      ownQueue(spread.queue, worker),
      JSON.stringify(buckets),
      spread.id,
      worker,
      nowUs,
      spread.share,
      spread.fair,
    )
  return Number(lastInsertRowid)
}
