import type { QueueBounds, QueueRecord } from '../contract/queues.ts'
import { changesStarts, replaces, type StoredDeclaration, textOf } from '../shared/queue-limits.ts'
import { type Context, queueId } from './context.ts'
import { STATE } from '../shared/state.ts'
import { wakeSharedWaitLists } from './workers.ts'
import type { DeclaredQueue } from '../contract/store.ts'

const SETTING = 'setting:'

/** Every queue that was ever named. */
export function queues(context: Context): QueueRecord[] {
  return context.db
    .all<[string, number, string | null, string | null, number | null]>(
      'SELECT name, paused, bounds, limit_name, created FROM queues ORDER BY name',
    )
    .map(([name, paused, bounds, limit, createdUs]) => ({
      name,
      paused: paused === 1,
      bounds: bounds === null ? null : (JSON.parse(bounds) as QueueBounds),
      limit,
      createdUs,
    }))
}

/** Stops or resumes handing out the jobs of a queue. */
export function pauseQueue(context: Context, queue: string, paused: boolean): void {
  context.db.run('UPDATE queues SET paused = ? WHERE id = ?', paused ? 1 : 0, queueId(context, queue))
  // Lanes of a paused queue hold nobody up, and take their places again when it is resumed.
  wakeSharedWaitLists(context, context.clock.nowUs())
}

/** Holds all starts of a queue to a limit, or no more. */
export function limitQueue(context: Context, queue: string, name: string | null): void {
  context.db.run('UPDATE queues SET limit_name = ? WHERE id = ?', name, queueId(context, queue))
}

/** Keeps the limits that code gives to queues; answers those whose starts need something else now. */
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

/** Runs that ended since then; the index on the end of the retention tells when. */
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

/** Keeps a setting, or forgets it. */
export function keepSetting(context: Context, name: string, value: string | null): void {
  if (value === null) context.db.run('DELETE FROM store WHERE name = ?', SETTING + name)
  else
    context.db.run(
      'INSERT INTO store (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value',
      SETTING + name,
      value,
    )
}

/** Settings whose names begin so. */
export function settings(context: Context, prefix: string): { name: string; value: string }[] {
  return context.db
    .all<[string, string]>('SELECT name, value FROM store WHERE instr(name, ?) = 1 ORDER BY name', SETTING + prefix)
    .map(([name, value]) => ({ name: name.slice(SETTING.length), value }))
}
