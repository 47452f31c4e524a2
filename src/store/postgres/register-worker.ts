import type { Statements } from '../../database/postgres.ts'
import type { Directive, Registration, RemoteWorker, WorkerRecord } from '../contract/workers.ts'
import { WORKER_COLUMNS, workerRecord } from '../shared/records.ts'
import { type Context, readClock } from './context.ts'
import { STATE } from '../shared/state.ts'
import { leave, liveQueues, wakeSharedWaitLists } from './workers.ts'

/** One that was not heard of for so long is forgotten, once it runs nothing. */
const FORGOTTEN_AFTER_US = 3_600_000_000

const UPSERT = `INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined, name, about, tasks) VALUES ('', 0, '', $1::text[], $2, $3, $4, $5, $6::text[])
  ON CONFLICT (name) WHERE name IS NOT NULL DO UPDATE SET
    queues = CASE WHEN cardinality(excluded.queues) = 0 THEN sluice.workers.queues ELSE excluded.queues END,
    alive_until = excluded.alive_until, about = coalesce(excluded.about, sluice.workers.about),
    tasks = CASE WHEN $7 THEN excluded.tasks ELSE sluice.workers.tasks END
  RETURNING id, directive, xmax = 0`

/** Registers a remote worker, or extends its registration; `woke`: lanes may go on because of it. */
export async function registerWorker(
  context: Context,
  db: Statements,
  { name, queues, aliveUs, about, tasks }: RemoteWorker,
): Promise<{ readonly registration: Registration; readonly woke: boolean }> {
  const { nowUs } = await readClock(context, db)
  const live = queues.length === 0 ? [] : await liveQueues(db, nowUs)
  const [worker, directive, isNew] = (await db.get<[number, Directive, boolean]>(
    UPSERT,
    queues,
    nowUs + aliveUs,
    nowUs,
    name,
    about,
    tasks ?? null,
    tasks !== undefined,
  )) as [number, Directive, boolean]
  const woke = queues.some((queue) => !live.includes(queue))
  if (woke) await wakeSharedWaitLists(db, nowUs)
  if (isNew) await forgetSilent(context, db, nowUs)
  return { registration: { worker, directive }, woke }
}

/** Workers on record, those of engines too. */
export async function workers(context: Context, db: Statements): Promise<WorkerRecord[]> {
  const { nowUs } = await readClock(context, db)
  const rows = await db.all(
    `SELECT ${WORKER_COLUMNS} FROM (
       SELECT w.id, name, array_to_json(queues)::text AS queues, array_to_json(tasks)::text AS tasks, directive,
         alive_until, joined, about, coalesce(r.active, 0) AS active
       FROM sluice.workers w LEFT JOIN (SELECT worker, count(*) AS active FROM sluice.jobs
         WHERE state = ${STATE.active} GROUP BY worker) r ON r.worker = w.id) w ORDER BY id`,
  )
  return rows.map((row) => workerRecord(row, nowUs))
}

/** Says what a remote worker is to do. */
export async function setDirective(db: Statements, name: string, directive: Directive): Promise<boolean> {
  return (await db.run('UPDATE sluice.workers SET directive = $1 WHERE name = $2', directive, name)) > 0
}

/** Forgets a remote worker. */
export async function deregisterWorker(context: Context, db: Statements, name: string): Promise<boolean> {
  const row = await db.get<[number]>('SELECT id FROM sluice.workers WHERE name = $1', name)
  if (row) await leave(context, db, row[0])
  return row !== undefined
}

/** Names are the callers' own, so their number has to be kept down. */
async function forgetSilent(context: Context, db: Statements, nowUs: number): Promise<void> {
  const silent = await db.all<[number]>(
    `SELECT id FROM sluice.workers w WHERE name IS NOT NULL AND greatest(alive_until, joined) < $1
     AND NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = ${STATE.active} AND worker = w.id) ORDER BY id`,
    nowUs - FORGOTTEN_AFTER_US,
  )
  for (const [id] of silent) await leave(context, db, id)
}
