import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { MIGRATIONS } from '../../src/store/postgres/sql/embedded.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { sluice } from './terminal.ts'
import { dropSchema } from '../drop-schema.ts'

test('migrate without a PostgreSQL store says what to give it', async () => {
  expect(await sluice(['migrate'])).toMatchObject({ code: 2, err: expect.stringContaining('--store') as string })
  const wrong = await sluice(['migrate', '--store', 'sqlite:./x.db'])
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('store.url.invalid') as string })
})

withPostgres('sluice migrate', () => {
  test('migrate makes the tables once, and what it would run it prints', async () => {
    const schema = `sluice_cli_${process.pid}`
    const url = `${POSTGRES_URL}?schema=${schema}`
    const admin = new Pool({ connectionString: POSTGRES_URL, max: 1 })
    try {
      const told = await sluice(['migrate', '--store', url, '--dry-run'])
      expect(told.code).toBe(0)
      expect(told.out).toContain(`CREATE TABLE "${schema}".jobs`)
      expect((await sluice(['limits', '--store', url])).err).toContain('store.missing')
      // The printed SQL alone makes the same store.
      await admin.query(told.out)
      expect(await sluice(['migrate', '--store', url])).toMatchObject({
        code: 0,
        out: expect.stringContaining('Nothing to do') as string,
      })
      await dropSchema(admin, schema)
      expect(await sluice(['migrate', '--store', url])).toMatchObject({ code: 0, out: 'Done.\n' })
      expect((await sluice(['limits', '--store', url])).code).toBe(0)
      // A store that an earlier version has made becomes the same.
      await admin.query(`DROP SCHEMA "${schema}" CASCADE; CREATE SCHEMA "${schema}"`)
      const [first = ''] = MIGRATIONS
      await admin.query(
        `${first} INSERT INTO sluice.store (name, value) VALUES ('version', '1')`.replaceAll(
          /\bsluice\./g,
          `"${schema}".`,
        ),
      )
      expect((await sluice(['limits', '--store', url])).err).toContain('store.version')
      expect(await sluice(['migrate', '--store', url])).toMatchObject({ code: 0, out: 'Done.\n' })
      expect((await sluice(['limits', '--store', url])).code).toBe(0)
    } finally {
      await dropSchema(admin, schema)
      await admin.end()
    }
  })
})
