// Lists reach PostgreSQL as the text of an array: each item comes back as it was.
import { expect, test } from 'vitest'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import * as fc from '../properties.ts'
import { withPostgres } from '../store/postgres-server.ts'

withPostgres('lists as parameters', () => {
  const odd = ['"', '\\', ',', '{', '}', 'NULL', 'null', '', ' ', '\n', '\t', '\u0001', '\u2028', '\\n', '\\"']
  /** Whole characters but NUL, which no text of PostgreSQL holds. */
  const text = fc
    .string({ unit: fc.oneof(fc.constantFrom(...odd), fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })) })
    .filter((each) => !each.includes('\0'))
  const json = fc.json()

  test('come back whole, also texts that end or escape an item, JSON, and values that repeat', async () => {
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'sluice_arrays' })
    const item = fc.oneof(text, json, fc.constantFrom(...odd, null))
    const items = fc.oneof(
      fc.array(item),
      fc.tuple(item, fc.nat(3)).map(([one, more]) => [one, ...Array.from({ length: more }, () => one)]),
    )
    try {
      await db.session(async (statements) => {
        const property = fc.asyncProperty(items, fc.array(fc.option(fc.maxSafeInteger())), async (texts, numbers) => {
          const [found = ['', '']] = await statements.all<[string, string]>(
            'SELECT to_json($1::text[])::text, to_json($2::bigint[])::text',
            texts,
            numbers,
          )
          expect(found.map((each) => JSON.parse(each) as unknown)).toEqual([texts, numbers])
        })
        await fc.assert(property, { numRuns: 500 })
      })
    } finally {
      await db.close()
    }
  })
})
