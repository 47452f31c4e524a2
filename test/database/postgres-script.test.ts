// Values in a script are written into its text: any text that PostgreSQL can hold comes back as it was.
import { expect, test } from 'vitest'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import * as fc from '../properties.ts'
import { withPostgres } from '../store/postgres-server.ts'

withPostgres('values in a script', () => {
  /** Whole characters but NUL, which no text of PostgreSQL holds; those that end or escape a literal come often. */
  const text = fc.string({
    unit: fc.oneof(
      fc.constantFrom("'", '\\', '"', '$', '$1', ';', '--', '/*', '\n', '\u0001', 'E', "''", "\\'", 'sluice.'),
      fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    ),
  })

  test.each(['on', 'off'])('come back whole where standard_conforming_strings is %s', async (setting) => {
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'sluice_script' })
    const held = text.filter((each) => !each.includes('\0'))
    try {
      await db.session(async (statements) => {
        await statements.script(`SET standard_conforming_strings = ${setting}`)
        const property = fc.asyncProperty(held, held, async (one, other) => {
          const results = await statements.script('SELECT $1::text, $2::text; SELECT $2::text, $1', one, other)
          expect(results).toEqual([[[one, other]], [[other, one]]])
        })
        await fc.assert(property, { numRuns: 300 })
      })
    } finally {
      await db.close()
    }
  })
})
