// A fetch whose answer comes late hands out no run whose time is over.
import { expect, test } from 'vitest'
import { handed } from '../../src/remote/settle.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'

test('a fetch whose answer comes late hands out no run whose lease or timeout is over: its job may be another worker’s', async () => {
  const w = await StoreHarness.open(sqliteBackend('handed', ':memory:'))
  const terms = { givenId: false, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }
  await w.store.push(
    [
      { ...w.job('a'), terms },
      { ...w.job('b'), terms: { ...terms, timeoutUs: 500_000 } },
    ],
    [],
  )
  const { worker } = await w.store.registerWorker({ name: 'x', queues: ['q'], aliveUs: 60_000_000, about: null })
  const takers = [{ worker, name: 'x', slots: 2, claimId: 'c' }]
  const queues = [{ queue: 'q', slots: 2 }]
  const { jobs, details } = await w.store.claim(() => ({ worker, leaseUs: 2_000_000, remote: true, takers, queues }))
  const fetched = jobs.map((run, at) => ({ run, job: details![at]! }))
  const tasks = (): string[] => handed(fetched, w.store.nowUs()).map(({ task }) => task)
  expect(tasks()).toEqual(['a', 'b'])
  // A worker has some time beyond the timeout to report it.
  w.at(1299)
  expect(tasks()).toEqual(['a', 'b'])
  w.at(1300)
  expect(tasks()).toEqual(['a'])
  w.at(2000)
  expect(tasks()).toEqual([])
  await w.store.close()
})
