import { type GrantedTicket, TICKETS } from '../../contract/budgets.ts'
import { ask, type Reading } from '../reading.ts'
import { type Access, all, get, isUuid, now, run } from '../sql.ts'
import { isEnd, STATE } from '../state.ts'

const REMOVE = `DELETE FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) AND worker = $2 AND state = ${STATE.active}`
const BEGIN = `${REMOVE} RETURNING seq, array_to_json(permits)::text`
const REMOVED = `${REMOVE} RETURNING array_to_json(permits)::text`
const PERMITS = `INSERT INTO sluice.permits (id, buckets, until)
  SELECT e.value ->> 0, e.value ->> 1, (e.value ->> 2)::bigint FROM json_array_elements($1::json) e
  WHERE true ON CONFLICT (id) DO NOTHING RETURNING id`
const WAITING = `SELECT seq FROM sluice.jobs WHERE id = ANY ($1::uuid[]) AND state = ${STATE.available} ORDER BY seq FOR UPDATE`
const LEFT = `UPDATE sluice.jobs SET state = ${STATE.cancelled} WHERE seq = ANY ($1::bigint[])`
const GONE = `DELETE FROM sluice.jobs WHERE id = ANY ($1::uuid[])
  AND state IN (${STATE.cancelled}, ${STATE.discarded}, ${STATE.completed})`
const KNOWN = 'SELECT id, state FROM sluice.jobs WHERE id = ANY ($1::uuid[])'
const QUEUES = 'SELECT name FROM sluice.queues WHERE name > $1 AND name < $2'
const WORKERS = 'SELECT array_to_json(queues)::text, alive_until FROM sluice.workers'
/** Tickets of dead processes that one call takes out. */
const AT_ONCE = 1000

/** Turns granted tickets into permits. Returns those that the worker still held, with the places of their permits. */
export function* beginTickets(
  access: Access,
  worker: number,
  tickets: readonly GrantedTicket[],
): Reading<ReadonlyMap<number, readonly number[]>> {
  const seqs = tickets.map(({ seq }) => seq)
  const rows = yield* all<[number, string | null]>(access.db, BEGIN, seqs, worker)
  const { nowUs } = yield* now(access)
  const begun = new Map<number, readonly number[]>()
  const permits: (readonly [id: string, buckets: string, untilUs: number])[] = []
  for (const [seq, held] of rows) {
    // A negative number holds no permit.
    const buckets = held === null ? [] : (JSON.parse(held) as number[])
    begun.set(
      seq,
      buckets.flatMap((id, place) => (id > 0 ? [place] : [])),
    )
    const ticket = tickets.find((each) => each.seq === seq)
    const of = buckets.filter((id) => id > 0)
    if (ticket && of.length > 0) permits.push([ticket.permit, JSON.stringify(of), nowUs + ticket.leaseUs])
  }
  if (permits.length === 0) return begun
  const taken = new Set((yield* all<[string]>(access.db, PERMITS, JSON.stringify(permits))).map(([id]) => id))
  // The answer of an earlier call was lost: its ticket was stored and granted again.
  const again = permits.flatMap(([id, buckets]) => (taken.has(id) ? [] : (JSON.parse(buckets) as number[])))
  if (again.length > 0) yield* ask(() => access.returnPermits(again))
  return begun
}

/** Removes started tickets. Answers whether permits return, since a limit has come to count them meanwhile. */
export function* removeTickets(access: Access, worker: number, seqs: readonly number[]): Reading<boolean> {
  const rows = yield* all<[string | null]>(access.db, REMOVED, seqs, worker)
  const held = rows.flatMap(([permits]) => (permits === null ? [] : (JSON.parse(permits) as number[])))
  const ids = held.filter((id) => id > 0)
  if (ids.length > 0) yield* ask(() => access.returnPermits(ids))
  return ids.length > 0
}

/** Takes tickets out that wait, or that a claim has discarded. */
export function* dropTickets(access: Access, ids: readonly string[]): Reading<void> {
  const known = ids.filter(isUuid)
  const seqs = (yield* all<[number]>(access.db, WAITING, known)).map(([seq]) => seq)
  yield* leave(access, seqs)
  yield* run(access.db, GONE, known)
}

/** Whether tickets are waiting or over. */
export function* ticketsOf({ db }: Access, ids: readonly string[]): Reading<ReadonlyMap<string, 'waiting' | 'over'>> {
  const rows = yield* all<[string, number]>(db, KNOWN, ids.filter(isUuid))
  return new Map(rows.map(([id, state]) => [id, isEnd(state) ? 'over' : 'waiting']))
}

/** Takes out the tickets of processes that are gone. Answers whether a lane may start. */
export function* dropOrphans(access: Access): Reading<boolean> {
  const { db } = access
  const names = (yield* all<[string]>(db, QUEUES, TICKETS, TICKETS.slice(0, -1) + '!')).map(([name]) => name)
  if (names.length === 0) return false
  const { nowUs } = yield* now(access)
  const workers = yield* all<[string, number]>(db, WORKERS)
  const queuesOf = (rows: typeof workers): Set<string> =>
    new Set(rows.flatMap(([queues]) => JSON.parse(queues) as string[]))
  const served = queuesOf(workers.filter(([, aliveUntilUs]) => aliveUntilUs > nowUs))
  // A process that only rests comes back to its queue.
  const registered = queuesOf(workers)
  let changed = false
  for (const name of names.filter((each) => !served.has(each))) {
    const of = access.queues((column) => `${column} = $1`)
    const live = `SELECT seq, state FROM sluice.jobs WHERE ${of} ORDER BY seq LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED`
    const jobs = yield* all<[number, number]>(db, live, name)
    const waiting = jobs.filter(([, state]) => state === STATE.available).map(([seq]) => seq)
    changed ||= waiting.length > 0
    yield* leave(access, waiting)
    // Those that a claim had granted return to their lane first, with their permits.
    const over = jobs.filter(([, state]) => state !== STATE.active).map(([seq]) => seq)
    yield* run(db, 'DELETE FROM sluice.jobs WHERE seq = ANY ($1::bigint[])', over)
    const lanes = `SELECT 1 FROM sluice.lanes WHERE ${of} LIMIT 1`
    const inUse = over.length < jobs.length || jobs.length === AT_ONCE || (yield* get(db, lanes, name)) !== undefined
    if (!inUse && !registered.has(name)) yield* run(db, 'DELETE FROM sluice.queues WHERE name = $1', name)
  }
  return changed
}

function* leave(access: Access, seqs: readonly number[]): Reading<void> {
  if (seqs.length === 0) return
  yield* run(access.db, LEFT, seqs)
  const { nowUs } = yield* now(access)
  yield* ask(() => access.leaveLanes(seqs, nowUs))
}
