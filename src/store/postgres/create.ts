import { type Clock, systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkMethods, checkOptions, show } from '../../base/options.ts'
import type { PgPool } from '../../database/pg.ts'
import type { Store } from '../contract/store.ts'
import { type RetentionOptions, retentionOf } from '../contract/retention.ts'
import { isName } from '../../base/text.ts'
import { PostgresStore } from './postgres-store.ts'

/** Options of a store over the caller's pool. */
export interface PostgresOptions {
  /** A pool of `pg`, of at least 3 connections; the store's `close` leaves it open. */
  readonly pool: PgPool
  /** The schema of the tables; default `sluice`. */
  readonly schema?: string
  /**
   * Whether processes notify each other by NOTIFY; default true. False: timers only, as behind pgBouncer's transaction
   * mode.
   */
  readonly notify?: boolean
  /** The time that finished jobs are kept; default: completed and cancelled 24 h, discarded 7 d. */
  readonly retention?: RetentionOptions
  /** The engine's clock, if it has one of its own. */
  readonly clock?: Clock
}

/** PostgreSQL truncates longer names, so that two could become one. */
const LONGEST_SCHEMA = 63

/**
 * A store on PostgreSQL over an existing pool, for `new Sluice({ store })`. @throws {SluiceError} `duration.invalid`
 */
export function createPostgresStore(options: PostgresOptions): Store {
  checkOptions(options, ['pool', 'schema', 'notify', 'retention', 'clock'], 'createPostgresStore')
  const retention = retentionOf(options.retention, 'retention of createPostgresStore')
  const { pool, schema = 'sluice', notify = true, clock = systemClock } = options
  checkMethods(pool, ['connect', 'query'], 'pool of createPostgresStore')
  checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], 'clock of createPostgresStore')
  if (typeof notify !== 'boolean')
    throw new SluiceError('option.invalid', `notify of createPostgresStore is ${show(notify)}; give true or false`)
  if (!isName(schema, LONGEST_SCHEMA))
    throw new SluiceError(
      'option.invalid',
      `schema of createPostgresStore is ${show(schema)}; give a name of 1 to ${LONGEST_SCHEMA} characters`,
    )
  return new PostgresStore({
    connection: pool,
    schema,
    notify,
    clock,
    retention,
  })
}
