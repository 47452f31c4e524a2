import { Client } from 'pg'
import { expect, test } from 'vitest'
import { POSTGRES_URL } from './postgres-backend.ts'

/** Why PostgreSQL cannot be reached; null: it can. */
const reason: string | null = await reach()

/** Registers tests that need PostgreSQL. Without a server they are left out, loudly; where CI says so, they fail. */
export function withPostgres(what: string, register: () => void): void {
  if (reason === null) return register()
  const told = `PostgreSQL cannot be reached at ${POSTGRES_URL} (${reason}): LEFT OUT: ${what}. Start a server, or set SLUICE_TEST_POSTGRES.`
  if (process.env['CI'] !== 'true') process.stderr.write(`\n*** ${told}\n`)
  test.skipIf(process.env['CI'] !== 'true')(`${what}: LEFT OUT, there is no PostgreSQL`, () => {
    expect(told).toBe('')
  })
}

async function reach(): Promise<string | null> {
  const client = new Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: 5000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.end()
    return null
  } catch (error) {
    return error instanceof Error ? error.message || 'no answer' : String(error)
  }
}
