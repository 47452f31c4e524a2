// `sluice serve --check` and the store: it refuses what a start would refuse, and takes what a start would take.
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PostgresCluster } from '../postgres-cluster.ts'
import { everyStore, ownPostgres } from '../stores.ts'
import { emptyStore, folder, sluice } from './terminal.ts'

const check = (store: string): ReturnType<typeof sluice> => sluice(['serve', '--check', '--store', store])

/** Moves the version of a store's tables. */
async function moveVersion(url: string, by: number): Promise<void> {
  if (url.startsWith('sqlite:')) {
    const db = new DatabaseSync(url.slice('sqlite:'.length))
    const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
    db.exec(`PRAGMA user_version = ${version + by}`)
    return db.close()
  }
  const client = new Client({ connectionString: url })
  await client.connect()
  const schema = new URL(url).searchParams.get('schema')
  await client.query(`UPDATE ${schema}.store SET value = (value::int + ${by})::text WHERE name = 'version'`)
  await client.end()
}

describe.each(await everyStore('serve --check'))('on $name', ({ create }) => {
  test('a store of an older version passes: the start upgrades it', async () => {
    const url = create()
    await emptyStore(url)
    await moveVersion(url, -1)
    expect(await check(url)).toMatchObject({ code: 0, err: '' })
  })

  test('a store of a newer version does not', async () => {
    const url = create()
    await emptyStore(url)
    await moveVersion(url, 1)
    expect(await check(url)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/^error store\.version: .*\n$/) as string,
    })
  })
})

describe('a file that a start could not open', () => {
  test('is refused when it is no database', async () => {
    const path = join(folder(), 'text.db')
    writeFileSync(path, 'This is a text, and no database.\n'.repeat(100))
    expect(await check(`sqlite:${path}`)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('cannot be read') as string,
    })
  })

  test('is refused when its folder is not there', async () => {
    const path = join(folder(), 'nowhere', 'jobs.db')
    expect(await check(`sqlite:${path}`)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('folder') as string,
    })
    expect(existsSync(path)).toBe(false)
  })

  // A folder of the kernel: its rights let root write, and no file can be made in it.
  test.skipIf(process.platform !== 'linux')('is refused when no file can be made in its folder', async () => {
    expect(await check('sqlite:/proc/x.db')).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('/proc/x.db cannot be made') as string,
    })
  })

  test('is refused when its name leaves no room for those of its log', async () => {
    const path = join(folder(), `${'x'.repeat(250)}.db`)
    expect(await check(`sqlite:${path}`)).toMatchObject({ code: 1, out: '' })
  })

  test('leaves nothing behind where it passes', async () => {
    const at = folder()
    expect(await check(`sqlite:${join(at, 'new.db')}`)).toMatchObject({ code: 0, err: '' })
    expect(readdirSync(at)).toEqual([])
  })

  test('an empty file passes: the start makes the tables', async () => {
    const path = join(folder(), 'empty.db')
    writeFileSync(path, '')
    expect(await check(`sqlite:${path}`)).toMatchObject({ code: 0, err: '' })
  })
})

describe.skipIf(!PostgresCluster.installed('serve --check and roles'))('a role that could not start', () => {
  /** A server with a store of the role `owner`, if one is asked for, and calls as the role `app`. */
  async function server(has: 'a store' | 'nothing') {
    const { url } = await ownPostgres()
    const admin = new Client({ connectionString: url })
    await admin.connect()
    onTestFinished(() => admin.end())
    const sql = async (...texts: string[]): Promise<void> => {
      for (const text of texts) await admin.query(text)
    }
    await sql('CREATE ROLE app LOGIN')
    if (has === 'a store') await emptyStore(url)
    return { url, sql, app: url.replace('postgres@', 'app@') }
  }

  const refused = (words: string) => ({ code: 1, out: '', err: expect.stringContaining(words) as string })
  const passed = { code: 0, err: '' }

  test('is refused where it may not make the schema, and passes once it may', async () => {
    const { app, sql } = await server('nothing')
    expect(await check(app)).toMatchObject(refused('The role app may not create schemas'))
    await sql('GRANT CREATE ON DATABASE postgres TO app')
    expect(await check(app)).toMatchObject(passed)
  })

  test('is refused where it may only read, and passes with the rights of an engine', async () => {
    const { app, sql } = await server('a store')
    await sql('GRANT USAGE ON SCHEMA sluice TO app', 'GRANT SELECT ON ALL TABLES IN SCHEMA sluice TO app')
    expect(await check(app)).toMatchObject(refused('The role app may not write'))
    await sql('GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sluice TO app')
    expect(await check(app)).toMatchObject(refused('The role app may not use arrivals_id_seq, '))
    await sql('GRANT USAGE ON ALL SEQUENCES IN SCHEMA sluice TO app')
    expect(await check(app)).toMatchObject(passed)
  })

  test('is refused where it does not own the tables that a start would upgrade', async () => {
    const { url, app, sql } = await server('a store')
    await sql(
      'GRANT USAGE ON SCHEMA sluice TO app',
      'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sluice TO app',
      'GRANT USAGE ON ALL SEQUENCES IN SCHEMA sluice TO app',
    )
    await moveVersion(`${url}?schema=sluice`, -1)
    expect(await check(app)).toMatchObject(refused('The role app does not own'))
    expect(await check(url)).toMatchObject(passed)
  })

  test('is refused where its transactions only read, as on a standby', async () => {
    const { url, sql } = await server('a store')
    await sql('ALTER ROLE postgres SET default_transaction_read_only = on')
    expect(await check(url)).toMatchObject(refused('only read'))
  })
})
