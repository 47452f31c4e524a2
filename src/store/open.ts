import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { quote, show } from '../base/options.ts'
import { withoutPassword } from '../base/text.ts'
import type { Durability, Retention, Store } from './contract/store.ts'
import { isPostgresUrl, readPostgresUrl } from './shared/postgres-url.ts'

/** The options of every backend. */
export interface StoreOptions {
  readonly clock: Clock
  readonly durability: Durability
  readonly retention: Retention
  /** Priorities age by one step per this interval in µs; null: they do not; absent: as stored. */
  readonly ageingUs?: number | null
}

/**
 * A loader of the store behind a URL: `sqlite:<path>`, `sqlite::memory:` or `postgres://…`. The URL is checked now; the
 * call loads the backend. A ready store is returned as it is.
 * @throws {SluiceError} `store.url.invalid`
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

/** The store behind a URL, loaded at once. @throws {SluiceError} `store.url.invalid` */
export async function createStore(url: string, options: StoreOptions): Promise<Store> {
  return storeLoader(url, options)()
}

/**
 * Opens an existing store, to inspect it.
 * @throws {SluiceError} `store.url.invalid`, `store.missing`, `store.version`
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
 * Creates or upgrades the tables of a PostgreSQL store, and returns the SQL of it. `dryRun` runs none of it.
 * @throws {SluiceError} `store.url.invalid`, `store.version`, `store.io`
 */
export async function upgradeStore(url: string, clock: Clock, dryRun: boolean): Promise<string> {
  if (isPostgresUrl(url)) return (await import('./postgres/url.ts')).upgradePostgres(url, clock, dryRun)
  throw new SluiceError(
    'store.url.invalid',
    `The store is invalid: ${shown(url)}. Expected a postgres:// URL: an engine upgrades a SQLite file when it opens it.`,
  )
}

/**
 * Checks that an engine could open a store, upgrade it or make it, and changes nothing.
 * @throws {SluiceError} `store.url.invalid`, `store.version`, `store.missing`, `store.io`
 */
export async function checkStore(url: string, clock: Clock): Promise<void> {
  if (isPostgresUrl(url)) return (await import('./postgres/url.ts')).checkPostgres(url, clock)
  const path = pathOf(url)
  const { checkStartable } = await import('./sqlite/existing.ts')
  checkStartable(path)
}

function pathOf(url: string): string {
  const given = typeof url === 'string' && url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : ''
  const path = given.replace(/^\/\/(?=\/)/, '')
  const nearest = misspelt(path)
  if (path !== '' && nearest === null) return path
  throw new SluiceError(
    'store.url.invalid',
    `The store is invalid: ${shown(url)}. Expected sqlite:./path/to/file.db without options, sqlite::memory: for a store that ends with the process, or postgres://user@host/database.${nearest === null ? '' : ` Did you mean sqlite:${nearest}?`}`,
  )
}

function shown(url: unknown): string {
  return typeof url === 'string' ? quote(withoutPassword(url)) : show(url)
}

/**
 * The likely intention behind a path: a near miss of `:memory:` would make a file, `//./x` would be `/x`, SQLite would
 * open another file than `file:x`, and options would be a part of the file's name.
 */
function misspelt(path: string): string | null {
  const meant = path
    .trim()
    .replace(/^file:(?:\/\/(?=\/))?([^?#]*).*$/i, '$1')
    .replace(/\?(?:[\w-]+=[^/]*)?$/, '')
  if (path !== MEMORY && /^(?:\/\/)?:{0,2}memory:{0,2}(?:[?#].*)?$/i.test(meant)) return MEMORY
  if (meant !== path || meant.startsWith('//')) return meant.replace(/^\/\/+/, '') || './jobs.db'
  return null
}

const MEMORY = ':memory:'
