import type { Statements } from '../../database/statements.ts'
import type { QueueCount } from '../contract/queues.ts'
import type { QueueColumn } from '../shared/sql.ts'
import { NOW } from '../shared/get.ts'
import type { Context } from './context.ts'
import { STATE, stateName } from '../shared/state.ts'

/** A job that a limit has rescheduled is shown as scheduled. */
const SHOWN = `CASE WHEN state = ${STATE.available} AND booked > ${NOW} THEN ${STATE.scheduled} ELSE state END`

/**
 * Records queues that this process has named and not recorded yet. It never runs in a caller's transaction, which would
 * block other enqueues to a queue of that name. So a queue may be recorded although its first job was rolled back.
 */
export async function recordQueues({ queues: names }: Context, db: Statements): Promise<void> {
  const fresh = names.takeUnrecorded()
  if (fresh.length === 0) return
  try {
    await db.run(
      'INSERT INTO sluice.queues (name, created) SELECT n, sluice.now_us() FROM unnest($1::text[]) n ORDER BY 1 ON CONFLICT DO NOTHING',
      fresh,
    )
  } catch (error) {
    names.forgetRecords()
    throw error
  }
}

/**
 * The same after jobs were stored: a failure here does not make the enqueue fail, and the next call records the queues.
 */
export async function recordQueuesOf(context: Context, db: Statements): Promise<void> {
  await recordQueues(context, db).catch(() => undefined)
}

/**
 * Changes one column of a queue, which is recorded if it is new. Bounds mark the queue's jobs as counted; jobs that are
 * enqueued meanwhile are not.
 */
export async function setQueue(
  db: Statements,
  queue: string,
  column: QueueColumn,
  value: string | boolean | number | null,
): Promise<void> {
  if (column === 'stripes') {
    await db.run('SELECT sluice.set_stripes($1, $2)', queue, value)
    return
  }
  await db.run('SELECT sluice.lock_queues($1::text[])', [queue])
  await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.held'), hashtext($1))`, queue)
  await db.run(
    `INSERT INTO sluice.queues (name, ${column}, created) VALUES ($1, $2, sluice.now_us()) ON CONFLICT (name) DO UPDATE SET ${column} = excluded.${column}`,
    queue,
    value,
  )
  if (column !== 'bounds' || value === null) return
  await db.run(
    `UPDATE sluice.jobs SET bounded = true WHERE seq = ANY (ARRAY(
     SELECT seq FROM sluice.jobs WHERE queue = $1 AND bounded IS NULL AND state NOT IN (${STATE.completed}, ${STATE.cancelled}) ORDER BY seq FOR UPDATE SKIP LOCKED))`,
    queue,
  )
}

/** Locks a queue, for which claims without limits wait too; the queue is recorded if it is new. */
export async function lockQueue(db: Statements, queue: string): Promise<void> {
  await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.held'), hashtext($1))`, queue)
  await db.run('INSERT INTO sluice.queues (name, created) VALUES ($1, sluice.now_us()) ON CONFLICT DO NOTHING', queue)
}

/** Jobs by queue and state. */
export async function queueCounts(db: Statements, queue?: string): Promise<QueueCount[]> {
  const rows = await db.all<[string, number, number, number]>(
    `SELECT queue, ${SHOWN} AS shown, count(*), min(seq) FROM sluice.jobs ${queue === undefined ? '' : 'WHERE queue = $1'} GROUP BY queue, shown`,
    ...(queue === undefined ? [] : [queue]),
  )
  return rows.map(([name, state, jobs, oldest]) => ({ queue: name, state: stateName(state), jobs, oldest }))
}
