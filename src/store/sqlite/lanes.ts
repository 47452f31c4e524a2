import { laneKey } from '../../jobs/lane.ts'
import { levelOfHead } from '../../policy/admission/guaranteed.ts'
import {
  decodeScanCursor,
  encodeScanCursor,
  isBehind,
  type ScanCursor,
  removeFrom,
} from '../../policy/admission/scan-cursor.ts'
import { bucketId, wakeLine } from './buckets.ts'
import { type Context, unlimitedLaneOf } from './context.ts'
import { LANE } from '../shared/state.ts'
import { FIRST_JOB, viewsFor, viewsOf } from './views.ts'

/**
 * Outside the claim, only this file writes lanes. A change of a lane's head opens the lane again, and the next claim
 * evaluates it.
 */

/** The fields of a job that define its lane. */
export interface LaneSpec {
  readonly queue: string
  readonly uses: readonly { readonly limit: string; readonly key: string }[]
  readonly fairKey?: string
  readonly share?: number
}

type Row = [
  state: number,
  priority: number,
  head: number,
  turn: number,
  bucket: number | null,
  deputyOf: number | null,
  sieve: string | null,
]

const LANE_ROW = 'SELECT state, priority, head, turn, bucket, deputy_of, sieve FROM lanes WHERE id = ?'

/**
 * The lane number for a job with these buckets and this fair key; the queue's unlimited lane without any. A new lane is
 * created. A lane has the share of the job that came last, and so have its views.
 */
export function laneOf(context: Context, queue: number, spec: LaneSpec, nowUs: number): number {
  const { uses, share = 1, fairKey = null } = spec
  if (uses.length === 0 && fairKey === null) return unlimitedLaneOf(queue)
  const spread = uses.some(({ limit, key }) => context.policies.current.policy(limit, key)?.scope === 'worker')
  const key = `${laneKey(spec.queue, uses, fairKey)}${spread ? '\0' : ''}`
  // Never cached: another process may have forgotten the lane, and its number may belong to another lane now.
  const found = context.db.get<[number, number]>('SELECT id, share FROM lanes WHERE key = ?', key)
  if (!found) return createLane(context, key, queue, spec, nowUs, spread)
  const [id, known] = found
  if (share !== known) context.db.run('UPDATE lanes SET share = ?1 WHERE id = ?2 OR base = ?2', share, id)
  return id
}

/**
 * Adds a job to its lane. An empty lane opens, and one whose head it outranks is evaluated again.
 * @param look evaluates the lane even if its head stays. A job with a bound on its wait has to learn early that it
 * comes too late. The same holds for a lane that shows its jobs' expected starts.
 */
export function arrive(
  context: Context,
  lane: number,
  priority: number,
  seq: number,
  nowUs: number,
  look = false,
): void {
  if (lane < 0) return
  const row = context.db.get<Row>(LANE_ROW, lane)
  if (!row) throw new RangeError(`Lane ${lane} is named by a job, but it is not stored`)
  const [state, stored, head, turn, , , sieve] = row
  const headPriority = levelOfHead({ priority: stored })
  if (state === LANE.spread) {
    for (const view of viewsFor(context, lane, nowUs)) arrive(context, view, priority, seq, nowUs)
    return
  }
  // The new job may make those behind it late, so the late scan restarts.
  if (sieve !== null && !isBehind(decodeScanCursor(sieve), { priority, seq })) forgetSieve(context, lane)
  if (state === LANE.empty) {
    // No two turns are equal: a lane that came at the same instant must not break into a turn of several starts.
    context.turns.given = Math.max(turn, nowUs, context.turns.given + 1)
    // Turns are times of service. A new lane stands behind all that wait, so that no stream of new lanes starves one.
    context.db.run(
      'UPDATE lanes SET state = ?, priority = ?, head = ?, turn = ?, taken = 0 WHERE id = ?',
      LANE.open,
      priority,
      seq,
      context.turns.given,
      lane,
    )
  } else if (state === LANE.parked) {
    // Claimers that passed the lane may list the new job's task.
    const first = priority > headPriority || (priority === headPriority && seq < head)
    openLane(context, lane, row, first ? priority : headPriority, first ? seq : head, nowUs)
  } else if (priority > headPriority || (priority === headPriority && seq < head))
    openLane(context, lane, row, priority, seq, nowUs)
  else if ((look || sieve !== null) && state === LANE.waiting) openLane(context, lane, row, headPriority, head, nowUs)
}

/**
 * Removes a waiting job from its lane (cancelled, changed, rejected). If it was the head, the lane opens for the next
 * job.
 * @param base the lane that holds the jobs, for a view of it
 */
export function depart(context: Context, lane: number, seq: number, nowUs: number, base: number = lane): void {
  if (lane < 0) return
  const row = context.db.get<Row>(LANE_ROW, lane)
  if (!row || row[0] === LANE.empty) return
  if (row[0] === LANE.spread) {
    for (const view of viewsOf(context, lane)) depart(context, view, seq, nowUs, lane)
    return
  }
  if (row[6] !== null) departSieve(context, lane, decodeScanCursor(row[6]), seq)
  if (row[2] !== seq) return
  const next = context.db.get<[number, number]>(FIRST_JOB, base)
  if (next) return openLane(context, lane, row, next[0], next[1], nowUs)
  leaveLine(context, row, nowUs)
  context.db.run(
    'UPDATE lanes SET state = ?, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, emptied = ? WHERE id = ?',
    LANE.empty,
    nowUs,
    lane,
  )
}

function openLane(context: Context, lane: number, row: Row, priority: number, head: number, nowUs: number): void {
  leaveLine(context, row, nowUs)
  context.db.run(
    'UPDATE lanes SET state = ?, priority = ?, head = ?, bucket = NULL, over = NULL, deputy_of = NULL WHERE id = ?',
    LANE.open,
    priority,
    head,
    lane,
  )
}

/** Forgets the lane's scan cursor, which no longer matches its waiting jobs. */
export function forgetSieve(context: Context, lane: number): void {
  context.db.run('UPDATE lanes SET sieve = NULL WHERE id = ? AND sieve IS NOT NULL', lane)
}

function departSieve(context: Context, lane: number, sieve: ScanCursor, seq: number): void {
  const [priority] = context.db.get<[number]>('SELECT priority FROM jobs WHERE seq = ?', seq) as [number]
  if (isBehind(sieve, { priority, seq })) return
  const rest = removeFrom(sieve)
  context.db.run('UPDATE lanes SET sieve = ? WHERE id = ?', rest && encodeScanCursor(rest), lane)
}

/** Re-evaluates the new head of the wait list that a lane leaves, and the lanes that it no longer shadows. */
function leaveLine(context: Context, row: Row, nowUs: number): void {
  const [, , , , bucket, deputyOf] = row
  if (bucket !== null) wakeLine(context, bucket, nowUs)
  if (deputyOf !== null) wakeLine(context, deputyOf, nowUs)
}

function createLane(
  context: Context,
  key: string,
  queue: number,
  spec: LaneSpec,
  nowUs: number,
  spread: boolean,
): number {
  const { uses, share = 1, fairKey = null } = spec
  const buckets = uses.map((use) => bucketId(context, use.limit, use.key, nowUs))
  for (const bucket of buckets) context.db.run('UPDATE buckets SET lanes = lanes + 1 WHERE id = ?', bucket)
  const { lastInsertRowid } = context.db
    .prepare('INSERT INTO lanes (key, queue, buckets, state, emptied, share, fair) VALUES (?, ?, ?, ?, ?, ?, ?)')
    .run(key, queue, JSON.stringify(buckets), spread ? LANE.spread : LANE.empty, nowUs, share, fairKey)
  return Number(lastInsertRowid)
}
