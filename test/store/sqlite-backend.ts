import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { RETENTION, type StoreBackend, type StoreSettings } from '../conformance/store/backend.ts'

/** SQLite for the suites: in memory, or on files of a folder that goes when the tests are over. */
export function sqliteBackend(name: string, kind: ':memory:' | 'file'): StoreBackend {
  if (kind === ':memory:') return { name, open: (clock, settings) => openStore(':memory:', clock, settings) }
  const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  let files = 0
  const path = (): string => join(folder, `${files}.db`)
  return {
    name,
    open: (clock, settings) => {
      files++
      return openStore(path(), clock, settings)
    },
    reopen: (clock, settings) => openStore(path(), clock, settings),
  }
}

/** SQLite in a file that a test looks into. */
export function sqliteAt(path: string): StoreBackend {
  return { name: path, open: (clock, settings) => openStore(path, clock, settings) }
}

async function openStore(path: string, clock: Clock, settings: StoreSettings = {}): Promise<Store> {
  const store = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION, ...settings })
  await store.open()
  return store
}
