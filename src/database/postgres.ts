import { systemClock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { codeOf, isLost, mayRepeat, shownAddress, wrapError, connectError } from './postgres-error.ts'
import {
  loadPg,
  NOT_AS_PREPARED,
  type PgClient,
  type PgPool,
  type PgPoolClient,
  type PgQuery,
  type PgResult,
  PreparedNames,
  TYPES,
} from './pg.ts'
import { drop, inTime, Silence, SilentError } from './silence.ts'
import { parameter } from './array-text.ts'
import type { PgValue, Statements } from './statements.ts'
import { inShortTransaction } from './postgres-transaction.ts'

/** How to reach a database. */
export interface PostgresOptions {
  /** `postgres://…`, or a pool that was made elsewhere, which is left open at the end. */
  readonly source: string | PgPool
  /** The most connections of a pool that Sluice creates. */
  readonly connections: number
  /** The schema that statements mean where they say `sluice.`. */
  readonly schema: string
  /** Whether a connection keeps its process at the server, so that calls can be prepared; absent: false. */
  readonly prepares?: boolean
  /** A clock for tests, which the schema's functions read; absent: the server's own. */
  readonly times?: () => readonly [nowUs: number, wallUs: number] | null
}

const TRIES = 8
/** The time limit for a new connection of an own pool. `connect_timeout` in the URL overrides it, in s. */
const CONNECT_WITHIN_MS = 4000
/** A call waits so long for a connection to come free. */
const FREE_WITHIN_MS = 30_000
/** The system probes an idle connection after this time. */
const KEEP_ALIVE_MS = 10_000
/** Connections that were closed politely have so long to go. */
const FAREWELL_MS = 500

interface OpenPool {
  readonly pool: PgPool
  readonly silence: Silence
  /** Its listener for new connections. */
  readonly made: (client: PgPoolClient) => void
}

/** Connections to PostgreSQL: statements, transactions, scripts of one round trip. */
export class PostgresDatabase {
  readonly #options: PostgresOptions
  readonly #texts = new Map<string, string>()
  /** Null: nothing is prepared. */
  #prepared: PreparedNames | null
  readonly #sent = new WeakMap<object, string>()
  /** Connections that are in use, and all that an own pool has made. */
  readonly #used = new Set<PgPoolClient>()
  readonly #own = new Set<PgPoolClient>()
  #pool: Promise<OpenPool> | null = null
  #closed = false
  /** Ends the waits for a connection. */
  readonly #waits = new Set<() => void>()
  #closing: Promise<void> | null = null
  /** Whether a call that a server which only reads refuses is not to be repeated: no fleet waits for its failover. */
  readOnlyLasts = false
  #calls = 0
  #idle: (() => void)[] = []

  constructor(options: PostgresOptions) {
    this.#options = options
    this.#prepared = options.prepares === true ? new PreparedNames() : null
  }

  /** The schema's name, as it is written in SQL. */
  get schema(): string {
    return identifier(this.#options.schema)
  }

  /** True while a call is on its way. */
  get pending(): boolean {
    return this.#calls > 0
  }

  /** One statement, which is its own transaction. */
  async all<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row[]> {
    return this.session((statements) => statements.all<Row>(sql, ...values))
  }

  /**
   * Runs work on one connection. Each statement is its own transaction unless the work begins one. @param patient lets
   * the server take any time for a statement; otherwise a minute
   */
  async session<T>(work: (statements: Statements) => Promise<T>, patient = false): Promise<T> {
    if (this.#closed) throw closedError()
    this.#calls++
    try {
      const { client, silence } = await this.#connect()
      let broken = true
      try {
        const result = await work(this.#statements(client, { silence, patient }))
        broken = false
        return result
      } catch (error) {
        broken = isLost(error)
        throw error
      } finally {
        client.off('error', ignore)
        this.#release(client, broken)
      }
    } catch (error) {
      throw wrapError(error, this.readOnlyLasts)
    } finally {
      if (--this.#calls === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Runs work in one transaction, and repeats it after a deadlock. */
  transaction<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    return this.autocommit((statements) => inShortTransaction(statements, work))
  }

  /** As `session`, and repeats the work as a whole after a deadlock, or beside an upgrade. */
  async autocommit<T>(work: (statements: Statements) => Promise<T>, patient = false): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.session(work, patient)
      } catch (error) {
        if (tries >= TRIES || !mayRepeat(error)) throw error
      }
    }
  }

  /** Statements on the caller's connection, within its open transaction. @throws {SluiceError} `option.invalid` */
  within(client: unknown): Statements {
    if (typeof client !== 'object' || client === null || typeof (client as Partial<PgClient>).query !== 'function')
      throw new SluiceError(
        'option.invalid',
        'tx is invalid. Expected a connection of pg on which the caller has begun a transaction.',
      )
    // Each statement of a pool takes whichever connection is free: none of them would be in the caller's transaction.
    if ('totalCount' in client && 'idleCount' in client)
      throw new SluiceError(
        'option.invalid',
        'tx is invalid: a pool. Expected the client of pool.connect() on which the caller has begun a transaction.',
      )
    const its = this.#statements(client as PgClient, null)
    return {
      all: (sql, ...values) => inWords(its.all(sql, ...values)),
      call: (sql, ...values) => inWords(its.call(sql, ...values)),
      get: (sql, ...values) => inWords(its.get(sql, ...values)),
      run: (sql, ...values) => inWords(its.run(sql, ...values)),
      script: (sql, ...values) => inWords(its.script(sql, ...values)),
    }
  }

  /** Reserves a connection to listen on; `letGo` ends that. */
  async reserve(): Promise<{ readonly client: PgPoolClient; readonly statements: Statements }> {
    const { client, silence } = await this.#connect()
    return { client, statements: this.#statements(client, { silence, patient: false }) }
  }

  /** Drops a reserved connection. A connection that listened is not reused. */
  letGo(client: PgPoolClient): void {
    this.#used.delete(client)
    client.release(true)
  }

  /** Waits for calls in flight, then closes the connections. @param now cuts those calls off: they fail */
  async close(now = false): Promise<void> {
    if (now) {
      this.#closed = true
      for (const client of this.#used) drop(client)
      for (const end of this.#waits) end()
    }
    if (this.pending && !now) await new Promise<void>((resolve) => this.#idle.push(resolve))
    this.#closed = true
    this.#closing ??= this.#end()
    await this.#closing
  }

  async #end(): Promise<void> {
    // If opening failed, there is no pool to close.
    const opened = await this.#pool?.catch(() => undefined)
    opened?.pool.off('connect', opened.made)
    if (!opened || typeof this.#options.source !== 'string') return
    await inTime(opened.pool.end(), FAREWELL_MS)
    // Their farewell goes over a network that may be silent: it must not keep the process alive.
    setTimeout(() => {
      for (const client of this.#own) drop(client)
    }, FAREWELL_MS).unref()
  }

  async #connect(): Promise<{ readonly client: PgPoolClient; readonly silence: Silence }> {
    this.#pool ??= this.#openPool()
    const { pool, silence } = await this.#pool
    for (;;) {
      const client = await this.#take(pool)
      // A connection that dies between statements emits an error event; its user gets the error with the next
      // statement.
      client.on('error', ignore)
      if (!silence.suspects(client)) return { client, silence }
      this.#release(client, true)
    }
  }

  async #take(pool: PgPool): Promise<PgPoolClient> {
    try {
      const taking = pool.connect()
      const client = await inTime(taking, FREE_WITHIN_MS, this.#waits)
      if (client && !this.#closed) {
        this.#used.add(client)
        return client
      }
      taking.then((late) => late.release(this.#closed)).catch(ignore)
      throw this.#closed ? closedError() : new SilentError(FREE_WITHIN_MS)
    } catch (error) {
      const { source } = this.#options
      throw connectError(typeof source === 'string' ? shownAddress(source) : 'what the given pool is for', error)
    }
  }

  #release(client: PgPoolClient, broken: boolean): void {
    this.#used.delete(client)
    if (broken) drop(client)
    client.release(broken)
  }

  async #openPool(): Promise<OpenPool> {
    const { source } = this.#options
    const pool = typeof source === 'string' ? await this.#ownPool(source) : source
    const silence = new Silence(pool)
    const made = (client: PgPoolClient): void => {
      // A new connection has no listener yet: without this one a server that ends it just then would end the process.
      client.on('error', ignore)
      silence.heard(client)
    }
    pool.on('connect', made)
    return { pool, silence, made }
  }

  async #ownPool(connectionString: string): Promise<PgPool> {
    const { Pool, Client } = await loadPg()
    const seconds = Number(new URL(connectionString).searchParams.get('connect_timeout'))
    const connectionTimeoutMillis = seconds > 0 ? seconds * 1000 : CONNECT_WITHIN_MS
    // Of the pool itself this option would bound the wait for a free connection, too.
    class PatientClient extends Client {
      constructor(options: object) {
        super({ connectionTimeoutMillis, pipeline: true, ...options })
      }
    }
    const pool = new Pool({
      connectionString,
      max: this.#options.connections,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      Client: PatientClient,
    })
    pool.on('error', ignore)
    pool.on('connect', (client) => {
      this.#own.add(client)
      client.on('end', () => this.#own.delete(client))
    })
    return pool
  }

  #statements(client: PgClient, bounds: { readonly silence: Silence; readonly patient: boolean } | null): Statements {
    const ask = (query: PgQuery): Promise<PgResult | PgResult[]> => {
      const call = client.query(query)
      return bounds ? bounds.silence.bound(client, call, bounds.patient) : call
    }
    const queryOf = (sql: string, values: PgValue[], names: PreparedNames | null): PgQuery => {
      const text = this.#text(sql)
      const query = { text, values: values.map(parameter), rowMode: 'array', types: TYPES } as const
      return names ? { ...query, name: names.of(client, sql, text) } : query
    }
    let behind: PgQuery | null = null
    const run = async (sql: string, values: PgValue[], names: PreparedNames | null = null): Promise<PgResult> => {
      await this.#sendTime(client, ask)
      const asked = ask(queryOf(sql, values, names))
      if (behind) client.query(behind).catch(ignore)
      behind = null
      return (await asked) as PgResult
    }
    return {
      ...(bounds &&
        client.pipeline &&
        this.#prepared && {
          behind: (sql: string, ...values: PgValue[]) => void (behind = queryOf(sql, values, this.#prepared)),
        }),
      call: async <Row extends readonly unknown[]>(sql: string, ...values: PgValue[]) => {
        // A caller's connection may be of any kind.
        for (let names = bounds && this.#prepared; names; names = this.#prepared) {
          try {
            return (await run(sql, values, names)).rows as Row[]
          } catch (error) {
            // It has not begun.
            if (!NOT_AS_PREPARED.has(codeOf(error) ?? '')) throw error
            const nowUs = this.#options.times?.()?.[0] ?? systemClock.monotonicUs()
            if (names.lost(client, nowUs)) this.#prepared = null
          }
        }
        return (await run(sql, values)).rows as Row[]
      },
      all: async <Row extends readonly unknown[]>(sql: string, ...values: PgValue[]) =>
        (await run(sql, values)).rows as Row[],
      get: async <Row extends readonly unknown[]>(sql: string, ...values: PgValue[]) =>
        (await run(sql, values)).rows[0] as Row | undefined,
      run: async (sql, ...values) => (await run(sql, values)).rowCount ?? 0,
      script: async (sql, ...values) => {
        await this.#sendTime(client, ask)
        const template = this.#text(sql)
        const text =
          values.length === 0
            ? template
            : template.replaceAll(/\$(\d+)/g, (_, n: string) => literal(values[Number(n) - 1] ?? ''))
        const results = await ask({ text, rowMode: 'array', types: TYPES })
        return (Array.isArray(results) ? results : [results]).map(({ rows }) => rows as (readonly unknown[])[])
      },
    }
  }

  /** Sends the time of a test's clock to the server before a statement, if it has changed. */
  async #sendTime(client: PgClient, ask: (query: PgQuery) => Promise<unknown>): Promise<void> {
    const times = this.#options.times?.()
    if (!times) return
    const text = times.join()
    if (this.#sent.get(client) === text) return
    this.#sent.set(client, text)
    await ask({
      text: `SELECT set_config('sluice_clock.now_us', '${times[0]}', false), set_config('sluice_clock.wall_us', '${times[1]}', false)`,
    })
  }

  #text(sql: string): string {
    if (this.#options.schema === 'sluice') return sql
    let text = this.#texts.get(sql)
    if (text !== undefined) return text
    text = sql.replaceAll(/\bsluice\./g, `${this.schema}.`)
    this.#texts.set(sql, text)
    return text
  }
}

async function inWords<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    throw wrapError(error)
  })
}

/** Writes a text into a script. */
function literal(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Writes a name into a script. */
function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

function ignore(): void {
  // The caller gets the original error.
}

function closedError(): SluiceError {
  return new SluiceError('engine.stopped', 'The store is closed. Create a new engine to go on.')
}
