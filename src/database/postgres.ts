import { SluiceError } from '../base/errors.ts'
import { codeOf, isLost, shownAddress, toldOf, unreached } from './postgres-error.ts'
import { loadPg, type PgClient, type PgPool, type PgPoolClient, type PgResult, TYPES } from './pg.ts'

/** A value of a statement; arrays are arrays of the database. */
export type PgValue = string | number | boolean | null | readonly (string | number | boolean | null)[]

/** Statements of one connection, within a transaction or each by itself. */
export interface Statements {
  /** All rows of a query, as arrays. */
  all<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row[]>
  /** The first row of a query, as an array. */
  get<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row | undefined>
  /** Runs a statement for its effect; answers how many rows it changed. */
  run(sql: string, ...values: PgValue[]): Promise<number>
  /** Several statements in one round trip, each with the rows that it answers; `$1` and so on are written into the text. */
  script(sql: string, ...values: string[]): Promise<(readonly unknown[])[][]>
}

/** How a database is reached. */
export interface PostgresOptions {
  /** `postgres://…`, or a pool that was made elsewhere, which is left open at the end. */
  readonly source: string | PgPool
  /** Connections at most; of an own pool. */
  readonly connections: number
  /** The schema that statements mean where they say `sluice.`. */
  readonly schema: string
  /** A clock for tests: what the functions of the schema read for the time; absent: the server's own. */
  readonly times?: () => readonly [nowUs: number, wallUs: number] | null
}

/** Deadlock, serialisation failure. */
const TRY_AGAIN = new Set(['40P01', '40001'])
const TRIES = 8

/** Connections to PostgreSQL: statements, transactions, scripts of one round trip. */
export class PostgresDatabase {
  readonly #options: PostgresOptions
  readonly #texts = new Map<string, string>()
  readonly #told = new WeakMap<object, string>()
  #pool: Promise<PgPool> | null = null
  #closed = false
  #calls = 0
  #idle: (() => void)[] = []

  constructor(options: PostgresOptions) {
    this.#options = options
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

  /** Work on one connection; each statement is its own transaction unless the work says otherwise. */
  async session<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    if (this.#closed) throw closedError()
    this.#calls++
    try {
      const client = await this.#connect()
      let broken = true
      try {
        const result = await work(this.#statements(client))
        broken = false
        return result
      } catch (error) {
        broken = isLost(error)
        throw error
      } finally {
        client.off('error', ignore)
        client.release(broken)
      }
    } catch (error) {
      throw toldOf(error)
    } finally {
      if (--this.#calls === 0) for (const resolve of this.#idle.splice(0)) resolve()
    }
  }

  /** Work in one transaction; it runs anew after a deadlock. */
  async transaction<T>(work: (statements: Statements) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.session((statements) => inTransaction(statements, work))
      } catch (error) {
        if (tries >= TRIES || !TRY_AGAIN.has(codeOf(error) ?? '')) throw error
      }
    }
  }

  /** Statements of a connection of the caller's, within the transaction that it has open. @throws option.invalid */
  within(client: unknown): Statements {
    if (typeof client !== 'object' || client === null || typeof (client as Partial<PgClient>).query !== 'function')
      throw new SluiceError(
        'option.invalid',
        'tx must be a connection of pg on which the caller has begun a transaction.',
      )
    const its = this.#statements(client as PgClient)
    return {
      all: (sql, ...values) => inWords(its.all(sql, ...values)),
      get: (sql, ...values) => inWords(its.get(sql, ...values)),
      run: (sql, ...values) => inWords(its.run(sql, ...values)),
      script: (sql, ...values) => inWords(its.script(sql, ...values)),
    }
  }

  /** A connection of the pool for as long as it is wanted, to listen on. */
  async reserve(): Promise<{ readonly client: PgPoolClient; readonly statements: Statements }> {
    const client = await this.#connect()
    return { client, statements: this.#statements(client) }
  }

  /** Answers what is on its way, then lets go of the connections. */
  async close(): Promise<void> {
    if (this.#closed) return
    if (this.pending) await new Promise<void>((resolve) => this.#idle.push(resolve))
    this.#closed = true
    const pool = await this.#pool
    pool?.off('connect', ignoreErrors)
    if (typeof this.#options.source === 'string') await pool?.end()
  }

  async #connect(): Promise<PgPoolClient> {
    this.#pool ??= this.#open()
    const pool = await this.#pool
    const client = await pool.connect().catch((error: unknown) => {
      const { source } = this.#options
      throw unreached(typeof source === 'string' ? shownAddress(source) : 'what the given pool is for', error)
    })
    // A connection that dies between two statements says so by an event; whoever uses it learns it by the next statement.
    client.on('error', ignore)
    return client
  }

  async #open(): Promise<PgPool> {
    const { source, connections } = this.#options
    const own = typeof source === 'string'
    const pool = own ? new (await loadPg()).Pool({ connectionString: source, max: connections }) : source
    if (own) pool.on('error', ignore)
    // Between its making and whoever waits for it a connection is nobody's: a server that ends it just then must end no process.
    pool.on('connect', ignoreErrors)
    return pool
  }

  #statements(client: PgClient): Statements {
    const run = async (sql: string, values: PgValue[]): Promise<PgResult> => {
      await this.#tellTime(client)
      const query = { text: this.#text(sql), values: values as unknown[], rowMode: 'array', types: TYPES } as const
      return (await client.query(query)) as PgResult
    }
    return {
      all: async <Row extends readonly unknown[]>(sql: string, ...values: PgValue[]) =>
        (await run(sql, values)).rows as Row[],
      get: async <Row extends readonly unknown[]>(sql: string, ...values: PgValue[]) =>
        (await run(sql, values)).rows[0] as Row | undefined,
      run: async (sql, ...values) => (await run(sql, values)).rowCount ?? 0,
      script: async (sql, ...values) => {
        await this.#tellTime(client)
        const template = this.#text(sql)
        const text =
          values.length === 0
            ? template
            : template.replaceAll(/\$(\d+)/g, (_, n: string) => literal(values[Number(n) - 1] ?? ''))
        const results = await client.query({ text, rowMode: 'array', types: TYPES })
        return (Array.isArray(results) ? results : [results]).map(({ rows }) => rows as (readonly unknown[])[])
      },
    }
  }

  /** Of a test's clock the server learns before each statement, if it has moved. */
  async #tellTime(client: PgClient): Promise<void> {
    const times = this.#options.times?.()
    if (!times) return
    const text = times.join()
    if (this.#told.get(client) === text) return
    this.#told.set(client, text)
    await client.query({
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
    throw toldOf(error)
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

/** Work in one transaction of a connection that is held already; the server ends one that stands still for 2 s: a stopped process must hold no locks. */
export async function inTransaction<T>(
  statements: Statements,
  work: (statements: Statements) => Promise<T>,
): Promise<T> {
  await statements.script('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 2000')
  try {
    const result = await work(statements)
    await statements.script('COMMIT')
    return result
  } catch (error) {
    if (!isLost(error)) await statements.script('ROLLBACK')
    throw error
  }
}

function ignore(): void {
  // Told elsewhere.
}

function ignoreErrors(client: PgPoolClient): void {
  client.on('error', ignore)
}

function closedError(): SluiceError {
  return new SluiceError('engine.stopped', 'The store is closed. Create a new engine to go on.')
}
