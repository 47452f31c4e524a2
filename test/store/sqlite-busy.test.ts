// A SQLite file that another connection keeps locked for longer than a call waits: the calls fail, the store does not.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { RETENTION, type StoreBackend } from '../conformance/store/backend.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'

async function open(): Promise<{ readonly harness: StoreHarness; readonly lock: () => DatabaseSync }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-busy-'))
  const path = join(folder, 'jobs.db')
  const backend: StoreBackend = {
    name: 'sqlite',
    open: async (clock) => {
      const store = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION, busyMs: 100 })
      await store.open()
      return store
    },
  }
  const harness = await StoreHarness.open(backend)
  onTestFinished(async () => {
    await harness.store.close()
    rmSync(folder, { recursive: true })
  })
  const lock = (): DatabaseSync => {
    const other = new DatabaseSync(path)
    other.exec('BEGIN IMMEDIATE')
    return other
  }
  return { harness, lock }
}

test('runs are settled after the file was locked for too long, those that were refused meanwhile too', async () => {
  const { harness: w, lock } = await open()
  await w.add('a', {}, 4)
  await w.start()
  const other = lock()
  const refused = await Promise.allSettled([w.settle('a1'), w.settle('a2')])
  expect(refused).toMatchObject([{ reason: { code: 'store.busy' } }, { reason: { code: 'store.busy' } }])
  await expect(w.settle('a3')).rejects.toMatchObject({ code: 'store.busy' })
  other.exec('COMMIT')
  other.close()
  await w.complete('a1', 'a2', 'a3', 'a4')
})
