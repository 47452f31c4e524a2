import type { Statements } from '../../database/postgres.ts'
import type { Directive, Registration, RemoteWorker } from '../contract/workers.ts'
import { readAsync } from '../shared/reading.ts'
import { forgetSilent } from '../shared/remote-workers.ts'
import { type Context, readClock } from './context.ts'
import { accessOf } from './shared-sql.ts'
import { liveQueues, wakeSharedWaitLists } from './workers.ts'

const UPSERT = `INSERT INTO sluice.workers (boot, pid, born, queues, alive_until, joined, name, about, tasks) VALUES ('', 0, '', $1::text[], $2, $3, $4, $5, $6::text[])
  ON CONFLICT (name) WHERE name IS NOT NULL DO UPDATE SET
    queues = CASE WHEN cardinality(excluded.queues) = 0 THEN sluice.workers.queues ELSE excluded.queues END,
    alive_until = excluded.alive_until, about = coalesce(excluded.about, sluice.workers.about),
    tasks = CASE WHEN $7 THEN excluded.tasks ELSE sluice.workers.tasks END
  RETURNING id, directive, xmax = 0`

/** Registers a remote worker, or extends its registration; `woke`: it may let lanes continue. */
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
  if (isNew) await readAsync(forgetSilent(accessOf(context, db), nowUs))
  return { registration: { worker, directive }, woke }
}
