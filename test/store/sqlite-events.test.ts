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

test('while no worker prunes, the last 20,000 changes are kept, and a reader that has not read the others is marked', async () => {
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
  const count = (): unknown => db.prepare('SELECT count(*) AS n FROM events').get()?.['n']
  const reader = uuidv7()
  const position = (await store.joinEvents(reader, LEASE_US)) ?? ''
  db.prepare(WRITE).run(19_999)
  expect(await store.keepEvents(reader, position, LEASE_US)).toBe('kept')
  db.prepare(WRITE).run(25_001)
  expect(count()).toBe(20_000)
  expect(await store.keepEvents(reader, position, LEASE_US)).toBe('behind')
})
