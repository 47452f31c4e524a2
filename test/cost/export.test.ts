import { expect, test } from 'vitest'
import { writeLines } from '../../src/cli/transfer/write-lines.ts'
import { input, limit, task } from '../../src/exports/index.ts'
import { openExisting } from '../../src/store/open.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { onSqlite } from '../stores.ts'
import { eachLog } from './statement-log.ts'

const log = eachLog()

test('an export asks for many jobs at once, however many wait in line before them', async () => {
  const { clock, create } = createEngineHarness()
  const url = onSqlite.create()
  const crm = limit('crm', { rate: 1, per: '1h' })
  const work = task('work.item', input<{ key: number }>(), {
    limits: [crm.by(({ key }) => key)],
    run: () => undefined,
  })
  const engine = create({ tasks: [work], store: url })
  await work.enqueueMany(Array.from({ length: 600 }, (_, i) => ({ key: i % 3 })))
  await engine.stop()
  const store = await openExisting(url, clock)
  log().clear()
  const lines: unknown[] = []
  const done = await writeLines(store, async (line) => void lines.push(line))
  await store.close()
  expect(done).toMatchObject({ limits: 1, jobs: 600, leftOut: 0 })
  expect(lines.at(-1)).toMatchObject({ kind: 'job', uses: [{ limit: 'crm', key: '0', weight: 1 }] })
  expect(log().texts.length).toBeLessThanOrEqual(30)
})
