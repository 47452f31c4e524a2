import type { Clock } from '../../base/clock.ts'
import type { Store } from '../contract/store.ts'
import { readPostgresUrl } from '../shared/postgres-url.ts'
import { type PostgresStoreOptions, PostgresStore } from './postgres-store.ts'

/** The store behind a `postgres://` URL. @throws {SluiceError} `store.url.invalid` */
export function postgresStoreOf(
  url: string,
  { clock, retention, ageingUs }: Pick<PostgresStoreOptions, 'clock' | 'retention' | 'ageingUs'>,
): PostgresStore {
  return new PostgresStore({
    ...readPostgresUrl(url),
    clock,
    retention,
    ...(ageingUs !== undefined && { ageingUs }),
  })
}

/**
 * Opens an existing store, to inspect it.
 * @throws {SluiceError} `store.url.invalid`, `store.missing`, `store.version`
 */
export async function existingPostgres(url: string, clock: Clock): Promise<Store> {
  const retention = { completedUs: 0, cancelledUs: 0, discardedUs: 0 }
  const store = postgresStoreOf(url, { clock, retention })
  await store.openExisting()
  return store
}

/** Creates or upgrades the tables, or only returns the SQL of it. */
export function upgradePostgres(url: string, clock: Clock, dryRun: boolean): Promise<string> {
  return withStore(url, clock, (store) => store.upgrade(dryRun))
}

/** Checks that an engine could open the store, upgrade it or make it. */
export function checkPostgres(url: string, clock: Clock): Promise<void> {
  return withStore(url, clock, (store) => store.check())
}

async function withStore<T>(url: string, clock: Clock, work: (store: PostgresStore) => Promise<T>): Promise<T> {
  const store = postgresStoreOf(url, { clock, retention: { completedUs: 0, cancelledUs: 0, discardedUs: 0 } })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}
