import { describe, expect, expectTypeOf, test } from 'vitest'
import {
  call,
  input,
  limit,
  type Duration,
  NonRetryable,
  type Snooze,
  type Task,
  task,
} from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, record } from './engine-harness.ts'

const stores = await everyStore('snoozed jobs')

describe.each(stores)('a job that snoozes, on $name', (kind) => {
  /** A task that snoozes some times before it completes, and the seconds of its starts. */
  async function snoozing(times: number, duration: Duration = '10s') {
    const harness = createEngineHarness()
    const starts: string[] = []
    const poll = task('work.poll', input<{ key: string }>(), {
      limits: [limit('api', { rate: 1, per: '4s', concurrency: 1 }).by(({ key }) => key)],
      retry: { attempts: 1 },
      run: async ({ key }, ctx) => {
        starts.push(`${key}${ctx.attempt}@${harness.at()}`)
        if (starts.length <= times) return ctx.snooze(duration)
        return { url: `https://example.test/${key}` }
      },
    })
    const engine = await harness.start({ store: kind.create(), tasks: [poll] })
    return { ...harness, engine, poll, starts }
  }

  test('waits that long each time, uses no attempt, pays again, and completes with the result of its last run', async () => {
    const { clock, engine, poll, starts } = await snoozing(3)
    const events = record(engine, 'job.snoozed', 'job.completed', 'job.failed', 'job.retrying')
    const job = await poll.enqueue({ key: 'a' })
    await clock.advance('1s')
    const seen = await engine.jobs.get(job.id)
    expect(seen).toMatchObject({ state: 'scheduled', attempt: 0, error: null, result: null, finishedAt: null })
    expect((await engine.jobs.explain(job.id)).expectedStart?.getTime()).toBe(clock.now() + 9000)
    await clock.advance('1m')
    expect(starts).toEqual(['a1@0', 'a1@10', 'a1@20', 'a1@30'])
    expect(await job.result()).toEqual({ url: 'https://example.test/a' })
    expect(events.map(({ name }) => name)).toEqual([...Array.from({ length: 3 }, () => 'job.snoozed'), 'job.completed'])
    const untils = events.flatMap(({ event }) => ('until' in event ? [event.until.getTime()] : []))
    expect(untils.map((each) => each - (untils[0] ?? 0))).toEqual([0, 10_000, 20_000])
  })

  test('waits for its budget where another job of the key has taken it', async () => {
    const { clock, poll, starts } = await snoozing(1)
    await poll.enqueue({ key: 'a' })
    await clock.advance('9s')
    await poll.enqueue({ key: 'a' })
    await clock.advance('1m')
    expect(starts).toEqual(['a1@0', 'a1@9', 'a1@13'])
  })

  test('of no time runs again at once, as its limits allow', async () => {
    const { clock, poll, starts } = await snoozing(2, 0)
    await poll.enqueue({ key: 'a' })
    await clock.advance('1m')
    expect(starts).toEqual(['a1@0', 'a1@4', 'a1@8'])
  })

  test.each<[string, unknown]>([
    ['no duration', undefined],
    ['a negative one', -1],
    ['a text without a unit', '10'],
    ['one of years', 'P1Y'],
    ['one that never ends', Infinity],
    ['one that ends after 2199', '73000000h'],
  ])('refuses %s in the handler', async (_, duration) => {
    const harness = createEngineHarness()
    const failing = task('work.failing', {
      retry: { attempts: 1 },
      run: (_input, ctx) => ctx.snooze(duration as Duration),
    })
    const engine = await harness.start({ store: kind.create(), tasks: [failing] })
    const failed = record(engine, 'job.discarded')
    await failing.enqueue()
    await harness.clock.advance('1s')
    const codes = failed.map(({ event }) => (event.error as { code?: string }).code)
    expect(codes).toEqual([expect.stringMatching(/^(duration|option)\.invalid$/)])
  })

  test('ends with its expiry, if it would start again only behind that', async () => {
    const { clock, engine, poll, starts } = await snoozing(9)
    const job = await poll.enqueue({ key: 'a' }, { expiresAt: new Date(clock.now() + 25_000) })
    await clock.advance('1m')
    expect(starts).toEqual(['a1@0', 'a1@10', 'a1@20'])
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', error: { code: 'job.expired' } })
  })

  test('holds its place in a chain: the next step starts once it has completed', async () => {
    const harness = createEngineHarness()
    const ran: string[] = []
    const first = task('work.first', {
      run: (_input, ctx) => {
        ran.push(`first@${harness.at()}`)
        return ran.length < 2 ? ctx.snooze('30s') : 'ready'
      },
    })
    const second = task('work.second', {
      run: (_input, ctx) => void ran.push(`second@${harness.at()} ${JSON.stringify(ctx.job.parentResults)}`),
    })
    const engine = await harness.start({ store: kind.create(), tasks: [first, second] })
    const flow = await engine.flows.start({ kind: 'chain', steps: [call(first), call(second)] })
    await harness.clock.advance('10s')
    expect(await engine.flows.get(flow.id)).toMatchObject({ state: 'running', completed: 0 })
    await harness.clock.advance('1m')
    expect(ran).toEqual(['first@0', 'first@30', 'second@30 ["ready"]'])
  })

  test('keeps its unique key, its failures before and its last error', async () => {
    const harness = createEngineHarness()
    let runs = 0
    const work = task('work.unique', {
      retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
      run: (_input, ctx) => {
        runs++
        if (runs === 2) return ctx.snooze('10s')
        throw runs === 1 ? new Error('once') : new NonRetryable('again')
      },
    })
    const engine = await harness.start({ store: kind.create(), tasks: [work] })
    const job = await work.enqueue(undefined, { unique: 'k' })
    await harness.clock.advance('5s')
    expect(await engine.jobs.get(job.id)).toMatchObject({
      state: 'scheduled',
      attempt: 1,
      error: { message: 'Error: once' },
    })
    expect(await work.enqueue(undefined, { unique: 'k' })).toMatchObject({ id: job.id, duplicate: true })
    await harness.clock.advance('10s')
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', attempt: 2 })
  })
})

test('a snooze changes the type of no result, and its value is opaque', () => {
  const sometimes = task('types.sometimes', {
    run: async (_input, ctx) => (ctx.attempt > 1 ? ctx.snooze('1s') : { n: ctx.attempt }),
  })
  const now = task('types.now', { run: (_input, ctx) => (ctx.attempt > 1 ? ctx.snooze(1) : String(ctx.attempt)) })
  const nothing = task('types.nothing', {
    async run(_input, ctx) {
      return ctx.attempt > 1 ? ctx.snooze('PT1M') : undefined
    },
  })
  expectTypeOf(sometimes).toEqualTypeOf<Task<void, void, { n: number }>>()
  expectTypeOf(now).toEqualTypeOf<Task<void, void, string>>()
  expectTypeOf(nothing).toEqualTypeOf<Task<void, void, undefined>>()
  expectTypeOf<keyof Snooze>().toBeSymbol()
})
