import { isAlive, ownProcess } from '../../base/process.ts'
import type { Statements } from '../../database/postgres.ts'
import type { Beat, Run } from '../store.ts'
import { type Context, readClock } from './context.ts'
import { STATE } from './state.ts'

/** Registers this process as a worker of these queues. */
export async function join(
  context: Context,
  db: Statements,
  bootId: string,
  queues: readonly string[],
  leaseUs: number,
): Promise<number> {
  const { nowUs } = await readClock(context, db)
  const { pid, born } = ownProcess()
  const live = await liveQueues(db, nowUs)
  const [worker] = (await db.get<[number]>(
    'INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined) VALUES ($1, $2, $3, $4::text[], $5, $6) RETURNING id',
    bootId,
    pid,
    born,
    queues,
    nowUs + leaseUs,
    nowUs,
  )) as [number]
  if (queues.some((queue) => !live.includes(queue))) await wakeMixedLines(db, nowUs)
  return worker
}

/** Removes the registration. */
export async function leave(context: Context, db: Statements, worker: number): Promise<void> {
  if ((await db.run('DELETE FROM sluice.workers WHERE id = $1', worker)) === 0) return
  await wakeMixedLines(db, (await readClock(context, db)).nowUs)
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
  await db.run('UPDATE sluice.workers SET alive_until = $2 WHERE id = $1', worker, nowUs + leaseUs)
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

/** Active jobs of a worker that somebody asked to cancel. */
export async function cancellations(db: Statements, worker: number): Promise<number[]> {
  const rows = await db.all<[number]>(
    `SELECT seq FROM sluice.jobs WHERE state = ${STATE.active} AND worker = $1 AND cancelling`,
    worker,
  )
  return rows.map(([seq]) => seq)
}

/** Queues that a live worker serves. */
export async function liveQueues(db: Statements, nowUs: number): Promise<string[]> {
  const rows = await db.all<[string]>(
    'SELECT DISTINCT q FROM sluice.workers w, unnest(w.queues) q WHERE w.alive_until > $1',
    nowUs,
  )
  return rows.map(([queue]) => queue)
}

/** Since when somebody has been at work without a break, as far as those know who are at work now; `nowUs` when nobody is. */
export async function attendedSinceUs(db: Statements, nowUs: number): Promise<number> {
  const row = await db.get<[number | null]>('SELECT min(joined) FROM sluice.workers WHERE alive_until > $1', nowUs)
  return row?.[0] ?? nowUs
}

/**
 * Forgets workers whose process is known to be gone, and answers their ids: of this host by its process, of another by its lease.
 * One whose lease is over while its process may live counts as dead until its next heartbeat: it may only have been stopped.
 */
export async function buryDead(context: Context, db: Statements, bootId: string): Promise<number[]> {
  const { nowUs } = await readClock(context, db)
  const here = await db.all<[number, number, string]>(
    'SELECT id, pid, born FROM sluice.workers WHERE boot = $1 ORDER BY id',
    bootId,
  )
  const dead = here.filter(([, pid, born]) => !isAlive({ pid, born })).map(([id]) => id)
  for (const id of dead) await leave(context, db, id)
  const silent = 'UPDATE sluice.workers SET alive_until = 0 WHERE alive_until BETWEEN 1 AND $1'
  if ((await db.run(silent, nowUs)) > 0) await wakeMixedLines(db, nowUs)
  return dead
}

/** A queue has come alive or died: in lines where lanes of several queues stand, who is first may have changed. */
async function wakeMixedLines(db: Statements, nowUs: number): Promise<void> {
  const rows = await db.all<[number]>(
    'SELECT bucket FROM sluice.lanes WHERE state = 2 GROUP BY bucket HAVING min(queue) < max(queue)',
  )
  if (rows.length === 0) return
  await db.run(
    'SELECT sluice.wake_lines($1::bigint[], $2::bigint)',
    rows.map(([id]) => id),
    nowUs,
  )
}
