/** The parts of the package `pg` that Sluice uses, and what it prepares. It loads only when a store needs it. */
import { createHash } from 'node:crypto'
import { packageError } from '../base/optional-package.ts'

/** The used parts of a `pg` connection, or of a compatible object. */
export interface PgClient {
  query(config: PgQuery): Promise<PgResult | PgResult[]>
  /** Whether it sends a query before the one ahead of it is answered. */
  readonly pipeline?: boolean
  /** The number of the server's process behind it. */
  readonly processID?: number | null
  readonly connection?: { readonly stream?: { readonly bytesRead?: number; destroy(): unknown } }
}

/** A connection that belongs to no pool. */
export interface PgOwnClient extends PgClient {
  connect(): Promise<unknown>
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** A connection of a pool. */
export interface PgPoolClient extends PgClient {
  /** Returns the connection to the pool; true: it is broken and must be dropped. */
  release(broken?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
  on(event: 'notification', listener: (message: PgEvent) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

/** The used parts of a `pg` pool. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'connect', listener: (client: PgPoolClient) => void): unknown
  off(event: 'connect', listener: (client: PgPoolClient) => void): unknown
  /** The class of the pool's connections. */
  readonly Client?: new (options: object) => PgOwnClient
  readonly options?: { readonly password?: unknown }
}

/** A notification. */
export interface PgEvent {
  readonly payload?: string | undefined
}

/** A query as `pg` takes it. */
export interface PgQuery {
  /** The connection prepares the statement under this name. */
  readonly name?: string
  readonly text: string
  readonly values?: unknown[]
  readonly rowMode?: 'array'
  readonly types?: { getTypeParser(oid: number): (text: string) => unknown }
}

/** A result of `pg`. */
export interface PgResult {
  readonly rows: unknown[]
  readonly rowCount: number | null
}

const INT8 = 20
const PARSERS = new Map<number, (text: string) => unknown>([
  [16, (text) => text === 't'],
  [21, Number],
  [23, Number],
  [701, Number],
  // Microseconds since 1970 and numbers of rows stay far below 2^53.
  [INT8, Number],
  [1016, (text) => (text === '{}' ? [] : text.slice(1, -1).split(',').map(Number))],
])

/** Column parsers: numbers become numbers, all other values text. */
export const TYPES: NonNullable<PgQuery['types']> = {
  getTypeParser: (oid: number): ((text: string) => unknown) => PARSERS.get(oid) ?? String,
}

/** Options of a pool that Sluice creates. */
export interface PgPoolOptions {
  readonly connectionString: string
  readonly max: number
  readonly keepAlive: boolean
  readonly keepAliveInitialDelayMillis: number
  readonly Client: new (options: object) => PgOwnClient
}

interface PgModule {
  readonly Pool: new (options: PgPoolOptions) => PgPool
  readonly Client: new (options: object) => PgOwnClient
}

/** Loads the package. @throws {SluiceError} `package.missing` */
export async function loadPg(): Promise<PgModule> {
  const module = await import('pg').catch((cause: unknown) => {
    throw packageError(cause, 'A postgres:// store', 'pg')
  })
  return (module as unknown as { readonly default: PgModule }).default
}

/** The server has no statement of this name, or another one; or an upgrade has changed the columns of its answer. */
export const NOT_AS_PREPARED: ReadonlySet<string> = new Set(['26000', '42P05', '0A000'])
/** A connection that loses its statements so often within this time has no process of its own at the server. */
const LOSSES = 3
const WITHIN_US = 60_000_000

/** The names of prepared statements. */
export class PreparedNames {
  /** By the texts of the statements. */
  readonly #names = new Map<string, string>()
  /** How often a connection has lost its statements, and when it last did. */
  readonly #lost = new WeakMap<PgClient, { readonly times: number; readonly lastUs: readonly number[] }>()

  /** The name of a call on a connection. */
  of(client: PgClient, sql: string, text: string): string {
    let name = this.#names.get(text)
    if (name === undefined) {
      const called = Array.from(sql.matchAll(/\bsluice\.(\w+)\(/g), ([, of]) => of).join('_')
      // Processes may share the connections of a pool that was made elsewhere.
      const hash = createHash('sha256').update(text).digest('hex')
      // The server keeps 63 characters of a name, with the number behind it.
      name = `sluice_${called.slice(0, 32)}_${hash.slice(0, 16)}`
      this.#names.set(text, name)
    }
    const lost = this.#lost.get(client)
    return lost ? `${name}.${lost.times}` : name
  }

  /**
   * The server has lost the statements of a connection: they get new names. True: it does so all the time, since the
   * connection stands behind a pooler that gives it another process now and then.
   */
  lost(client: PgClient, nowUs: number): boolean {
    const { times, lastUs } = this.#lost.get(client) ?? { times: 0, lastUs: [] }
    const recent = [...lastUs, nowUs].slice(-LOSSES)
    this.#lost.set(client, { times: times + 1, lastUs: recent })
    return recent.length === LOSSES && nowUs - (recent[0] ?? 0) < WITHIN_US
  }
}
