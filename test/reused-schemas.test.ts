import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { upgradePostgres } from '../src/store/postgres/url.ts'
import { ReusedSchemas } from './reused-schemas.ts'
import { service } from './services.ts'

const server = await service('postgres', 'schemas that tests use again')
const schemas = server === null ? null : await ReusedSchemas.create(server)

/** Runs SQL in a schema, whose name it has for `$`, over a connection that is left until the test ends. */
async function run(kit: ReusedSchemas, schema: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: kit.urlOf(schema).replace(/&schema=\w+/, '') })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query(sql.replaceAll('$', schema))
}

async function asAdmin(sql: string): Promise<unknown[]> {
  const admin = new Client({ connectionString: server ?? '' })
  await admin.connect()
  const { rows } = await admin.query<Record<string, unknown>>(sql)
  await admin.end()
  return rows
}

describe.skipIf(schemas === null)('a schema of PostgreSQL that a test gives back', () => {
  const kit = schemas as ReusedSchemas

  test('is emptied and used again', async () => {
    const schema = kit.take()
    await asAdmin(`INSERT INTO ${schema}.queues (name) VALUES ('mail')`)
    await asAdmin(`INSERT INTO ${schema}.store (name, value) VALUES ('boot', '["",0]')`)
    await kit.giveBack(schema)
    expect(kit.take()).toBe(schema)
    expect(await asAdmin(`SELECT name FROM ${schema}.queues UNION SELECT name FROM ${schema}.store`)).toEqual([
      { name: 'version' },
    ])
    await kit.giveBack(schema)
  })

  test.each([
    'DROP INDEX $.schedules_due',
    'ALTER TABLE $.queues ADD COLUMN more int',
    'GRANT SELECT ON $.jobs TO PUBLIC',
  ])('is dropped after %s', async (sql) => {
    const schema = kit.vacant()
    await upgradePostgres(kit.urlOf(schema), systemClock, false)
    await asAdmin(sql.replaceAll('$', schema))
    await kit.giveBack(schema)
    expect(await asAdmin(`SELECT 1 FROM pg_namespace WHERE nspname = '${schema}'`)).toEqual([])
  })

  test('is kept from others while a connection is left', async () => {
    const schema = kit.vacant()
    await run(kit, schema, 'CREATE SCHEMA $')
    await kit.giveBack(schema)
    expect(await asAdmin(`SELECT 1 FROM pg_namespace WHERE nspname = '${schema}'`)).toHaveLength(1)
    expect(kit.take()).not.toBe(schema)
  })
})
