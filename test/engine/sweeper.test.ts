import { expect, test } from 'vitest'
import { Sweeper } from '../../src/remote/sweeper.ts'
import { Trouble } from '../../src/base/trouble.ts'
import { silentLogger } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

test('a store that does not answer is asked again a second later, and no process ends for it', async () => {
  const clock = createManualClock()
  const store = new SqliteStore({ path: ':memory:', clock, durability: 'process', retention: RETENTION })
  await store.open()
  await store.close()
  const sweeps: number[] = []
  const sweeper = new Sweeper(clock, new Trouble(clock, silentLogger), async (given) => {
    sweeps.push(clock.now())
    await given.recover()
  })
  await sweeper.now(store)
  await clock.advance('2500ms')
  sweeper.stop()
  await clock.advance('2s')
  expect(sweeps.map((at) => at - (sweeps[0] ?? 0))).toEqual([0, 1000, 2000])
})
