// The first new file of a process goes through every migration; later ones get the tables that these make at once.
import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { MIGRATIONS } from '../../src/store/sqlite/sql/embedded.ts'

const THEIRS = 'CREATE TABLE theirs (at INTEGER)'

/** Names and definitions of all tables, indexes and triggers, and the version. */
function schemaOf(path: string): unknown {
  const db = new DatabaseSync(path)
  try {
    return [db.prepare('SELECT * FROM pragma_user_version').get(), parts(db)]
  } finally {
    db.close()
  }
}

const parts = (db: DatabaseSync): unknown[] =>
  db.prepare('SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name').all()

test('a new SQLite file has the tables that the migrations make, also the second one of a process', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tables-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const expected = join(folder, 'expected.db')
  const migrated = new DatabaseSync(expected)
  for (const migration of MIGRATIONS) migrated.exec(migration)
  migrated.exec(`PRAGMA user_version = ${MIGRATIONS.length}`)
  migrated.close()
  const open = async (name: string): Promise<string> => {
    const path = join(folder, name)
    const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [], logger: silentLogger })
    expect(await sluice.jobs.list()).toEqual([])
    await sluice.stop()
    return path
  }
  for (const name of ['first.db', 'second.db', 'third.db'])
    expect(schemaOf(await open(name))).toEqual(schemaOf(expected))
  for (const path of [expected, join(folder, 'shared.db')]) {
    const db = new DatabaseSync(path)
    db.exec(THEIRS)
    db.close()
  }
  expect(schemaOf(await open('shared.db'))).toEqual(schemaOf(expected))
})
