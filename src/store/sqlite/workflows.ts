import type { Instant } from '../../jobs/series.ts'
import type { Arrival } from '../../jobs/workflow.ts'
import { STATE } from '../shared/state.ts'
import type { Member, Placement } from '../shared/workflows/place.ts'
import { columns, numbers, numbersOrNull, type RowOf } from '../shared/columns.ts'
import type { FlowAccess } from '../shared/sql.ts'
import { returnPermits } from './buckets.ts'
import { type Context, queueId, queueName } from './context.ts'
import { insert, type Place, placeOf } from './enqueue.ts'
import { arrive, depart } from './lanes.ts'
import { rejoin } from './rejoin.ts'
import { sharedSql } from './portable-sql.ts'

// `m`: seq, new seq, state, queue, lane, level, priority, most attempts, attempt, due, weights, step, awaits, input, kept, bytes.
const MOVE = `UPDATE jobs SET state = m.value ->> 2, queue = m.value ->> 3, lane = m.value ->> 4, priority = m.value ->> 5, asked = m.value ->> 6,
    max_attempts = m.value ->> 7, attempt = m.value ->> 8, due = m.value ->> 9, weights = m.value ->> 10, step = m.value ->> 11, awaits = m.value ->> 12,
    input = coalesce(m.value ->> 13, input), kept = m.value ->> 14, bytes = m.value ->> 15,
    moves = moves + 1, pushed_back = 0, since = ?2, worker = NULL, expires = NULL, booked = NULL, finished = NULL
  FROM json_each(?1) m WHERE jobs.seq = m.value ->> 0`
const RENUMBER = 'UPDATE jobs SET seq = ? WHERE seq = ?'
const MEMBER = 'UPDATE jobs SET step = ?, item = ?, attempt = ? WHERE flow = ? AND node = ?'
const LANE = columns({ ...numbers('seq', 'lane', 'priority'), ...numbersOrNull('expires') })
const LANES = `SELECT ${LANE.list} FROM jobs WHERE seq IN (SELECT value FROM json_each(?))`

/** The access of the logic of workflow flows to this store. */
export function flowAccessOf(context: Context): FlowAccess {
  const { db, clock, retention } = context
  return {
    db: sharedSql(db),
    retention,
    now: () => clock.read(),
    queueName: (stored) => queueName(context, stored as number),
    lockBuckets: () => undefined,
    returnPermits: (ids) => returnPermits(context, JSON.stringify(ids), clock.nowUs()),
    leaveLanes: (seqs, nowUs) => lanesOf(context, seqs).forEach(({ seq, lane }) => depart(context, lane, seq, nowUs)),
    tellCancelled: () => context.tellCancelled(),
    wakeJobs: (seqs) => lanesOf(context, seqs).forEach((job) => rejoin(context, job, clock.read())),
    placeJobs: (moves) => place(context, moves),
    insertMembers: (members) => insertMembers(context, members),
  }
}

function lanesOf({ db }: Context, seqs: readonly number[]): RowOf<typeof LANE>[] {
  return db.all(LANES, JSON.stringify(seqs)).map((row) => LANE.read(row))
}

function place(context: Context, moves: readonly Placement[]): void {
  context.policies.refresh()
  const instant = context.clock.read()
  const [last] = moves.some(({ isNew }) => isNew)
    ? (context.db.get<[number]>('SELECT max(seq) FROM jobs') as [number])
    : [0]
  let given = last
  const placed = moves.map((move) => {
    const at = placeFor(context, move, instant)
    if (!move.isNew) return { move, at, seq: move.seq }
    return { move, at, seq: ++given }
  })
  const rows = placed.map(({ move: { seq, arrival, parked, input, kept, bytes }, at }) => [
    seq,
    null,
    at.state,
    queueId(context, arrival.queue),
    at.lane,
    at.level,
    at.level === arrival.priority ? null : arrival.priority,
    arrival.maxAttempts,
    arrival.attempt,
    at.due,
    weightsOf(arrival),
    arrival.step,
    parked?.awaits ?? null,
    input,
    kept,
    bytes,
  ])
  context.db.run(MOVE, JSON.stringify(rows), instant.nowUs)
  for (const { move, seq } of placed) if (move.isNew) context.db.run(RENUMBER, seq, move.seq)
  for (const { at, seq } of placed)
    if (at.state === STATE.available) arrive(context, at.lane, at.level, seq, instant.nowUs, at.due !== null)
}

/** The place of a job that arrives there now, later, or once it wakes. */
function placeFor(context: Context, { arrival, parked }: Placement, instant: Instant): Place {
  const { queue, priority, uses, fairKey, share, maxAttempts, runAtMs, delayUs } = arrival
  const spec = { queue, priority, uses, maxAttempts, share, ...(fairKey !== null && { fairKey }) }
  const at = placeOf(context, { ...spec, runAtMs: parked ? null : runAtMs, expiresAtMs: null }, instant)
  if (parked) return { ...at, state: parked.dueUs === null ? STATE.pending : STATE.retryable, due: parked.dueUs }
  if (at.state !== STATE.available || delayUs === null || delayUs <= 0) return at
  return { ...at, state: STATE.retryable, due: instant.nowUs + delayUs }
}

function weightsOf({ uses }: Arrival): string | null {
  return uses.some(({ weight }) => weight !== 1) ? JSON.stringify(uses.map(({ weight }) => weight)) : null
}

function insertMembers(context: Context, members: readonly Member[]): void {
  context.policies.refresh()
  const instant = context.clock.read()
  for (const { flow, node, step, item, attempt, delayUs, job } of members) {
    insert(context, job, instant, { flow, node, waits: 0, plan: null }, delayUs)
    if (step !== null || item !== null || attempt > 0) context.db.run(MEMBER, step, item, attempt, flow, node)
  }
}
