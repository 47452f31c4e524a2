import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { withoutPassword } from '../base/without-password.ts'
import type { Durability, Retention, Store } from './contract/store.ts'
import { isPostgresUrl, readPostgresUrl } from './shared/postgres-url.ts'

/** What every backend is opened with. */
export interface StoreOptions {
  readonly clock: Clock
  readonly durability: Durability
  readonly retention: Retention
  /** Priorities age by one step per so many µs; null: they do not; absent: as the store has it. */
  readonly ageingUs?: number | null
}

/**
 * How to make the store behind a URL: `sqlite:<path>`, `sqlite::memory:` or `postgres://…`. The URL is checked now; its backend is
 * loaded by the call. A store that was made elsewhere is answered as it is.
 * @throws store.url.invalid
 */
export function storeLoader(url: string | Store, options: StoreOptions): () => Promise<Store> {
  if (typeof url === 'object' && url !== null) return async () => url
  if (isPostgresUrl(url)) {
    readPostgresUrl(url)
    return async () => (await import('./postgres/url.ts')).postgresStoreOf(url, options)
  }
  const path = pathOf(url)
  return async () => {
    const { SqliteStore } = await import('./sqlite/sqlite-store.ts')
    return new SqliteStore({ path, ...options })
  }
}

/** The store behind a URL, loaded at once. @throws store.url.invalid */
export async function createStore(url: string, options: StoreOptions): Promise<Store> {
  return storeLoader(url, options)()
}

/**
 * Opens a store that is there already, to look into it.
 * @throws store.url.invalid, store.missing, store.version
 */
export async function openExisting(url: string, clock: Clock): Promise<Store> {
  if (isPostgresUrl(url)) return (await import('./postgres/url.ts')).existingPostgres(url, clock)
  const path = pathOf(url)
  const { checkExisting } = await import('./sqlite/existing.ts')
  checkExisting(path)
  const retention = { completedUs: 0, cancelledUs: 0, discardedUs: 0 }
  const store = await createStore(`sqlite:${path}`, { clock, durability: 'process', retention })
  await store.open()
  return store
}

/**
 * Creates or upgrades the tables of a PostgreSQL store, and answers the SQL that this took; with `dryRun` it is only told.
 * @throws store.url.invalid, store.version, store.io
 */
export async function upgradeStore(url: string, clock: Clock, dryRun: boolean): Promise<string> {
  if (isPostgresUrl(url)) return (await import('./postgres/url.ts')).upgradePostgres(url, clock, dryRun)
  throw new SluiceError(
    'store.url.invalid',
    `${JSON.stringify(typeof url === 'string' ? withoutPassword(url) : url)} is no postgres:// store; engines upgrade a SQLite file by themselves when they open it`,
  )
}

function pathOf(url: string): string {
  const given = typeof url === 'string' && url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : ''
  const path = given.replace(/^\/\/(?=\/)/, '')
  const meant = misspelt(path)
  if (path !== '' && meant === null) return path
  throw new SluiceError(
    'store.url.invalid',
    `${typeof url === 'string' ? JSON.stringify(withoutPassword(url)) : show(url)} is no store; ${meant === null ? '' : `did you mean sqlite:${meant}? `}write sqlite:./path/to/file.db, sqlite::memory: for a store that ends with the process, or postgres://user@host/database`,
  )
}

/** What a path was most likely meant to be: a near miss of `:memory:` would make a file, and `//./x` would be `/x`. */
function misspelt(path: string): string | null {
  if (path !== MEMORY && /^(?:\/\/)?:{0,2}memory:{0,2}$/i.test(path)) return MEMORY
  return path.startsWith('//') ? path.replace(/^\/+/, '') || './jobs.db' : null
}

const MEMORY = ':memory:'
