// PostgreSQL's statistics about the tables of one schema.
import { Client } from 'pg'

/** One table as it stands. */
export interface TableSize {
  readonly table: string
  readonly live: number
  readonly dead: number
  /** Includes indexes and out-of-line storage. */
  readonly bytes: number
}

/** A connection that reads the statistics of a schema's tables. */
export class PostgresStatistics {
  readonly #client: Client
  readonly #schema: string

  private constructor(client: Client, schema: string) {
    this.#client = client
    this.#schema = schema
  }

  static async open(url: string): Promise<PostgresStatistics> {
    const client = await connect(url)
    return new PostgresStatistics(client, schemaOf(url))
  }

  /** Every table that is not empty. */
  async tables(): Promise<TableSize[]> {
    const { rows } = await this.#client.query<Record<'table' | 'live' | 'dead' | 'bytes', string>>(
      `SELECT relname AS table, n_live_tup AS live, n_dead_tup AS dead, pg_total_relation_size(relid) AS bytes
       FROM pg_stat_user_tables WHERE schemaname = $1 ORDER BY bytes DESC`,
      [this.#schema],
    )
    return rows.map(({ table, live, dead, bytes }) => ({
      table,
      live: Number(live),
      dead: Number(dead),
      bytes: Number(bytes),
    }))
  }

  async close(): Promise<void> {
    await this.#client.end()
  }
}

/** A connection to the database behind a store's URL. */
export async function connect(url: string): Promise<Client> {
  const bare = new URL(url)
  bare.searchParams.delete('schema')
  const client = new Client({ connectionString: bare.toString() })
  await client.connect()
  return client
}

/** The schema that a store's URL names. */
export function schemaOf(url: string): string {
  return new URL(url).searchParams.get('schema') ?? 'sluice'
}

const DEADLOCK = '40P01'

/** Drops the schema of a store's URL with all that is in it, once what ended processes had begun there is over. */
export async function dropSchema(url: string): Promise<void> {
  const client = await connect(url)
  for (;;) {
    try {
      await client.query(`DROP SCHEMA IF EXISTS ${client.escapeIdentifier(schemaOf(url))} CASCADE`)
      break
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK) throw error
    }
  }
  await client.end()
}
