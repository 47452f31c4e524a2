import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { createStore } from '../../src/store/open.ts'
import { RETENTION } from '../conformance/store/harness.ts'
import { onPostgres } from '../stores.ts'

const POSTGRES = await onPostgres('stores that start together')
const TOGETHER = 10

describe.skipIf(POSTGRES === null)('stores that start together', () => {
  test('on an empty database make one schema between them', async () => {
    const url = POSTGRES?.create() ?? ''
    const stores = Array.from({ length: TOGETHER }, () =>
      createStore(url, { clock: systemClock, durability: 'power', retention: RETENTION }),
    )
    const answers = await Promise.allSettled(stores.map((store) => store.open()))
    for (const store of stores) await store.close()
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([])
  })
})
