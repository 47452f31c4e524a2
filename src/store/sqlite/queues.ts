import type { QueueBounds } from '../contract/queues.ts'
import { changesStarts, replaces, type StoredDeclaration, textOf } from '../shared/queue-limits.ts'
import { type Context, queueId } from './context.ts'
import { STATE } from '../shared/state.ts'
import { wakeSharedWaitLists } from './workers.ts'
import type { DeclaredQueue } from '../contract/store.ts'

/** Stops or resumes the starts of a queue. */
export function pauseQueue(context: Context, queue: string, paused: boolean): void {
  context.db.run('UPDATE queues SET paused = ? WHERE id = ?', paused ? 1 : 0, queueId(context, queue))
  // Lanes of a paused queue block no others, and take their places again when it resumes.
  wakeSharedWaitLists(context, context.clock.nowUs())
}

/** Makes all starts of a queue need a limit's bucket, or lifts that. */
export function limitQueue(context: Context, queue: string, name: string | null): void {
  context.db.run('UPDATE queues SET limit_name = ? WHERE id = ?', name, queueId(context, queue))
}

/** Stores the limits that code gives to queues; returns the queues whose starts now need other buckets. */
export function declareQueues(context: Context, queues: readonly DeclaredQueue[]): string[] {
  const changed: string[] = []
  for (const each of queues) {
    const id = queueId(context, each.queue)
    context.declared.set(each.queue, each)
    const stored = context.db.get<[...StoredDeclaration]>('SELECT limits, limits_version FROM queues WHERE id = ?', id)
    const known = stored ?? [null, null]
    if (!replaces(each, known)) continue
    context.db.run('UPDATE queues SET limits = ?, limits_version = ? WHERE id = ?', textOf(each), each.version, id)
    if (changesStarts(each, known)) changed.push(each.queue)
  }
  return changed
}

/** Bounds a queue, or lifts its bounds. */
export function boundQueue(context: Context, queue: string, bounds: QueueBounds | null): void {
  const text = bounds === null ? null : JSON.stringify(bounds)
  context.db.run('UPDATE queues SET bounds = ? WHERE id = ?', text, queueId(context, queue))
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
