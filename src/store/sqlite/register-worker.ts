import type { Directive, Registration, RemoteWorker, WorkerRecord } from '../contract/workers.ts'
import { WORKER_COLUMNS, workerRecord } from '../shared/records.ts'
import type { Context } from './context.ts'
import { STATE } from '../shared/state.ts'
import { leave, liveQueues, wakeSharedWaitLists } from './workers.ts'

/** One that was not heard of for so long is forgotten, once it runs nothing. */
const FORGOTTEN_AFTER_US = 3_600_000_000

const UPSERT = `INSERT INTO workers (boot, pid, born, queues, alive_until, joined, name, about, tasks) VALUES ('', 0, '', ?1, ?2, ?3, ?4, ?5, ?6)
  ON CONFLICT (name) WHERE name IS NOT NULL DO UPDATE SET queues = CASE WHEN ?1 = '[]' THEN queues ELSE ?1 END, alive_until = ?2, about = coalesce(?5, about),
    tasks = CASE WHEN ?7 = 1 THEN ?6 ELSE tasks END
  RETURNING id, directive`

/** Registers a remote worker, or extends its registration. */
export function registerWorker(context: Context, { name, queues, aliveUs, about, tasks }: RemoteWorker): Registration {
  const { nowUs } = context.clock.read()
  const live = liveQueues(context, nowUs, 0)
  const known = context.db.get('SELECT 1 FROM workers WHERE name = ?', name) !== undefined
  const [worker, directive] = context.db.get<[number, Directive]>(
    UPSERT,
    JSON.stringify(queues),
    nowUs + aliveUs,
    nowUs,
    name,
    about,
    tasks ? JSON.stringify(tasks) : null,
    tasks === undefined ? 0 : 1,
  ) as [number, Directive]
  if (queues.some((queue) => !live.includes(queue))) wakeSharedWaitLists(context, nowUs)
  if (!known) forgetSilent(context, nowUs)
  return { worker, directive }
}

/** Workers on record, those of engines too. */
export function workers(context: Context): WorkerRecord[] {
  const nowUs = context.clock.nowUs()
  const active = `SELECT count(*) FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = workers.id`
  const rows = context.db.all(
    `SELECT ${WORKER_COLUMNS} FROM (SELECT *, (${active}) AS active FROM workers) ORDER BY id`,
  )
  return rows.map((row) => workerRecord(row, nowUs))
}

/** Says what a remote worker is to do. */
export function setDirective(context: Context, name: string, directive: Directive): boolean {
  return context.db.run('UPDATE workers SET directive = ? WHERE name = ?', directive, name) > 0
}

/** Forgets a remote worker. */
export function deregisterWorker(context: Context, name: string): boolean {
  const row = context.db.get<[number]>('SELECT id FROM workers WHERE name = ?', name)
  if (row) leave(context, row[0])
  return row !== undefined
}

/** Names are the callers' own, so their number has to be kept down. */
function forgetSilent(context: Context, nowUs: number): void {
  const silent = context.db.all<[number]>(
    `SELECT id FROM workers WHERE name IS NOT NULL AND max(alive_until, joined) < ?
     AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = workers.id)`,
    nowUs - FORGOTTEN_AFTER_US,
  )
  for (const [id] of silent) leave(context, id)
}
