import type { SqliteConnection } from '../../database/sqlite.ts'
import type { DeclaredQueue, Retention } from '../contract/store.ts'
import type { Yields } from '../shared/yields.ts'
import { sharedQueue } from './own.ts'
import type { Policies } from './limit-timelines.ts'
import type { StoreClock } from './store-clock.ts'

/** What every verb of the SQLite store works with. */
export interface Context {
  readonly db: SqliteConnection
  readonly clock: StoreClock
  readonly policies: Policies
  readonly retention: Retention
  /** Ids for the jobs that the store itself makes: occurrences of schedules. */
  readonly newId: () => string
  /** Ids of queues and lanes by name and key, as committed or written in the current transaction. */
  readonly ids: {
    readonly queues: Map<string, number>
    readonly queueNames: Map<number, string>
  }
  /** The last turn that was given by this process. */
  readonly turns: { given: number }
  /** At equal priority, whether a queue's open line is next; by queue id. */
  readonly unlimitedNext: Map<number, boolean>
  /** What this process has said of the limits of its queues, by queue. */
  readonly declared: Map<string, DeclaredQueue>
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
  readonly yields: Yields
  /** Up to which lane each worker of this process has taken its views; Infinity: it has all. */
  readonly adopted: Map<number, number>
}

/** The id of a queue, which is created when new. */
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

/** The lane number of a queue's open line, in which jobs without limits stand: no lane has a number below zero. */
export function unlimitedLaneOf(queue: number): number {
  return -queue
}
