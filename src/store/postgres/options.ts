import type { Clock } from '../../base/clock.ts'
import type { PgPool } from '../../database/pg.ts'
import type { Retention } from '../contract/store.ts'

/** Options of a PostgreSQL store. */
export interface PostgresStoreOptions {
  /** `postgres://…`, or a pool of `pg`, which the store's `close` leaves open. */
  readonly connection: string | PgPool
  readonly clock: Clock
  readonly retention: Retention
  /** The schema of the tables; default `sluice`. */
  readonly schema?: string
  /** The most connections of this process, if it creates the pool; default 8. */
  readonly connections?: number
  /** Priorities age by one step per this interval in µs; null: they do not; absent: as stored. */
  readonly ageingUs?: number | null
  /**
   * Whether processes notify each other by NOTIFY; default true. False: timers only, as behind pgBouncer's transaction
   * mode.
   */
  readonly notify?: boolean
}
