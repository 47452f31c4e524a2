// Runs that have ended while the store is slow to write their ends: a crash would repeat each of them.
import { expect, onTestFinished, test } from 'vitest'
import { input, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'

const postgres = await onPostgres('ends that are written late')
const SLOTS = 2

test.skipIf(!postgres)('no more runs than slots have ended unwritten while others begin', async () => {
  const proxy = await PostgresProxy.before(postgres!.create())
  const open: number[] = []
  let written = 0
  let begun = 0
  const work = task('written.late', input<number>(), { run: () => void open.push(++begun - written) })
  const queues = { default: { concurrency: SLOTS } }
  const engine = new Sluice({ store: proxy.url, tasks: [work], queues, logger: silentLogger })
  onTestFinished(() => engine.stop({ within: 0 }))
  engine.on('job.completed', () => void written++)
  await engine.start()
  await (await work.enqueue(0)).result()
  proxy.holdsAnswerTo = (sent) => /sluice\.complete|\bcomplete\(/.test(sent)
  const first = await work.enqueueMany(Array.from({ length: 10 }, (_, n) => n))
  await expect.poll(() => begun).toBeGreaterThanOrEqual(1 + 2 * SLOTS)
  // Each wakes the process, which would claim if it had a slot.
  const later = []
  for (let n = 10; n < 20; n++) later.push(await work.enqueue(n))
  proxy.release()
  for (const job of [...first, ...later]) await job.result({ timeout: '60s' })
  expect(begun).toBe(21)
  expect(Math.max(...open)).toBeLessThanOrEqual(2 * SLOTS)
})
