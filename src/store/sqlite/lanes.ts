import { laneKey } from '../../jobs/lane.ts'
import { bucketId, wakeLine } from './buckets.ts'
import { type Context, openLineOf } from './context.ts'
import { LANE } from './state.ts'

/** Outside the claim, this file alone writes lanes: whatever changes a lane's head opens it again, and the next claim looks at it. */

/** What a job says of the lane that it stands in. */
export interface LaneSpec {
  readonly queue: string
  readonly uses: readonly { readonly limit: string; readonly key: string }[]
  readonly fairKey?: string
  readonly share?: number
}

type Row = [state: number, priority: number, head: number, turn: number, bucket: number | null, deputyOf: number | null]

/**
 * The number of the lane of a job with these buckets and this fair key, which is created when new; the queue's open line without any.
 * A lane has the share of the job that came last.
 */
export function laneOf(context: Context, queue: number, spec: LaneSpec, nowUs: number): number {
  if (spec.uses.length === 0 && spec.fairKey === undefined) return openLineOf(queue)
  const key = laneKey(spec.queue, spec.uses, spec.fairKey ?? null)
  // Never remembered: another process may have forgotten the lane, and its number may be another's by now.
  const found = context.db.get<[number, number]>('SELECT id, share FROM lanes WHERE key = ?', key)
  if (!found) return createLane(context, key, queue, spec, nowUs)
  const [id, known] = found
  const { share = 1 } = spec
  if (share !== known) context.db.run('UPDATE lanes SET share = ? WHERE id = ?', share, id)
  return id
}

/**
 * A job has come to its lane: an empty lane opens, and one whose head it outranks is looked at again.
 * @param look have the lane looked at even if its head stays: a job with a bound on its wait must learn soon that it comes too late.
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
  const row = context.db.get<Row>('SELECT state, priority, head, turn, bucket, deputy_of FROM lanes WHERE id = ?', lane)
  if (!row) throw new RangeError(`Lane ${lane} is named by a job, but it is not stored`)
  const [state, headPriority, head, turn] = row
  if (state === LANE.empty) {
    // A turn of several starts is not to be broken into by a lane that came at the same instant: no two have the same.
    context.turns.given = Math.max(turn, nowUs, context.turns.given + 1)
    // Turns are about times of service: a newcomer stands behind all that wait, so that no stream of new lanes can starve one.
    context.db.run(
      'UPDATE lanes SET state = ?, priority = ?, head = ?, turn = ?, taken = 0 WHERE id = ?',
      LANE.open,
      priority,
      seq,
      context.turns.given,
      lane,
    )
  } else if (priority > headPriority || (priority === headPriority && seq < head))
    openLane(context, lane, row, priority, seq, nowUs)
  else if (look && state === LANE.waiting) openLane(context, lane, row, headPriority, head, nowUs)
}

/** A waiting job has left its lane (cancelled, changed, rejected): if it was the head, the lane opens for the next. */
export function depart(context: Context, lane: number, seq: number, nowUs: number): void {
  if (lane < 0) return
  const row = context.db.get<Row>('SELECT state, priority, head, turn, bucket, deputy_of FROM lanes WHERE id = ?', lane)
  if (!row || row[0] === LANE.empty || row[2] !== seq) return
  const next = context.db.get<[number, number]>(
    'SELECT priority, seq FROM jobs WHERE lane = ? AND state = 1 ORDER BY priority DESC, seq LIMIT 1',
    lane,
  )
  if (next) return openLane(context, lane, row, next[0], next[1], nowUs)
  leaveLine(context, row, nowUs)
  context.db.run(
    'UPDATE lanes SET state = ?, bucket = NULL, over = NULL, deputy_of = NULL, emptied = ? WHERE id = ?',
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

/** Whoever becomes first in the line that it leaves, or is freed by its leaving, is looked at again. */
function leaveLine(context: Context, row: Row, nowUs: number): void {
  const [, , , , bucket, deputyOf] = row
  if (bucket !== null) wakeLine(context, bucket, nowUs)
  if (deputyOf !== null) wakeLine(context, deputyOf, nowUs)
}

function createLane(context: Context, key: string, queue: number, spec: LaneSpec, nowUs: number): number {
  const { uses, share = 1, fairKey = null } = spec
  const buckets = uses.map((use) => bucketId(context, use.limit, use.key, nowUs))
  for (const bucket of buckets) context.db.run('UPDATE buckets SET lanes = lanes + 1 WHERE id = ?', bucket)
  const { lastInsertRowid } = context.db
    .prepare('INSERT INTO lanes (key, queue, buckets, emptied, share, fair) VALUES (?, ?, ?, ?, ?, ?)')
    .run(key, queue, JSON.stringify(buckets), nowUs, share, fairKey)
  return Number(lastInsertRowid)
}
