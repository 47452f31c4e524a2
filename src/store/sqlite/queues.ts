import type { QueueBounds } from '../contract/queues.ts'
import type { QueueColumn } from '../shared/sql.ts'
import { type Context, queueId } from './context.ts'
import { STATE } from '../shared/state.ts'

/** Changes one column of a queue, which is created if new. Claims of one file come one after the other anyway. */
export function setQueue(
  context: Context,
  queue: string,
  column: QueueColumn,
  value: string | boolean | number | null,
): void {
  const stored = typeof value === 'boolean' ? Number(value) : value
  context.db.run(`UPDATE queues SET ${column} = ? WHERE id = ?`, stored, queueId(context, queue))
}

/** The bounds of a queue; null: it has none. */
export function boundsOf(context: Context, queue: string): QueueBounds | null {
  const [text] = context.db.get<[string | null]>('SELECT bounds FROM queues WHERE name = ?', queue) ?? [null]
  return text === null ? null : (JSON.parse(text) as QueueBounds)
}

/** Runs that ended since then; the index on the end of the retention gives their times. */
export function endedRuns(
  context: Context,
  sinceUs: number,
  queuePrefix = '',
): { completed: number; discarded: number } {
  const { completedUs, discardedUs } = context.retention
  const among = queuePrefix === '' ? '' : ' AND queue IN (SELECT id FROM queues WHERE substr(name, 1, length(?)) = ?)'
  const names = queuePrefix === '' ? [] : [queuePrefix, queuePrefix]
  const count = (state: number, dueUs: number): number =>
    (
      context.db.get<[number]>(
        `SELECT count(*) FROM jobs WHERE state = ? AND due > ?${among}`,
        state,
        dueUs,
        ...names,
      ) as [number]
    )[0]
  return {
    completed: count(STATE.completed, sinceUs + completedUs),
    discarded: count(STATE.discarded, sinceUs + discardedUs),
  }
}
