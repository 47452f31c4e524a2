import { Pool } from 'pg'
import { afterAll, afterEach } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { RETENTION, type StoreBackend, type StoreSettings } from '../conformance/store/backend.ts'
import { dropSchema } from '../drop-schema.ts'
import { createEmptying, emptySchema } from '../emptied-schema.ts'

/** Where the tests find PostgreSQL. */
export const POSTGRES_URL: string = process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** A schema with connections of its own, whose plans are made. */
interface Storage {
  readonly schema: string
  readonly pool: Pool
  /** The function that empties it; null before the first use has ended. */
  readonly emptied: { by: Promise<void> | null }
}

/**
 * PostgreSQL for the suites: a schema for each storage, which goes when the tests are over. What a test has used and left in order is emptied
 * for a later one: to make the tables and the plans of fresh connections would take longer than most tests do.
 */
export function postgresBackend(name: string): StoreBackend {
  const prefix = `sluice_test_${process.pid}_${Math.trunc(process.hrtime()[1] / 1000)}`
  const all: Storage[] = []
  const free: Storage[] = []
  let used: Storage[] = []
  afterEach(async () => {
    for (const storage of used.splice(0)) if (await empty(storage)) free.push(storage)
  })
  afterAll(async () => {
    for (const { schema, pool } of all) {
      await dropSchema(pool, schema)
      await pool.end()
    }
  })
  const create = (): Storage => {
    const pool = new Pool({ connectionString: POSTGRES_URL, max: 2, idleTimeoutMillis: 1000 })
    pool.on('error', () => undefined)
    const storage = { schema: `${prefix}_${all.length}`, pool, emptied: { by: null } }
    all.push(storage)
    return storage
  }
  const open = async (storage: Storage, clock: Clock, settings: StoreSettings = {}): Promise<Store> => {
    const { pool: connection, schema } = storage
    const store = new PostgresStore({ connection, schema, clock, retention: RETENTION, notify: false, ...settings })
    await store.open()
    return store
  }
  return {
    name,
    part: 0.1,
    open: (clock, settings) => {
      const storage = free.pop() ?? create()
      used = [...used, storage]
      return open(storage, clock, settings)
    },
    reopen: (clock, settings) => open(used.at(-1) ?? create(), clock, settings),
  }
}

/** Makes it as it was when it was new; false where a process still uses it. */
async function empty({ schema, pool, emptied }: Storage): Promise<boolean> {
  if (pool.idleCount < pool.totalCount) return false
  await (emptied.by ??= createEmptying(pool, schema))
  await emptySchema(pool, schema)
  return true
}
