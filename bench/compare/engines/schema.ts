import { Client } from 'pg'

/** Runs one statement on a connection of its own. */
export async function statement(postgres: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: postgres })
  await client.connect()
  try {
    return (await client.query(sql)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

/** Drops a schema with all that is in it. */
export async function dropSchema(postgres: string, schema: string): Promise<void> {
  await statement(postgres, `DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
}

/** Asks over one kept connection whether rows exist. */
export function asker(postgres: string, sql: string): { exists: () => Promise<boolean>; end: () => Promise<void> } {
  let client: Client | null = null
  return {
    async exists() {
      if (!client) {
        client = new Client({ connectionString: postgres })
        await client.connect()
      }
      const { rows } = await client.query<[boolean]>({ text: `SELECT EXISTS (${sql})`, rowMode: 'array' })
      return rows[0]?.[0] === true
    },
    end: async () => client?.end(),
  }
}
