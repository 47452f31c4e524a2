import { afterAll } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Store } from '../../src/store/store.ts'
import { RETENTION, type StoreHarness, type StoreSettings } from '../conformance/store/harness.ts'

/** Where the tests find PostgreSQL. */
export const POSTGRES_URL: string = process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** PostgreSQL for the suites: a schema for each storage, which goes when the tests are over. */
export function postgresHarness(name: string): StoreHarness {
  const prefix = `sluice_test_${process.pid}_${Math.trunc(process.hrtime()[1] / 1000)}`
  let schemas = 0
  afterAll(async () => {
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'sluice' })
    for (let i = 1; i <= schemas; i++) await db.all(`DROP SCHEMA IF EXISTS "${prefix}_${i}" CASCADE`)
    await db.close()
  }, 120_000)
  const open = async (clock: Clock, settings: StoreSettings = {}): Promise<Store> => {
    const schema = `${prefix}_${schemas}`
    const store = new PostgresStore({
      connection: POSTGRES_URL,
      schema,
      clock,
      retention: RETENTION,
      connections: 2,
      notify: false,
      ...settings,
    })
    await store.open()
    return store
  }
  return {
    name,
    lacks: ['flows', 'outside'],
    workerScope: false,
    open: (clock, settings) => {
      schemas++
      return open(clock, settings)
    },
    reopen: open,
  }
}
