import type { Clock } from '../../base/clock.ts'
import type { PgPool } from '../../database/pg.ts'
import type { Retention } from '../contract/store.ts'

/** How a PostgreSQL store is opened. */
export interface PostgresStoreOptions {
  /** `postgres://…`, or a pool of `pg`, which stays open when the store is closed. */
  readonly connection: string | PgPool
  readonly clock: Clock
  readonly retention: Retention
  /** The schema of the tables; `sluice` by default. */
  readonly schema?: string
  /** Connections of this process at most, where it makes the pool; 8 by default. */
  readonly connections?: number
  /** Priorities age by one step per so many µs; null: they do not; absent: as the store has it. */
  readonly ageingUs?: number | null
  /** Whether processes ring each other by NOTIFY; true by default. False: by timers alone, as behind pgBouncer's transaction mode. */
  readonly notify?: boolean
}
