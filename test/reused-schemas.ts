import { Client } from 'pg'
import { afterAll } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { FUNCTIONS } from '../src/store/postgres/sql/embedded.ts'
import { upgradePostgres } from '../src/store/postgres/url.ts'
import { dropSchema } from './drop-schema.ts'
import { createEmptying, emptySchema } from './emptied-schema.ts'
import { inSchema } from './services.ts'

/** The functions that a clock of a test replaces. */
const CLOCK = FUNCTIONS.match(/CREATE OR REPLACE FUNCTION sluice\.(?:now|wall)_us\(\)[^]*?\$f\$;/g)?.join('\n') ?? ''

/**
 * Counts what the catalog has of a store, and looks for parts younger than the schema: a test altered those. The
 * functions named here do not count.
 */
const LOOK = `
  WITH made AS (SELECT oid, xmin FROM pg_namespace WHERE nspname = $1),
    tables AS (SELECT c.oid, c.xmin FROM pg_class c JOIN made ON relnamespace = made.oid),
    parts AS (
      SELECT xmin FROM tables
      UNION ALL SELECT a.xmin FROM pg_attribute a JOIN tables ON attrelid = tables.oid
      UNION ALL SELECT d.xmin FROM pg_attrdef d JOIN tables ON adrelid = tables.oid
      UNION ALL SELECT i.xmin FROM pg_index i JOIN tables ON indexrelid = tables.oid
      UNION ALL SELECT t.xmin FROM pg_trigger t JOIN tables ON tgrelid = tables.oid
      UNION ALL SELECT k.xmin FROM pg_constraint k JOIN tables ON conrelid = tables.oid
      UNION ALL SELECT p.xmin FROM pg_proc p JOIN made ON pronamespace = made.oid
      WHERE proname NOT IN ('now_us', 'wall_us', 'empty_for_tests')
    )
  SELECT (SELECT count(*)::int FROM parts) AS parts,
    EXISTS (SELECT 1 FROM parts, made WHERE parts.xmin <> made.xmin) AS altered,
    EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = $1) AS used`

interface Look {
  readonly parts: number
  readonly altered: boolean
  readonly used: boolean
}

let made = 0

/**
 * Schemas of PostgreSQL for the tests of one file. A store that a test leaves unaltered is emptied for a later test: to
 * make its tables and to drop them takes longer than most tests do.
 */
export class ReusedSchemas {
  readonly #server: string
  readonly #client: Client
  readonly #parts: number
  readonly #free: string[]
  readonly #emptying = new Set<string>()
  /** Those of tests that are over, whose connections may still close. */
  #left: string[] = []

  private constructor(server: string, client: Client, first: string, parts: number) {
    this.#server = server
    this.#client = client
    this.#parts = parts
    this.#free = [first]
    afterAll(() => this.#dropAll())
  }

  static async create(server: string): Promise<ReusedSchemas> {
    const first = nextName()
    await upgradePostgres(inSchema(server, first), systemClock, false)
    const client = new Client({ connectionString: server })
    await client.connect()
    return new ReusedSchemas(server, client, first, (await lookAt(client, first)).parts)
  }

  /** A schema that holds an empty store or none. */
  take(): string {
    return this.#free.pop() ?? nextName()
  }

  /** A name that no schema has yet. */
  vacant(): string {
    return nextName()
  }

  /** The URL of the store there. It names the connections, so that the server tells which are left. */
  urlOf(schema: string): string {
    const url = new URL(this.#server)
    url.searchParams.set('application_name', schema)
    return inSchema(url.toString(), schema)
  }

  /** Takes the schema of a test that is over. */
  async giveBack(schema: string): Promise<void> {
    const left = [...this.#left, schema]
    this.#left = []
    for (const each of left) {
      const { parts, altered, used } = await lookAt(this.#client, each)
      if (used) this.#left.push(each)
      else if (altered || parts !== this.#parts) await dropSchema(this.#client, each)
      else this.#free.push(await this.#empty(each))
    }
  }

  async #empty(schema: string): Promise<string> {
    if (!this.#emptying.has(schema)) await createEmptying(this.#client, schema)
    this.#emptying.add(schema)
    await emptySchema(this.#client, schema)
    await this.#client.query(CLOCK.replaceAll('sluice.', `"${schema}".`))
    return schema
  }

  async #dropAll(): Promise<void> {
    for (const schema of [...this.#free, ...this.#left]) await dropSchema(this.#client, schema)
    await this.#client.end()
  }
}

function nextName(): string {
  return `sluice_test_${process.pid}_${++made}`
}

async function lookAt(client: Client, schema: string): Promise<Look> {
  const { rows } = await client.query<Look>({ name: 'look', text: LOOK, values: [schema] })
  return rows[0] as Look
}
