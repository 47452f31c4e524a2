import type { SqliteConnection } from '../../database/sqlite.ts'
import type { DeclaredQueue, Retention } from '../contract/store.ts'
import type { Yields } from '../shared/yields.ts'
import { sharedQueue } from './own.ts'
import type { Policies } from './limit-timelines.ts'
import type { StoreClock } from './store-clock.ts'

/** The state that the verbs of the SQLite store share. */
export interface Context {
  readonly db: SqliteConnection
  readonly clock: StoreClock
  readonly policies: Policies
  readonly retention: Retention
  /** Ids for the jobs that the store itself creates: occurrences of schedules. */
  readonly newId: () => string
  /** Ids of queues and lanes by name and key, as committed or as written in the current transaction. */
  readonly ids: {
    readonly queues: Map<string, number>
    readonly queueNames: Map<number, string>
  }
  /** The last turn that this process assigned. */
  readonly turns: { given: number }
  /** Whether the last runs that ended together held no permits, and no flow waited for them. */
  readonly ends: { plain: boolean }
  /** At equal priority, whether a queue's unlimited lane is next; by queue id. */
  readonly unlimitedNext: Map<number, boolean>
  /** The queue limits that this process declared, by queue. */
  readonly declared: Map<string, DeclaredQueue>
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
  readonly yields: Yields
  /** The last lane of which each worker of this process has created its view; Infinity: it has all views. */
  readonly adopted: Map<number, number>
  /** Tells this process, after the commit, that jobs were asked to end. */
  readonly tellCancelled: () => void
}

/** The id of a queue, which is created if new. */
export function queueId(context: Context, name: string): number {
  let id = context.ids.queues.get(name)
  if (id !== undefined) return id
  context.db.run('INSERT INTO queues (name, created) VALUES (?, ?) ON CONFLICT DO NOTHING', name, context.clock.nowUs())
  id = (context.db.get<[number]>('SELECT id FROM queues WHERE name = ?', name) as [number])[0]
  context.ids.queues.set(name, id)
  context.ids.queueNames.set(id, name)
  return id
}

/** The name of a queue by its id. */
export function queueName(context: Context, given: number): string {
  const id = sharedQueue(given)
  let name = context.ids.queueNames.get(id)
  if (name !== undefined) return name
  name = (context.db.get<[string]>('SELECT name FROM queues WHERE id = ?', id) as [string])[0]
  context.ids.queueNames.set(id, name)
  return name
}

/**
 * The lane number of a queue's unlimited lane, which holds jobs without limits. No other lane has a negative number.
 */
export function unlimitedLaneOf(queue: number): number {
  return -queue
}
