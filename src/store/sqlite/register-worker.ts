import type { Directive, Registration, RemoteWorker } from '../contract/workers.ts'
import { readNow } from '../shared/reading.ts'
import { forgetSilent } from '../shared/remote-workers.ts'
import type { Context } from './context.ts'
import { accessOf } from './shared-sql.ts'
import { liveQueues, wakeSharedWaitLists } from './workers.ts'

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
  if (!known) readNow(forgetSilent(accessOf(context), nowUs))
  return { worker, directive }
}
