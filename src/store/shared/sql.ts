/** Statements that both stores run. They are written for PostgreSQL, in terms that SQLite shares or can drop. */
import type { Retention } from '../contract/store.ts'
import { ask, type Reading } from './reading.ts'
import type { Instant } from './series.ts'

/** A parameter of a statement. */
export type SqlValue = string | number | boolean | null | readonly (string | number | null)[]

/** The statements of one connection. SQLite answers at once. */
export interface Sql {
  all<Row extends readonly unknown[]>(sql: string, ...values: SqlValue[]): Row[] | Promise<Row[]>
  get<Row extends readonly unknown[]>(sql: string, ...values: SqlValue[]): Row | undefined | Promise<Row | undefined>
  run(sql: string, ...values: SqlValue[]): number | Promise<number>
}

/** The parts of a store that shared logic needs. */
export interface Access {
  readonly db: Sql
  readonly retention: Retention
  /** The column of lanes that `jobs.lane` refers to. */
  readonly laneKey: 'id' | 'key'
  now(): Instant | Promise<Instant>
  /** The name of a stored queue, or of the shared queue behind a worker's own. */
  queueName(stored: string | number): string
  /** The name of the limit of a stored bucket. */
  limitName(stored: string): string
  /** Records queues that this process has named and not recorded yet. */
  recordQueues(): unknown
  /** Removes the registration of a worker. */
  leave(worker: number): unknown
}

/** All rows of a query. */
export function all<Row extends readonly unknown[]>(db: Sql, sql: string, ...values: SqlValue[]): Reading<Row[]> {
  return ask(() => db.all<Row>(sql, ...values))
}

/** The first row of a query. */
export function get<Row extends readonly unknown[]>(
  db: Sql,
  sql: string,
  ...values: SqlValue[]
): Reading<Row | undefined> {
  return ask(() => db.get<Row>(sql, ...values))
}

/** Runs a statement for its effect. @returns the number of rows changed */
export function run(db: Sql, sql: string, ...values: SqlValue[]): Reading<number> {
  return ask(() => db.run(sql, ...values))
}

/** The store's clock. */
export function now(access: Access): Reading<Instant> {
  return ask(() => access.now())
}

/** Whether a text can be the id of a job or a flow; a search for any other text finds nothing. */
export function isUuid(id: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id)
}

/** The tables that both stores empty for tests, beside the jobs. */
export const EMPTIED: readonly string[] =
  'lanes buckets limits overrides schedules queues flows flow_edges drop_watch audit'.split(' ')
