import { isAlive, ownProcess } from '../../base/process.ts'
import type { Beat, Run } from '../contract/store.ts'
import type { Context } from './context.ts'
import { ownQueue } from './own.ts'
import { LANE, STATE } from '../shared/state.ts'
import { dropViews } from './views.ts'

/** Registers this process as a worker of these queues. */
export function join(
  context: Context,
  queues: readonly string[],
  leaseUs: number,
  tasks: readonly string[] | null,
): number {
  const { nowUs } = context.clock.read()
  const { pid, born } = ownProcess()
  const fresh = queues.filter((queue) => !liveQueues(context, nowUs, 0).includes(queue))
  const worker = Number(
    context.db
      .prepare('INSERT INTO workers (boot, pid, born, queues, tasks, alive_until, joined) VALUES (?, ?, ?, ?, ?, ?, ?)')
      .run(
        context.clock.bootId,
        pid,
        born,
        JSON.stringify(queues),
        tasks && JSON.stringify(tasks),
        nowUs + leaseUs,
        nowUs,
      ).lastInsertRowid,
  )
  if (fresh.length > 0 || tasks !== null) wakeSharedWaitLists(context, nowUs)
  return worker
}

/** Removes the registration. */
export function leave(context: Context, worker: number): void {
  const nowUs = context.clock.nowUs()
  if (context.db.run('DELETE FROM workers WHERE id = ?', worker) > 0) wakeSharedWaitLists(context, nowUs)
  dropViews(context, worker, nowUs)
}

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

/** The queues and tasks of a live worker. */
export interface LiveWorker {
  readonly queues: readonly string[]
  /** Null: any. */
  readonly tasks: readonly string[] | null
}

/** Live workers other than `except`. */
export function liveWorkers(context: Context, nowUs: number, except: number): LiveWorker[] {
  return context.db
    .all<[string, string | null]>('SELECT queues, tasks FROM workers WHERE alive_until > ? AND id <> ?', nowUs, except)
    .map(([queues, tasks]) => ({
      queues: JSON.parse(queues) as string[],
      tasks: tasks === null ? null : (JSON.parse(tasks) as string[]),
    }))
}

/** Whether one of these workers takes jobs of a task from a queue. */
export function knowsTask(workers: readonly LiveWorker[], queue: string, task: string): boolean {
  return workers.some(({ queues, tasks }) => queues.includes(queue) && (tasks === null || tasks.includes(task)))
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

/**
 * The start of the present unbroken period with a live worker, as far as the live workers know; `nowUs` without any.
 */
export function attendedSinceUs(context: Context, nowUs: number): number {
  const [joined] = context.db.get<[number | null]>(
    'SELECT min(joined) FROM workers WHERE name IS NULL AND alive_until > ?',
    nowUs,
  ) as [number | null]
  return joined ?? nowUs
}

/** Whether other workers use this file: another process, or another engine of this one. */
export function hasCompany(context: Context, nowUs: number, own: ReadonlySet<number>): boolean {
  return context.db
    .all<[number]>('SELECT id FROM workers WHERE name IS NULL AND alive_until > ?', nowUs)
    .some(([worker]) => !own.has(worker))
}

/**
 * Forgets workers whose process is gone, and returns their ids. A worker whose lease is over while its process lives
 * counts as dead until its next heartbeat: it may only have been stopped for a while.
 */
export function expireWorkers(context: Context, nowUs: number): number[] {
  const dead = context.db
    .all<[number, number, string]>('SELECT id, pid, born FROM workers WHERE boot = ?', context.clock.bootId)
    .filter(([, pid, born]) => !isAlive({ pid, born }))
    .map(([id]) => id)
  for (const id of dead) leave(context, id)
  if (context.db.run('UPDATE workers SET alive_until = 0 WHERE alive_until BETWEEN 1 AND ?', nowUs) > 0)
    wakeSharedWaitLists(context, nowUs)
  return dead
}

/**
 * Wakes wait lists after a queue, or a task of one, gained or lost its last live worker. The head may have changed in
 * lists with lanes of several queues, and in all lists if workers list different tasks.
 */
export function wakeSharedWaitLists(context: Context, nowUs: number): void {
  if (new Set(context.db.all<[string | null]>('SELECT tasks FROM workers').map(([tasks]) => tasks)).size > 1) {
    context.db.run('UPDATE buckets SET wake_at = min(wake_at, ?) WHERE wake_at IS NOT NULL', nowUs)
    return
  }
  context.db.run(
    `UPDATE buckets SET wake_at = min(wake_at, ?) WHERE wake_at IS NOT NULL AND id IN
     (SELECT bucket FROM lanes WHERE state = ${LANE.waiting} GROUP BY bucket HAVING min(queue) < max(queue))`,
    nowUs,
  )
}
