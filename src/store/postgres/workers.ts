import { isAlive, ownProcess } from '../../base/process.ts'
import type { Statements } from '../../database/postgres.ts'
import type { Beat, Run } from '../contract/store.ts'
import { type Context, readClock } from './context.ts'
import { LANE, STATE } from '../shared/state.ts'

/** Registers this process as a worker of these queues. */
export async function join(
  context: Context,
  db: Statements,
  bootId: string,
  queues: readonly string[],
  leaseUs: number,
  tasks: readonly string[] | null,
): Promise<number> {
  const { nowUs } = await readClock(context, db)
  const { pid, born } = ownProcess()
  const live = await liveQueues(db, nowUs)
  const [worker] = (await db.get<[number]>(
    'INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined, tasks) VALUES ($1, $2, $3, $4::text[], $5, $6, $7::text[]) RETURNING id',
    bootId,
    pid,
    born,
    queues,
    nowUs + leaseUs,
    nowUs,
    tasks,
  )) as [number]
  await db.run('SELECT sluice.adopt($1::text[])', queues)
  if (tasks !== null || queues.some((queue) => !live.includes(queue))) await wakeSharedWaitLists(db, nowUs)
  return worker
}

/** Removes the registration. */
export async function leave(context: Context, db: Statements, worker: number): Promise<void> {
  await leaveAll(context, db, [worker])
}

/** The rest of their own budgets is lost. */
async function leaveAll(context: Context, db: Statements, workers: readonly number[]): Promise<void> {
  const { nowUs } = await readClock(context, db)
  const gone = await db.all<[queues: string]>(
    'DELETE FROM sluice.workers WHERE id = ANY ($1::bigint[]) RETURNING to_json(queues)::text',
    workers,
  )
  await dropViews(db, workers, gone, nowUs)
  await db.run('DELETE FROM sluice.buckets WHERE worker = ANY ($1::bigint[]) AND worker <> 0 AND lanes = 0', workers)
  if (gone.length > 0) await wakeSharedWaitLists(db, nowUs)
}

async function dropViews(
  db: Statements,
  workers: readonly number[],
  queues: readonly (readonly [json: string])[],
  nowUs: number,
): Promise<void> {
  await db.run(
    'SELECT sluice.leave_views($1::bigint[], $2::text[], $3::bigint)',
    workers,
    queues.flatMap(([json]) => JSON.parse(json) as string[]),
    nowUs,
  )
}

/** Extends the leases of a worker's runs. */
export async function heartbeat(
  context: Context,
  db: Statements,
  worker: number,
  runs: readonly Run[],
  leaseUs: number,
): Promise<Beat> {
  const { nowUs } = await readClock(context, db)
  const [back] = (await db.get<[queues: string | null]>(
    `WITH was AS (SELECT id, queues, alive_until FROM sluice.workers WHERE id = $1 AND name IS NULL FOR UPDATE)
     UPDATE sluice.workers w SET alive_until = $2 FROM was WHERE w.id = was.id RETURNING CASE WHEN was.alive_until = 0 THEN to_json(was.queues)::text END`,
    worker,
    nowUs + leaseUs,
  )) ?? [null]
  if (back) await db.run('SELECT sluice.adopt($1::text[])', JSON.parse(back) as string[])
  if (runs.length === 0) return { cancelled: [], lost: [] }
  const sorted = [...runs].sort((a, b) => a.seq - b.seq)
  const seqs = sorted.map(({ seq }) => seq)
  await db.run('SELECT 1 FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) ORDER BY seq FOR UPDATE', seqs)
  const rows = await db.all<[number, boolean]>(
    `UPDATE sluice.jobs j SET due = $4 FROM unnest($1::bigint[], $2::int[]) g(seq, attempt)
     WHERE j.seq = g.seq AND j.attempt = g.attempt AND j.worker = $3 AND j.state = ${STATE.active} RETURNING j.seq, j.cancelling`,
    seqs,
    sorted.map(({ attempt }) => attempt),
    worker,
    nowUs + leaseUs,
  )
  const held = new Set(rows.map(([seq]) => seq))
  return {
    cancelled: rows.filter(([, cancelling]) => cancelling).map(([seq]) => seq),
    lost: runs.filter((run) => !held.has(run.seq)).map((run) => run.seq),
  }
}

/** Unpaused queues that a live worker serves. */
export async function liveQueues(db: Statements, nowUs: number): Promise<string[]> {
  const rows = await db.all<[string]>(
    `SELECT DISTINCT q FROM sluice.workers w, unnest(w.queues) q WHERE w.alive_until > $1
     AND NOT EXISTS (SELECT 1 FROM sluice.queues h WHERE h.name = q AND h.paused)`,
    nowUs,
  )
  return rows.map(([queue]) => queue)
}

/**
 * The start of the present unbroken period with a live worker, as far as the live workers know; `nowUs` without any.
 */
export async function attendedSinceUs(db: Statements, nowUs: number): Promise<number> {
  const row = await db.get<[number | null]>(
    'SELECT min(joined) FROM sluice.workers WHERE name IS NULL AND alive_until > $1',
    nowUs,
  )
  return row?.[0] ?? nowUs
}

/**
 * Forgets workers whose process is gone, and returns their ids. On this host the process shows it, on another the
 * lease. A worker whose lease is over while its process may live counts as dead until its next heartbeat: it may only
 * have been stopped.
 */
export async function expireWorkers(context: Context, db: Statements, bootId: string): Promise<number[]> {
  const { nowUs } = await readClock(context, db)
  const here = await db.all<[number, number, string]>(
    'SELECT id, pid, born FROM sluice.workers WHERE boot = $1 ORDER BY id',
    bootId,
  )
  const dead = here.filter(([, pid, born]) => !isAlive({ pid, born })).map(([id]) => id)
  if (dead.length > 0) await leaveAll(context, db, dead)
  const silent = await db.all<[queues: string, id: number]>(
    'UPDATE sluice.workers SET alive_until = 0 WHERE alive_until BETWEEN 1 AND $1 RETURNING to_json(queues)::text, id',
    nowUs,
  )
  if (silent.length === 0) return dead
  const ids = silent.map(([, id]) => id)
  await dropViews(
    db,
    ids,
    silent.map(([queues]) => [queues]),
    nowUs,
  )
  await wakeSharedWaitLists(db, nowUs)
  return dead
}

/** Whether a live worker takes jobs of a task from a queue. */
export async function isKnown(db: Statements, nowUs: number, queue: string, task: string): Promise<boolean> {
  const [known] = (await db.get<[boolean]>(
    `SELECT EXISTS (SELECT 1 FROM sluice.workers WHERE alive_until > $1 AND $2 = ANY (queues) AND (tasks IS NULL OR $3 = ANY (tasks)))`,
    nowUs,
    queue,
    task,
  )) as [boolean]
  return known
}

/**
 * Wakes wait lists after a queue, or a task of one, gained or lost its last live worker. The head may have changed in
 * lists with lanes of several queues, and in all lists if workers list different tasks.
 */
export async function wakeSharedWaitLists(db: Statements, nowUs: number): Promise<void> {
  const sets = await db.all('SELECT DISTINCT tasks FROM sluice.workers LIMIT 2')
  const rows = await db.all<[number]>(
    `SELECT bucket FROM sluice.lanes WHERE state = ${LANE.waiting} GROUP BY bucket${sets.length > 1 ? '' : ' HAVING min(queue) < max(queue)'}`,
  )
  if (rows.length === 0) return
  await db.run(
    'SELECT sluice.wake_lines($1::bigint[], $2::bigint)',
    rows.map(([id]) => id),
    nowUs,
  )
}
