import type { Directive, WorkerRecord } from '../contract/workers.ts'
import { column, columns } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get, now, run } from './sql.ts'
import { STATE } from './state.ts'

const WORKER = columns({
  worker: column<number>('id'),
  name: column<string | null>(),
  queues: column<string>('array_to_json(queues)::text'),
  tasks: column<string | null>('array_to_json(tasks)::text'),
  directive: column<Directive>(),
  aliveUntilUs: column<number>('alive_until'),
  joinedUs: column<number>('joined'),
  about: column<string | null>(),
  active: column<number>('coalesce(active, 0)'),
})

const WORKERS = `SELECT ${WORKER.list} FROM sluice.workers w
  LEFT JOIN (SELECT worker, count(*) AS active FROM sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL GROUP BY worker) r
    ON r.worker = w.id ORDER BY id`
const SILENT = `SELECT id FROM sluice.workers w WHERE name IS NOT NULL AND greatest(alive_until, joined) < $1
  AND NOT EXISTS (SELECT 1 FROM sluice.jobs WHERE state = ${STATE.active} AND due IS NOT NULL AND worker = w.id) ORDER BY id`

/** The store forgets a worker this long after its last call, once it runs nothing. */
const FORGOTTEN_AFTER_US = 3_600_000_000

/** Workers on record, with those of engines. */
export function* workers(access: Access): Reading<WorkerRecord[]> {
  const { nowUs } = yield* now(access)
  const rows = yield* all(access.db, WORKERS)
  return rows.map(WORKER.read).map((fields) => ({
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
  if (row) yield* ask(() => access.leave(row[0]))
  return row !== undefined
}

/** Forgets silent workers: callers choose the names, so their number needs a bound. */
export function* forgetSilent(access: Access, nowUs: number): Reading<void> {
  for (const [id] of yield* all<[number]>(access.db, SILENT, nowUs - FORGOTTEN_AFTER_US))
    yield* ask(() => access.leave(id))
}

/** Active jobs of a worker that a caller asked to cancel. */
export function* cancellations({ db }: Access, worker: number): Reading<number[]> {
  const of = `state = ${STATE.active} AND due IS NOT NULL AND worker = $1 AND cancelling`
  return (yield* all<[number]>(db, `SELECT seq FROM sluice.jobs WHERE ${of}`, worker)).map(([seq]) => seq)
}
