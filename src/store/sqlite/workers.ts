import type { Beat, Run } from '../contract/store.ts'
import type { Context } from './context.ts'
import { ownQueue } from './own.ts'
import { STATE } from '../shared/state.ts'

/** Extends the leases of a worker's runs. */
export function heartbeat(context: Context, worker: number, runs: readonly Run[], leaseUs: number): Beat {
  const untilUs = context.clock.nowUs() + leaseUs
  context.db.run('UPDATE workers SET alive_until = ? WHERE id = ? AND name IS NULL', untilUs, worker)
  if (runs.length === 0) return { cancelled: [], lost: [] }
  const rows = context.db.all<[number, number, number]>(
    `UPDATE jobs SET due = ? FROM json_each(?) s WHERE jobs.seq = s.value ->> 0 AND jobs.attempt = s.value ->> 1
     AND jobs.worker = ? AND jobs.state = ${STATE.active} RETURNING seq, attempt, cancelling`,
    untilUs,
    JSON.stringify(runs.map((run) => [run.seq, run.attempt])),
    worker,
  )
  const held = new Set(rows.map(([seq]) => seq))
  return {
    cancelled: rows.filter(([, , cancelling]) => cancelling === 1).map(([seq]) => seq),
    lost: runs.filter((run) => !held.has(run.seq)).map((run) => run.seq),
  }
}

/** Queues that a live worker other than `except` serves. */
export function liveQueues(context: Context, nowUs: number, except: number): string[] {
  return context.db
    .all<[string]>(
      'SELECT DISTINCT q.value FROM workers w, json_each(w.queues) q WHERE w.alive_until > ? AND w.id <> ? AND q.value NOT IN (SELECT name FROM queues WHERE (paused = 1 OR limit_name IS NOT NULL) AND paused = 1)',
      nowUs,
      except,
    )
    .map(([queue]) => queue)
}

/** The queues that hold views of live workers other than `except`. */
export function liveOwnQueues(context: Context, nowUs: number, except: number): number[] {
  return context.db
    .all<[worker: number, queue: number]>(
      `SELECT w.id, queues.id FROM workers w, json_each(w.queues) q CROSS JOIN queues ON queues.name = q.value
       WHERE w.alive_until > ? AND w.id <> ?`,
      nowUs,
      except,
    )
    .map(([worker, queue]) => ownQueue(queue, worker))
}

/** Whether other workers use this file: another process, or another engine of this one. */
export function hasCompany(context: Context, nowUs: number, own: ReadonlySet<number>): boolean {
  return context.db
    .all<[number]>('SELECT id FROM workers WHERE name IS NULL AND alive_until > ?', nowUs)
    .some(([worker]) => !own.has(worker))
}
