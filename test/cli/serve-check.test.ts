// `sluice serve --check` and the store: it refuses what a start would refuse, and takes what a start would take.
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { everyStore } from '../stores.ts'
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

  test('an empty file passes: the start makes the tables', async () => {
    const path = join(folder(), 'empty.db')
    writeFileSync(path, '')
    expect(await check(`sqlite:${path}`)).toMatchObject({ code: 0, err: '' })
  })
})
