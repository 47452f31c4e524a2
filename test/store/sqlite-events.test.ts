// Changes for readers that have died, on a file that no worker prunes.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { uuidv7 } from 'uuidv7'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'

const LEASE_US = 30_000_000
const WRITE = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
  INSERT INTO events (item, state, created) SELECT i, 1, 0 FROM n`

async function setUp(): Promise<{ store: SqliteStore; db: DatabaseSync }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-events-'))
  const path = join(folder, 'jobs.db')
  const store = new SqliteStore({ path, clock: systemClock, durability: 'process', retention: RETENTION })
  await store.open()
  const db = new DatabaseSync(path)
  onTestFinished(async () => {
    db.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })
  return { store, db }
}

test('while no worker prunes, the last 20,000 changes are kept, and a reader that has not read the others is marked', async () => {
  const { store, db } = await setUp()
  const count = (): unknown => db.prepare('SELECT count(*) AS n FROM events').get()?.['n']
  const reader = uuidv7()
  const position = (await store.joinEvents(reader, LEASE_US)) ?? ''
  db.prepare(WRITE).run(19_999)
  expect(await store.keepEvents(reader, position, LEASE_US)).toBe('kept')
  db.prepare(WRITE).run(25_001)
  expect(count()).toBe(20_000)
  expect(await store.keepEvents(reader, position, LEASE_US)).toBe('behind')
})

test('a reader that joins adds the triggers that an earlier build did not make, and the last one drops all', async () => {
  const { store, db } = await setUp()
  const names = (): unknown[] =>
    db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name <> 'job_logs_go' ORDER BY name`).all()
  const [first, second] = [uuidv7(), uuidv7()]
  await store.joinEvents(first, LEASE_US)
  const all = names()
  db.exec('DROP TRIGGER job_deleted')
  await store.joinEvents(second, LEASE_US)
  expect(names()).toEqual(all)
  await store.leaveEvents(first)
  // An earlier build drops the others.
  for (const { name } of all as { name: string }[]) if (name !== 'job_deleted') db.exec(`DROP TRIGGER ${name}`)
  await store.leaveEvents(second)
  expect(names()).toEqual([])
})
