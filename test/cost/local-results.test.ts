import { expect, test } from 'vitest'
import { task } from '../../src/exports/index.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { onSqlite } from '../stores.ts'
import { eachLog } from './statement-log.ts'

const log = eachLog()
const withText = (part: string): string[] => log().texts.filter((sql) => sql.includes(part))

test('the end of a run answers the waiters of its process without a read, and needs no claim of its own', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => clock.sleep('2s').then(() => 'done') })
  await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('1s')
  log().clear()
  const results = Promise.all([job.result(), job.result()])
  await clock.advance('1s')
  expect(await results).toEqual(['done', 'done'])
  expect(withText('UPDATE OR FAIL jobs SET state = 3')).toHaveLength(1)
  expect(withText('FROM jobs j WHERE id')).toEqual([])
  expect(withText('FROM queues WHERE paused')).toEqual([])
})

test('a job that ends as soon as it begins costs one claim, that which started it', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  await start({ tasks: [work] })
  await clock.advance('1s')
  log().clear()
  expect(await (await work.enqueue()).result()).toBeUndefined()
  await clock.advance('1ms')
  await clock.advance('1ms')
  expect(withText('FROM queues WHERE paused')).toHaveLength(1)
})

test('the end of a run whose slot was the last one is followed by a claim', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => clock.sleep('2s').then(() => 'done') })
  await start({ tasks: [work], queues: { default: 1 } })
  const job = await work.enqueue()
  const next = await work.enqueue()
  await clock.advance('1s')
  log().clear()
  await clock.advance('1s')
  expect(withText('FROM queues WHERE paused')).not.toEqual([])
  await clock.advance('2s')
  expect(await Promise.all([job.result(), next.result()])).toEqual(['done', 'done'])
})

test('callers that wait for the ends of jobs of another process are looked after together', async () => {
  const { clock, start, create } = createEngineHarness()
  const work = task('work.item', { run: () => clock.sleep('2s').then(() => 'done') })
  const store = onSqlite.create()
  await start({ store, tasks: [work], queues: { default: 10 } })
  const elsewhere = create({ store, tasks: [] })
  const jobs = await work.enqueueMany(Array.from({ length: 300 }, () => undefined))
  log().clear()
  const results = jobs.map(({ id }) => elsewhere.jobs.result(id))
  await clock.advance('1s')
  expect(withText('LEFT JOIN jobs j').length).toBeLessThanOrEqual(3)
  expect(withText('FROM jobs j WHERE id')).toEqual([])
  await clock.advance('2m')
  expect(new Set(await Promise.all(results))).toEqual(new Set(['done']))
  // Each of 30 rounds ends ten jobs: 300 jobs are read once, and not all of them at each round.
  expect(withText('FROM jobs j WHERE id')).toHaveLength(300)
})
