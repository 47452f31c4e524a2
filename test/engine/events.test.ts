import { expect, test } from 'vitest'
import { input, limit, RateLimited, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

test('the life of a job is told in order, once', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', {
    retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
    run: (_, ctx) => {
      ctx.progress(0.5)
      if (ctx.attempt === 1) throw new Error('once')
    },
  })
  const engine = await start({ tasks: [work] })
  const events = record(
    engine,
    'job.enqueued',
    'job.started',
    'job.progress',
    'job.failed',
    'job.retrying',
    'job.completed',
    'job.discarded',
  )
  const job = await work.enqueue()
  await clock.advance('10s')
  const about = { id: job.id, task: 'work.item', queue: 'default' }
  expect(events).toMatchObject([
    { name: 'job.enqueued', event: about },
    { name: 'job.started', event: { ...about, attempt: 1, waitedMs: 0 } },
    { name: 'job.progress', event: { ...about, attempt: 1, progress: 0.5 } },
    { name: 'job.failed', event: { ...about, attempt: 1, error: new Error('once') } },
    { name: 'job.retrying', event: { ...about, attempt: 1, delayMs: 1000 } },
    { name: 'job.started', event: { ...about, attempt: 2 } },
    { name: 'job.progress', event: { ...about, attempt: 2 } },
    { name: 'job.completed', event: { ...about, attempt: 2 } },
  ])
})

test('a budget that runs out emits one event, and one more when no job waits for it', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', input<{ key: string }>(), {
    limits: [limit('gate', { rate: 2, per: '10s' }).by((item) => item.key)],
    run: () => undefined,
  })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'rate_limit.exceeded', 'rate_limit.released')
  const openedMs = clock.now()
  await work.enqueueMany(Array.from({ length: 5 }, () => ({ key: 'A' })))
  await clock.advance('1s')
  expect(events).toEqual([
    {
      name: 'rate_limit.exceeded',
      event: expect.objectContaining({
        limit: 'gate',
        key: 'A',
        queue: 'default',
        wantedUnits: 1,
        grantedUnits: 2,
        waitingJobs: 3,
        deferred: 1,
        nextAt: new Date(openedMs + 5000),
      }) as object,
    },
  ])
  await clock.advance('1m')
  expect(events.map(({ name }) => name)).toEqual(['rate_limit.exceeded', 'rate_limit.released'])
  expect(events[1]?.event).toEqual({ limit: 'gate', key: 'A', deferred: 2 })
})

test('a start tells how long the job waited, for which bucket, and what it was charged by', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', input<{ key: string }>(), {
    limits: [limit('gate', { rate: 1, per: '10s' }).by((item) => item.key), limit('all', { rate: 100, per: '1s' })],
    run: () => undefined,
  })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'job.started')
  await work.enqueueMany([{ key: 'A' }, { key: 'A' }])
  await work.enqueue({ key: 'B' }, { delay: '3s' })
  await clock.advance('1m')
  expect(events.map(({ event }) => [event.ageMs, event.waitedMs, event.waitedFor, event.limits])).toEqual([
    [0, 0, null, ['all', 'gate']],
    [3000, 0, null, ['all', 'gate']],
    [10_000, 10_000, { limit: 'gate', key: 'A' }, ['all', 'gate']],
  ])
  expect(engine.limits.waits()).toMatchObject([
    { limit: 'all', starts: 3, waited: 0, maxMs: 0, p99Ms: 0 },
    { limit: 'gate', starts: 3, waited: 1, maxMs: 10_000, p50Ms: 0, p99Ms: 10_000 },
  ])
})

test('a refusal that several calls meet is told once, and again when it lasts markedly longer', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', input<{ seconds: number; after: number }>(), {
    limits: [limit('gate', { rate: 100, per: '1s' })],
    run: async ({ seconds, after }) => {
      await clock.sleep(after * 1000)
      throw new RateLimited({ retryAfter: seconds * 1000 })
    },
  })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'rate_limit.dynamic_adjusted')
  const openedMs = clock.now()
  const calls = [1, 1.1, 1.2].map((after) => ({ seconds: 30, after }))
  await work.enqueueMany([...calls, { seconds: 60, after: 5 }])
  await clock.advance('10s')
  expect(events.map(({ event }) => (event.until.getTime() - openedMs) / 1000)).toEqual([31, 65])
})

test('a dropped job is told with its limit', async () => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', {
    limits: [limit('gate', { rate: 1, per: '10s', onLimit: 'drop' })],
    run: () => undefined,
  })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'rate_limit.dropped', 'job.discarded')
  await work.enqueue()
  const job = await work.enqueue()
  await clock.advance('1s')
  expect(events).toMatchObject([
    { name: 'rate_limit.dropped', event: { limit: 'gate', id: job.id, task: 'work.item' } },
    { name: 'job.discarded', event: { id: job.id, error: { code: 'limit.rejected' } } },
  ])
})

test('a listener that throws harms neither the job nor other listeners, and one that is taken off hears no more', async () => {
  const { clock, start, errors } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = await start({ tasks: [work] })
  let heard = 0
  engine.on('job.completed', () => {
    throw new Error('broken')
  })
  const off = engine.on('job.completed', () => void heard++)
  await work.enqueue()
  await clock.advance('1s')
  expect(heard).toBe(1)
  expect(errors).toHaveLength(1)
  off()
  const job = await work.enqueue()
  await clock.advance('1s')
  expect(heard).toBe(1)
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed' })
})

test.each([false, true])(
  'one function may listen twice, and the end of one leaves the other (fleet: %s)',
  async (fleet) => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', { run: () => undefined })
    const engine = await start({ tasks: [work] })
    let heard = 0
    const listener = (): void => void heard++
    const on = () => engine.on('job.enqueued', listener, { fleet } as { fleet: true })
    const [first] = [on(), on()]
    await clock.advance('1s')
    await work.enqueue()
    await clock.advance('2s')
    expect(heard).toBe(2)
    first()
    const last = on()
    first()
    await work.enqueue()
    await clock.advance('2s')
    expect(heard).toBe(4)
    last()
    await work.enqueue()
    await clock.advance('2s')
    expect(heard).toBe(5)
  },
)

test('an option that on does not know, and a further argument, are refused, not ignored', () => {
  const { create } = createEngineHarness()
  const engine = create({ tasks: [] })
  const listen = (...rest: unknown[]) => engine.on('job.completed', () => undefined, ...(rest as never[]))
  for (const rest of [[{ fleets: true }], [{ fleet: 1 }], [null], [true], [undefined, { fleet: true }]])
    expect(() => listen(...rest)).toThrow(expect.objectContaining({ code: 'option.invalid' }))
  expect(() => listen(undefined)).not.toThrow()
  expect(() => listen({ fleet: false })).not.toThrow()
})

test('an event that does not follow from what is stored is not told by the fleet', () => {
  const { create } = createEngineHarness()
  const engine = create({ tasks: [] })
  expect(() => engine.on('rate_limit.exceeded' as never, () => undefined, { fleet: true })).toThrow(
    /rate_limit\.exceeded cannot be listened to in the fleet.* job\.enqueued, job\.started, .*events\.lost/,
  )
})

test('a worker tells of its start and its stop', async () => {
  const { create } = createEngineHarness()
  const engine = create({ tasks: [], queues: { mail: {}, default: {} } })
  const events = record(engine, 'worker.started', 'worker.stopped')
  await engine.start()
  await engine.stop()
  expect(events).toMatchObject([
    { name: 'worker.started', event: { queues: ['mail', 'default'] } },
    { name: 'worker.stopped' },
  ])
})
