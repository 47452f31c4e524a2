import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteAt } from '../store/sqlite-backend.ts'
import { eachLog } from './statement-log.ts'

const HELD = 30
const log = eachLog()

test('a firing asks once for all schedules that missed occurrences hold, not for each', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-held-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'jobs.db')
  const harness = await StoreHarness.open(sqliteAt(path))
  const job = { task: 'tick', queue: 'p', priority: 0, input: 'null', uses: [], maxAttempts: 1, extra: null }
  const rest = { immediately: false, untilMs: null, maxRuns: null, overlap: 'skip', onMissed: 'catchUp', job } as const
  for (let n = 0; n < HELD; n++)
    await harness.store.schedule({ name: `s${n}`, recurrence: { kind: 'every', everyUs: 10_000_000 }, ...rest })
  harness.at(60_000)
  await harness.claim({ slots: 1 })
  const reader = new DatabaseSync(path)
  expect(reader.prepare('SELECT count(*) AS n FROM schedules WHERE catch_up_to IS NOT NULL').get()).toEqual({ n: HELD })
  reader.close()
  await harness.store.schedule({ name: 'due', recurrence: { kind: 'every', everyUs: 10_000_000 }, ...rest })
  log().clear()
  harness.at(70_001)
  await harness.claim({ slots: 1 })
  const asks = log().texts.filter(
    (sql) => (sql.startsWith('SELECT') && sql.includes('last_job')) || /FROM jobs WHERE id = \?/.test(sql),
  )
  await harness.store.close()
  expect(asks.length).toBeGreaterThan(0)
  expect(asks.length).toBeLessThan(10)
})
