import type { QueueBounds } from '../contract/queues.ts'
import type { QueueColumn } from '../shared/sql.ts'
import { type Context, queueId } from './context.ts'

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
