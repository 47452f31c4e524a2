import type { Client, Pool } from 'pg'

const TRIES = 5

/**
 * Drops the schema of a test. The server may still run a statement of a connection that the test has closed, which
 * locks the tables in another order: then PostgreSQL ends one of the two, and the drop is tried again.
 */
export async function dropSchema(admin: Client | Pool, schema: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await admin.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`)
      return
    } catch (error) {
      if ((error as { code?: string }).code !== '40P01' || tries === TRIES) throw error
    }
  }
}
