import { expect, test, vi } from 'vitest'
import { input, JobCancelled, JobDiscarded, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

test('a result comes back as JSON makes it, typed so', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', input<{ n: number }>(), {
    run: ({ n }) => ({ doubled: n * 2, on: new Date(0), gone: undefined, list: [1, new Date(0)] as const }),
  })
  await start({ tasks: [work] })
  const job = await work.enqueue({ n: 21 })
  await clock.advance('1s')
  const result = await job.result()
  const doubled: number = result.doubled
  const on: string = result.on
  expect({ doubled, on, list: result.list }).toEqual({
    doubled: 42,
    on: '1970-01-01T00:00:00.000Z',
    list: [1, '1970-01-01T00:00:00.000Z'],
  })
  expect(result).not.toHaveProperty('gone')
})

test('a handler that returns nothing gives undefined', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('1s')
  expect(await job.result()).toBeUndefined()
})

test('a result may be awaited before, while and after the job runs, by many', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => clock.sleep('5s').then(() => 'done') })
  await start({ tasks: [work] })
  const job = await work.enqueue()
  const early = [job.result(), job.result()]
  await clock.advance('2s')
  const during = job.result({ timeout: '1m' })
  await clock.advance('10s')
  expect(await Promise.all([...early, during, job.result()])).toEqual(['done', 'done', 'done', 'done'])
})

test('a result that takes too long is not waited for, and the job goes on', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => clock.sleep('5s').then(() => 'done') })
  await start({ tasks: [work] })
  const job = await work.enqueue()
  const late = job.result({ timeout: '2s' }).catch((error: unknown) => error)
  await clock.advance('3s')
  expect(await late).toMatchObject({ code: 'job.result.timeout' })
  await clock.advance('10s')
  expect(await job.result()).toBe('done')
})

test('a wait that has ended leaves no timer behind', async () => {
  const { clock, start } = createEngineHarness()
  const timers = new Set<unknown>()
  const setTimer = clock.setTimer.bind(clock)
  vi.spyOn(clock, 'setTimer').mockImplementation((run, delayMs) => {
    const timer = setTimer(run, delayMs)
    if (delayMs !== 7_200_000) return timer
    timers.add(timer)
    return { cancel: () => (timers.delete(timer), timer.cancel()) }
  })
  const work = task('work.item', { run: () => clock.sleep('5s').then(() => 'done') })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  const cancelled = await work.enqueue(undefined, { delay: '1h' })
  const waits = [job.result({ timeout: '2h' }), cancelled.result({ timeout: '2h' }).catch(() => 'cancelled')]
  await clock.advance('1s')
  expect(timers.size).toBe(2)
  await engine.jobs.cancel(cancelled.id)
  await clock.advance('10s')
  expect(await Promise.all(waits)).toEqual(['done', 'cancelled'])
  expect(timers.size).toBe(0)
})

test('a caller that waits for a retried job learns of the retry, also after earlier waits', async () => {
  const { clock, start } = createEngineHarness()
  let runs = 0
  const work = task('work.item', {
    retry: { attempts: 1 },
    run: async () => {
      if (runs++ === 0) throw new Error('not yet')
      await clock.sleep('10s')
      return 'done'
    },
  })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  // Ends with the first run; its timeout lies within the second one.
  const first = job.result({ timeout: '5s' }).catch((error: unknown) => error)
  await clock.advance('1s')
  expect(await first).toBeInstanceOf(JobDiscarded)
  expect(await engine.jobs.retry(job.id)).toBe(true)
  const second = job.result({ timeout: '1m' })
  await clock.advance('20s')
  expect(await second).toBe('done')
})

test('the result of a discarded job is the reason', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', {
    retry: { attempts: 2, backoff: 'none' },
    run: () => {
      throw new Error('the disk is full')
    },
  })
  await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('1s')
  const error: unknown = await job.result().catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(JobDiscarded)
  expect(error).toMatchObject({ code: 'job.discarded', jobId: job.id, reason: 'handler.failed' })
  expect((error as Error).message).toContain('after 2 attempts')
  expect((error as Error).message).toContain('the disk is full')
})

test('the result of a cancelled job says so', async () => {
  const { start } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue(undefined, { delay: '1h' })
  const waiting = job.result().catch((reason: unknown) => reason)
  await engine.jobs.cancel(job.id)
  expect(await waiting).toBeInstanceOf(JobCancelled)
})

test('a caller that waits when the engine stops learns it, and the job is kept', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue(undefined, { delay: '1h' })
  const waiting = job.result().catch((reason: unknown) => reason)
  await clock.advance('1s')
  await engine.stop()
  expect(await waiting).toMatchObject({ code: 'engine.stopped' })
})

test.each([
  ['a BigInt', () => 10n, 'payload.unserialisable'],
  ['more than 1 MiB', () => 'x'.repeat(1024 * 1024 + 1), 'payload.too_large'],
])('a result of %s is a failed attempt', async (_, run, code) => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { retry: { attempts: 1 }, run: (): unknown => run() })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('1s')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', error: { code } })
})
