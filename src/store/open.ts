import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { withoutPassword } from '../base/without-password.ts'
import { existingPostgres, isPostgresUrl, postgresStoreOf, upgradePostgres } from './postgres/url.ts'
import { checkExisting } from './sqlite/existing.ts'
import { SqliteStore } from './sqlite/sqlite-store.ts'
import type { Durability, Retention, Store } from './contract/store.ts'

/** What every backend is opened with. */
export interface StoreOptions {
  readonly clock: Clock
  readonly durability: Durability
  readonly retention: Retention
  /** Priorities age by one step per so many µs; null: they do not; absent: as the store has it. */
  readonly ageingUs?: number | null
}

/**
 * The store behind a URL, `sqlite:<path>`, `sqlite::memory:` or `postgres://…`; a store that was made elsewhere is taken as it is.
 * @throws store.url.invalid
 */
export function createStore(url: string | Store, options: StoreOptions): Store {
  if (typeof url === 'object' && url !== null) return url
  if (isPostgresUrl(url)) return postgresStoreOf(url, options)
  return new SqliteStore({ path: pathOf(url), ...options })
}

/**
 * Opens a store that is there already, to look into it.
 * @throws store.url.invalid, store.missing, store.version
 */
export async function openExisting(url: string, clock: Clock): Promise<Store> {
  if (isPostgresUrl(url)) return existingPostgres(url, clock)
  const path = pathOf(url)
  checkExisting(path)
  const retention = { completedUs: 0, cancelledUs: 0, discardedUs: 0 }
  const store = new SqliteStore({ path, clock, durability: 'process', retention })
  await store.open()
  return store
}

/**
 * Creates or upgrades the tables of a PostgreSQL store, and answers the SQL that this took; with `dryRun` it is only told.
 * @throws store.url.invalid, store.version, store.io
 */
export async function upgradeStore(url: string, clock: Clock, dryRun: boolean): Promise<string> {
  if (isPostgresUrl(url)) return upgradePostgres(url, clock, dryRun)
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
