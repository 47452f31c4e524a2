import { Client } from 'pg'

/** Drops a schema with all that is in it. */
export async function dropSchema(postgres: string, schema: string): Promise<void> {
  const client = new Client({ connectionString: postgres })
  await client.connect()
  try {
    await client.query(`DROP SCHEMA IF EXISTS ${client.escapeIdentifier(schema)} CASCADE`)
  } finally {
    await client.end()
  }
}
