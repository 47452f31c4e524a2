import { expect, test } from 'vitest'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'
import { eachLog } from './statement-log.ts'

const log = eachLog()
const backend = sqliteBackend('SQLite in memory', ':memory:')

/** The groups that a claim reads of the line of a global limit, while jobs of so many keys of three other limits wait. */
async function groupsRead(keys: number): Promise<number> {
  const harness = await StoreHarness.open(backend)
  try {
    await harness.define({
      global: { rate: 1, per: '10ms' },
      model: { rate: 1000, per: '1s' },
      region: { rate: 1000, per: '1s' },
      plan: { rate: 1000, per: '1s' },
    })
    const limits = (i: number): string[] => [
      'global',
      `model:${i % keys}`,
      `region:${Math.floor(i / keys) % keys}`,
      `plan:${Math.floor(i / keys ** 2) % keys}`,
    ]
    // Every key has more lanes than make a bucket widely shared.
    const jobs = Array.from({ length: 1000 }, (_, i) => harness.job(`j${i}`, { limits: limits(i) }))
    await harness.store.enqueue(jobs)
    for (let ms = 0; ms < 200; ms += 10) {
      harness.at(ms)
      while ((await harness.claim({ slots: 100 })).looks > 0);
    }
    harness.at(300)
    log().clear()
    expect(await harness.start({ slots: 1 })).toHaveLength(1)
    return log().texts.filter((sql) => sql.includes('FROM lanes WHERE bucket = ?')).length
  } finally {
    await harness.store.close()
  }
}

test('limits that refuse nothing do not split the line of one that does: a start reads as much for 1,000 sets of keys as for one', async () => {
  expect(await groupsRead(10)).toBeLessThanOrEqual(2 + (await groupsRead(1)))
})
