import { isAlive, ownProcess } from '../../base/process.ts'
import { TICKETS } from '../contract/budgets.ts'
import type { Directive, Registration, RemoteWorker, WorkerRecord } from '../contract/workers.ts'
import { column, columns, textsOrNull } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get, now, run } from './sql.ts'
import { LANE, STATE } from './state.ts'

/** How the queues of such a registration begin, as JSON text. */
const OF_TICKETS = JSON.stringify([TICKETS]).slice(0, -3)

const WORKER = columns({
  ...textsOrNull('name', 'about'),
  worker: column<number>('id'),
  queues: column<string>('array_to_json(queues)::text'),
  tasks: column<string | null>('array_to_json(tasks)::text'),
  directive: column<Directive>(),
  aliveUntilUs: column<number>('alive_until'),
  joinedUs: column<number>('joined'),
  active: column<number>('coalesce(active, 0)'),
})

const WORKERS = `SELECT ${WORKER.list} FROM sluice.workers w
  LEFT JOIN (SELECT worker, count(*) AS active FROM sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL GROUP BY worker) r
    ON r.worker = w.id ORDER BY id`
const SILENT = `SELECT id, substr(name, 1, strpos(name, '/')), greatest(alive_until, joined) FROM sluice.workers w
  WHERE name IS NOT NULL AND alive_until <= $1
  AND NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = w.id) ORDER BY id`

const JOIN = `INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined, tasks, about)
  VALUES ($1, $2, $3, $4::text[], $5, $6, $7::text[], $8) RETURNING id`
const REGISTER = `INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined, name, about, tasks)
  VALUES ('', 0, '', $1::text[], $2, $3, $4, $5, $6::text[])
  ON CONFLICT (name) WHERE name IS NOT NULL DO UPDATE SET
    queues = CASE WHEN $7 THEN excluded.queues ELSE sluice.workers.queues END, alive_until = excluded.alive_until,
    about = coalesce(excluded.about, sluice.workers.about),
    tasks = CASE WHEN $8 THEN excluded.tasks ELSE sluice.workers.tasks END
  RETURNING id, directive, joined`
const RECORD_QUEUE = 'INSERT INTO sluice.queues (name, created) VALUES ($1, $2) ON CONFLICT DO NOTHING'
const LIVE = `SELECT array_to_json(queues)::text, array_to_json(tasks)::text FROM sluice.workers
  WHERE alive_until > $1 AND id <> $2`

/** The store forgets a worker this long after its last call, once it runs nothing. */
const FORGOTTEN_AFTER_US = 3_600_000_000
/** The silent workers of a tenant that the store remembers, those that it heard from last. */
const SILENT_AT_MOST = 1000
/** So many are forgotten when a worker comes, which waits for it. */
const FORGOTTEN_AT_ONCE = 20

/** The queues and tasks of a live worker. */
export interface LiveWorker {
  readonly queues: readonly string[]
  /** Null: any. */
  readonly tasks: readonly string[] | null
}

/** Live workers other than `except`. */
export function* liveWorkers({ db }: Pick<Access, 'db'>, nowUs: number, except = 0): Reading<LiveWorker[]> {
  const rows = yield* all<[string, string | null]>(db, LIVE, nowUs, except)
  return rows.map(([queues, tasks]) => ({
    queues: JSON.parse(queues) as string[],
    tasks: tasks === null ? null : (JSON.parse(tasks) as string[]),
  }))
}

/** Whether one of these workers takes jobs of a task from a queue. */
export function knowsTask(workers: readonly LiveWorker[], queue: string, task: string): boolean {
  return workers.some(({ queues, tasks }) => queues.includes(queue) && (tasks === null || tasks.includes(task)))
}

/** Whether a live worker serves a queue that is not paused, and whether one takes jobs of the task from it. */
export function* staffOf(
  { db }: Access,
  queue: string,
  task: string,
  nowUs: number,
): Reading<{ readonly paused?: true; readonly served: boolean; readonly known: boolean }> {
  const live = yield* liveWorkers({ db }, nowUs)
  const known = knowsTask(live, queue, task)
  if ((yield* pausedAmong({ db }, [queue])).length > 0) return { paused: true, served: false, known }
  return { served: live.some(({ queues }) => queues.includes(queue)), known }
}

/** Those of these queues that are paused, or that no live worker serves. */
function* unserved(
  { db }: Pick<Access, 'db'>,
  live: readonly LiveWorker[],
  queues: readonly string[],
): Reading<string[]> {
  if (queues.length === 0) return []
  const served = new Set(live.flatMap((worker) => worker.queues))
  for (const [queue] of yield* pausedAmong({ db }, queues)) served.delete(queue)
  return queues.filter((queue) => !served.has(queue))
}

function pausedAmong({ db }: Pick<Access, 'db'>, queues: readonly string[]): Reading<[string][]> {
  return all<[string]>(db, 'SELECT name FROM sluice.queues WHERE name = ANY ($1::text[]) AND paused', queues)
}

/** The queues that a live worker serves, without those that are paused. */
export function* servedQueues({ db }: Pick<Access, 'db'>, nowUs: number): Reading<ReadonlySet<string>> {
  return yield* servedBy({ db }, yield* liveWorkers({ db }, nowUs))
}

/** The queues that one of these workers serves, without those that are paused. */
export function* servedBy({ db }: Pick<Access, 'db'>, live: readonly LiveWorker[]): Reading<ReadonlySet<string>> {
  const served = new Set(live.flatMap(({ queues }) => queues))
  for (const [queue] of yield* all<[string]>(db, 'SELECT name FROM sluice.queues WHERE paused')) served.delete(queue)
  return served
}

/** Registers this process as a worker of these queues. */
export function* join(
  access: Access,
  queues: readonly string[],
  leaseUs: number,
  tasks: readonly string[] | null = null,
  about: string | null = null,
): Reading<number> {
  const { db } = access
  const { nowUs } = yield* now(access)
  const { pid, born } = ownProcess()
  const fresh = yield* unserved(access, yield* liveWorkers(access, nowUs), queues)
  const row = yield* get<[number]>(db, JOIN, access.bootId, pid, born, queues, nowUs + leaseUs, nowUs, tasks, about)
  const [worker] = row as [number]
  // People may pause, bound or look at a queue before its first job.
  for (const queue of queues.toSorted()) yield* run(db, RECORD_QUEUE, queue, nowUs)
  yield* ask(() => access.createViews(queues))
  if (tasks !== null || fresh.length > 0) yield* wakeSharedWaitLists(access, nowUs)
  return worker
}

/** Registrations; `woke`: one may let lanes continue. */
export interface Registered {
  readonly registrations: readonly Registration[]
  readonly woke: boolean
}

/** Registers remote workers, or extends their registrations. */
export function* registerWorkers(access: Access, workers: readonly RemoteWorker[]): Reading<Registered> {
  const { nowUs } = yield* now(access)
  const queues = [...new Set(workers.flatMap((worker) => worker.queues))]
  const fresh = yield* unserved(access, queues.length === 0 ? [] : yield* liveWorkers(access, nowUs), queues)
  const registrations: Registration[] = []
  let isNew = false
  // By name, since every transaction that registers several workers locks them in this order.
  const places = workers.map((_, place) => place).sort((a, b) => (nameAt(workers, a) < nameAt(workers, b) ? -1 : 1))
  for (const place of places) {
    const { name, queues: own, aliveUs, about, tasks } = workers[place] as RemoteWorker
    const [worker, directive, joinedUs] = (yield* get<[number, Directive, number]>(
      access.db,
      REGISTER,
      own,
      nowUs + aliveUs,
      nowUs,
      name,
      about,
      tasks ?? null,
      own.length > 0,
      tasks !== undefined,
    )) as [number, Directive, number]
    registrations[place] = { worker, directive }
    isNew ||= joinedUs === nowUs
  }
  if (fresh.length > 0) yield* wakeSharedWaitLists(access, nowUs)
  if (isNew) yield* forgetSilent(access, nowUs)
  return { registrations, woke: fresh.length > 0 }
}

function nameAt(workers: readonly RemoteWorker[], place: number): string {
  return workers[place]?.name ?? ''
}

/** Removes the registration. */
export function leave(access: Access, worker: number): Reading<void> {
  return leaveAll(access, [worker])
}

/** The rest of their own budgets is lost. @param untilUs spares those that are alive at this instant; absent: none */
function* leaveAll(access: Access, workers: readonly number[], untilUs?: number): Reading<void> {
  if (workers.length === 0) return
  const { nowUs } = yield* now(access)
  const gone = yield* all<[string, number]>(
    access.db,
    `DELETE FROM sluice.workers WHERE id = ANY ($1::bigint[]) AND alive_until <= coalesce($2, alive_until)
     RETURNING array_to_json(queues)::text, id`,
    workers,
    untilUs ?? null,
  )
  const left = untilUs === undefined ? workers : gone.map(([, id]) => id)
  yield* ask(() => access.dropViews(left, queuesIn(gone), nowUs))
  if (gone.length > 0) yield* wakeSharedWaitLists(access, nowUs)
}

/**
 * Forgets workers whose process is gone, and returns their ids. On this host the process shows it, on another the
 * lease. A worker whose lease is over while its process may live counts as dead until its next heartbeat: it may only
 * have been stopped for a while.
 */
export function* expireWorkers(access: Access): Reading<number[]> {
  const { db } = access
  const { nowUs } = yield* now(access)
  const here = yield* all<[number, number, string]>(
    db,
    'SELECT id, pid, born FROM sluice.workers WHERE boot = $1 ORDER BY id',
    access.bootId,
  )
  const dead = here.filter(([, pid, born]) => !isAlive({ pid, born })).map(([id]) => id)
  yield* leaveAll(access, dead)
  const silent = yield* all<[string, number]>(
    db,
    `UPDATE sluice.workers SET alive_until = 0 WHERE alive_until BETWEEN 1 AND $1
     RETURNING array_to_json(queues)::text, id`,
    nowUs,
  )
  if (silent.length === 0) return dead
  const ids = silent.map(([, id]) => id)
  yield* ask(() => access.suspendViews(ids, queuesIn(silent), nowUs))
  yield* wakeSharedWaitLists(access, nowUs)
  return dead
}

function queuesIn(rows: readonly (readonly [queues: string, ...unknown[]])[]): string[] {
  return rows.flatMap(([queues]) => JSON.parse(queues) as string[])
}

/**
 * Wakes wait lists after a queue, or a task of one, gained or lost its last live worker. The head may have changed in
 * lists with lanes of several queues, and in all lists if workers list different tasks.
 */
export function* wakeSharedWaitLists(access: Access, nowUs: number): Reading<void> {
  const { db } = access
  const sets = yield* all(db, 'SELECT DISTINCT tasks FROM sluice.workers LIMIT 2')
  const among = sets.length > 1 ? '' : ' HAVING min(queue) < max(queue)'
  const waiting = `SELECT bucket FROM sluice.lanes WHERE state = ${LANE.waiting} GROUP BY bucket${among}`
  const ids = (yield* all<[number]>(db, waiting)).map(([id]) => id)
  if (ids.length > 0) yield* ask(() => access.wakeWaitLists(ids, nowUs))
}

/**
 * The start of the present unbroken period with a live worker, as far as the live workers know; `nowUs` without any.
 */
export function* attendedSinceUs({ db }: Access, nowUs: number): Reading<number> {
  const since = 'SELECT min(joined) FROM sluice.workers WHERE name IS NULL AND alive_until > $1'
  return (yield* get<[number | null]>(db, since, nowUs))?.[0] ?? nowUs
}

/** Workers on record, with those of engines. */
export function* workers(access: Access): Reading<WorkerRecord[]> {
  const { nowUs } = yield* now(access)
  const rows = yield* all(access.db, WORKERS)
  // Lists of workers leave out registrations that only take budgets for code without jobs.
  const shown = rows.map(WORKER.read).filter(({ queues }) => !queues.startsWith(OF_TICKETS))
  return shown.map((fields) => ({
    ...fields,
    queues: JSON.parse(fields.queues) as string[],
    tasks: fields.tasks === null ? null : (JSON.parse(fields.tasks) as string[]),
    alive: fields.aliveUntilUs > nowUs,
  }))
}

/** Sets the directive of a remote worker. */
export function* setDirective({ db }: Access, name: string, directive: Directive): Reading<boolean> {
  return (yield* run(db, 'UPDATE sluice.workers SET directive = $1 WHERE name = $2', directive, name)) > 0
}

/** Deletes a remote worker. */
export function* deregisterWorker(access: Access, name: string): Reading<boolean> {
  const row = yield* get<[number]>(access.db, 'SELECT id FROM sluice.workers WHERE name = $1', name)
  if (row) yield* leave(access, row[0])
  return row !== undefined
}

/** Forgets silent workers: callers choose the names, so their number needs a bound. */
function* forgetSilent(access: Access, nowUs: number): Reading<void> {
  const silent = yield* all<[id: number, tenant: string, seenUs: number]>(access.db, SILENT, nowUs)
  const forgotten = [...Map.groupBy(silent, ([, tenant]) => tenant).values()].flatMap((own) =>
    own
      .toSorted(([one, , a], [other, , b]) => b - a || other - one)
      .filter(([, , seenUs], place) => place >= SILENT_AT_MOST || seenUs < nowUs - FORGOTTEN_AFTER_US),
  )
  // By id, since every transaction that removes several workers locks them in this order.
  const first = forgotten.toSorted(([a], [b]) => a - b).slice(0, FORGOTTEN_AT_ONCE)
  // One that has come back meanwhile, at another server, stays.
  yield* leaveAll(
    access,
    first.map(([id]) => id),
    nowUs,
  )
}

/** Active jobs of a worker that a caller asked to cancel. */
export function* cancellations({ db }: Access, worker: number): Reading<number[]> {
  const of = `state = ${STATE.active} AND due IS NOT NULL AND worker = $1 AND cancelling`
  return (yield* all<[number]>(db, `SELECT seq FROM sluice.jobs WHERE ${of}`, worker)).map(([seq]) => seq)
}
