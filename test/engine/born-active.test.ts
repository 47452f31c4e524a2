// Jobs that start in the commit that stores them.
import { Client } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { input, limit, silentLogger, Sluice, task, type Task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, record } from './engine-harness.ts'

const stores = await everyStore('jobs that start with their enqueue')
const postgres = stores.find(({ name }) => name === 'postgres')

/** The statements of every connection to PostgreSQL, without those that set a test's clock. */
function statements(): string[] {
  const texts: string[] = []
  const client = Client.prototype as unknown as Record<'query', (...args: unknown[]) => unknown>
  const original = client.query
  const spy = vi.spyOn(client, 'query')
  spy.mockImplementation(function (this: unknown, ...args: unknown[]) {
    const text = typeof args[0] === 'string' ? args[0] : String((args[0] as { text?: string }).text)
    if (!text.includes('sluice_clock.')) texts.push(text)
    return original.apply(this, args)
  })
  onTestFinished(() => spy.mockRestore())
  return texts
}

/** Waits until nothing but an enqueue makes the engine claim, and the last claim had nothing to decide. */
async function ready(texts: readonly string[], work: Pick<Task<number, number, number>, 'enqueue'>): Promise<void> {
  await expect.poll(() => texts.some((text) => text.startsWith('LISTEN'))).toBe(true)
  for (const n of [1, 2]) await (await work.enqueue(n)).result()
}

test.each(stores)('a job is reported as stored before its start is ($name)', async (kind) => {
  const { clock, start } = createEngineHarness()
  const work = task('work', input<number>(), { run: (n) => n })
  const engine = await start({ store: kind.create(), tasks: [work] })
  await (await work.enqueue(0)).result()
  const events = record(engine, 'job.enqueued', 'job.started', 'job.completed')
  const results = []
  for (const n of [1, 2]) results.push(await (await work.enqueue(n)).result())
  expect(results).toEqual([1, 2])
  const each = ['job.enqueued', 'job.started', 'job.completed']
  expect(events.map(({ name }) => name)).toEqual([...each, ...each])
  await clock.advance(0)
})

test.skipIf(!postgres)('one statement stores and starts a job, and one ends it; its caller reads nothing', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work', input<number>(), { run: (n) => n })
  const texts = statements()
  await start({ store: postgres!.create(), tasks: [work] })
  await ready(texts, work)
  await clock.advance(0)
  texts.length = 0
  for (const n of [3, 4, 5]) await (await work.enqueue(n)).result()
  const kinds = texts
    .filter((text) => !text.includes('pg_notify'))
    .map((text) => /insert_jobs|complete\(/.exec(text)?.[0])
  expect(kinds).toEqual(Array.from({ length: 3 }, () => ['insert_jobs', 'complete(']).flat())
  expect(texts.filter((text) => text.includes('insert_jobs') && text.includes('claim_open'))).toHaveLength(3)
})

test.skipIf(!postgres)('a job that starts with its enqueue is written once, behind waiting jobs twice', async () => {
  const { clock, start } = createEngineHarness()
  const open = Promise.withResolvers<void>()
  const ran: number[] = []
  const run = async (n: number): Promise<number> => {
    ran.push(n)
    if (n > 2) await open.promise
    return n
  }
  const work = task('work', input<number>(), { run })
  const texts = statements()
  const store = postgres!.create()
  await start({ store, tasks: [work], queues: { default: 100 } })
  const other = task('other', { run: () => undefined })
  const producer = new Sluice({ store, tasks: [other], logger: silentLogger })
  onTestFinished(() => producer.stop())
  await ready(texts, work)
  await clock.advance(0)
  const url = new URL(store)
  const jobs = `${url.searchParams.get('schema')}.jobs`
  url.searchParams.delete('schema')
  const client = new Client({ connectionString: url.href })
  await client.connect()
  onTestFinished(() => client.end())
  /** The places of the active jobs in their page: each version of a row takes one. */
  const versions = async (): Promise<number[]> => {
    const { rows } = await client.query<{ at: number }>(
      `SELECT (ctid::text::point)[1]::int AS at FROM ${jobs} WHERE state = 2 ORDER BY 1`,
    )
    return rows.map(({ at }) => at)
  }
  await expect.poll(versions).toEqual([])
  const started = async (n: number): Promise<void> => {
    await work.enqueue(n)
    await expect.poll(() => ran.at(-1)).toBe(n)
  }
  for (const n of [3, 4, 5]) await started(n)
  const alone = await versions()
  expect(alone.map((at) => at - (alone[0] as number))).toEqual([0, 1, 2])
  // Those that come together start by their priority.
  await Promise.all([work.enqueue(6), work.enqueue(7, { priority: 5 })])
  await expect.poll(() => ran.slice(-2)).toEqual([7, 6])
  expect(await versions()).toEqual(Array.from({ length: 5 }, (_, n) => (alone[0] as number) + n))
  // A job of an unlisted task waits before the next ones.
  await other.enqueue()
  for (const n of [8, 9]) await started(n)
  const behind = (await versions()).slice(5)
  expect(behind.map((at) => at - (behind[0] as number))).toEqual([0, 2])
  open.resolve()
})

test.skipIf(!postgres)('without a free slot, or with a limit, an enqueue only stores', async () => {
  const { clock, start } = createEngineHarness()
  const open = Promise.withResolvers<number>()
  const work = task('work', input<number>(), { run: (n) => (n === 0 ? open.promise : n) })
  const limited = task('limited', { limits: [limit('some', { concurrency: 5 })], run: () => 'done' })
  const texts = statements()
  await start({ store: postgres!.create(), tasks: [work, limited], queues: { default: 1 } })
  await ready(texts, work)
  await clock.advance(0)
  texts.length = 0
  const running = await work.enqueue(0)
  const next = await work.enqueue(2)
  open.resolve(0)
  await Promise.all([running.result(), next.result()])
  expect(await (await limited.enqueue()).result()).toBe('done')
  const stored = texts.filter((text) => text.includes('insert_jobs'))
  expect(stored.map((text) => text.includes('claim_open'))).toEqual([true, false, false])
})

test.skipIf(!postgres)('what an enqueue stores and cannot start is told to other processes at once', async () => {
  const { start } = createEngineHarness()
  const open = Promise.withResolvers<void>()
  const ran: string[] = []
  const run = (where: string, n: number): Promise<void> => {
    ran.push(`${where} ${n}`)
    return open.promise
  }
  const store = postgres!.create()
  const here = task('work', input<number>(), { run: (n) => run('here', n) })
  const there = task('work', input<number>(), { run: (n) => run('there', n) })
  await start({ store, tasks: [here], queues: { default: 1 } })
  await start({ store, tasks: [there], queues: { default: 5 } })
  await here.enqueueMany([1, 2, 3, 4])
  await expect.poll(() => ran.length).toBe(4)
  expect(ran.filter((each) => each.startsWith('here')).length).toBeLessThanOrEqual(1)
  open.resolve()
})
