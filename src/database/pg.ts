/** The parts of the package `pg` that Sluice uses. It loads only when a store needs it. */
import { packageError } from '../base/optional-package.ts'

/** The used parts of a `pg` connection, or of a compatible object. */
export interface PgClient {
  query(config: PgQuery): Promise<PgResult | PgResult[]>
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
