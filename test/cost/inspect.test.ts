import { expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { eachLog } from './statement-log.ts'

const log = eachLog()

test('reports of many keys are read together, a deep backlog by itself', async () => {
  const { clock, start } = createEngineHarness()
  const crm = limit('crm', { rate: 1, per: '1h' })
  const work = task('work.item', input<{ key: number }>(), { limits: [crm.by(({ key }) => key)], run: () => undefined })
  const engine = await start({ tasks: [work] })
  // Two jobs for each of 200 keys, and 10,001 more for the key 0: one of each starts.
  const keys = Array.from({ length: 400 }, (_, i) => i % 200).concat(Array.from({ length: 10_001 }, () => 0))
  await work.enqueueMany(keys.map((key) => ({ key })))
  await clock.advance('1s')
  log().clear()
  const buckets = await engine.limits.inspect(crm)
  expect(log().texts.length).toBeLessThanOrEqual(12)
  expect(buckets).toHaveLength(200)
  const waiting = new Map(buckets.map((bucket) => [bucket.key, bucket]))
  expect(waiting.get('0')?.waiting).toBe(10_002)
  for (const key of ['1', '57', '199']) expect(waiting.get(key)).toMatchObject({ waiting: 1, available: 0 })
  // The last of 10,002 jobs at one an hour, the next of which starts in 59 minutes and 59 seconds.
  const drainedMs = (waiting.get('0')?.drained?.getTime() ?? 0) - clock.now()
  expect(drainedMs / 3_600_000).toBeCloseTo(10_002, 2)
})
