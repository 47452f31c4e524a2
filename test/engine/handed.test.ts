// What an outside worker is handed is read after it was claimed: in between the run may have been lost.
import { expect, test } from 'vitest'
import { handed } from '../../src/remote/settle.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'

test('a fetch whose answer comes late hands out no run that was lost meanwhile, not even when its job is somebody else’s again', async () => {
  const w = await StoreHarness.open(sqliteBackend('handed', ':memory:'))
  await w.add('a')
  const first = await w.claim({ leaseMs: 1000 })
  expect(await handed(w.store, first.jobs)).toMatchObject([{ task: 'a', attempt: 1 }])
  w.at(1001)
  await w.store.recover()
  expect(await handed(w.store, first.jobs)).toEqual([])
  const second = await w.claim({ leaseMs: 1000 })
  expect(await handed(w.store, first.jobs)).toEqual([])
  expect(await handed(w.store, second.jobs)).toMatchObject([{ task: 'a', attempt: 2 }])
  await w.complete('a')
  expect(await handed(w.store, second.jobs)).toEqual([])
  await w.store.close()
})
