import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

describe('jobs', () => {
  test('are read with everything that was said of them', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ n: number }>(), {
      retry: { attempts: 4 },
      run: async ({ n }) => {
        await clock.sleep('2s')
        return { n }
      },
    })
    const engine = await start({ tasks: [work] })
    const openedMs = clock.now()
    const job = await work.enqueue({ n: 1 }, { priority: 3, meta: { by: 'kim' } })
    await clock.advance('5s')
    expect(await engine.jobs.get(job.id)).toEqual({
      id: job.id,
      task: 'work.item',
      queue: 'default',
      state: 'completed',
      priority: 3,
      input: { n: 1 },
      result: { n: 1 },
      error: null,
      failures: [],
      attempt: 1,
      maxAttempts: 4,
      createdAt: new Date(openedMs),
      startedAt: new Date(openedMs),
      finishedAt: new Date(openedMs + 2000),
      logs: [],
      progress: null,
      meta: { by: 'kim' },
      tags: [],
      throttledUntil: null,
    })
    expect(await engine.jobs.get('no-such-job')).toBeNull()
  })

  test('are listed by state, queue and task, newest first, in bounded pages', async () => {
    const { clock, start } = createEngineHarness()
    const one = task('work.one', { run: () => undefined })
    const two = task('work.two', { queue: 'slow', run: () => undefined })
    const engine = await start({ tasks: [one, two], queues: ['default'] })
    const first = await one.enqueue()
    await clock.advance('1s')
    const second = await two.enqueue()
    const third = await one.enqueue(undefined, { delay: '1h' })
    const ids = async (query: Parameters<typeof engine.jobs.list>[0]): Promise<string[]> =>
      (await engine.jobs.list(query)).map((job) => job.id)
    expect(await ids({})).toEqual([third.id, second.id, first.id])
    expect(await ids({ states: ['completed', 'scheduled'] })).toEqual([third.id, first.id])
    expect(await ids({ queue: 'slow' })).toEqual([second.id])
    expect(await ids({ task: 'work.one', limit: 1 })).toEqual([third.id])
    expect(await ids({ queue: 'no-such-queue' })).toEqual([])
    for (const bad of [0, -1, 1001, 1.5, Number.NaN])
      await expect(engine.jobs.list({ limit: bad })).rejects.toMatchObject({ code: 'option.invalid' })
  })

  test('explain why they wait: which limit, since when, until when, at which place', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ key: string }>(), {
      limits: [limit('gate', { rate: 1, per: '10s' }).by((item) => item.key)],
      run: () => undefined,
    })
    const engine = await start({ tasks: [work] })
    const openedMs = clock.now()
    const jobs = await work.enqueueMany([1, 2, 3, 4].map(() => ({ key: 'acme' })))
    await clock.advance('2s')
    const why = await engine.jobs.explain(jobs[2]!.id)
    expect(why).toMatchObject({
      waitsOn: { limit: 'gate', key: 'acme' },
      limits: [{ limit: 'gate', key: 'acme', weight: 1 }],
      position: 2,
      since: new Date(openedMs),
      until: new Date(openedMs + 10_000),
      expectedStart: new Date(openedMs + 20_000),
      exact: true,
    })
    expect(why.words).toBe(
      'The job waits for the budget of gate for acme, whose next start is at 2026-01-01T00:00:10.000Z, at position 2; it should start at 2026-01-01T00:00:20.000Z.',
    )
    await clock.advance('18s')
    expect(await engine.jobs.get(jobs[2]!.id)).toMatchObject({ startedAt: new Date(openedMs + 20_000) })
    await expect(engine.jobs.explain('no-such-job')).rejects.toMatchObject({ code: 'job.not_found' })
  })

  test('explain that they wait for a slot, for a permit, or not at all', async () => {
    const { clock, start } = createEngineHarness()
    const one = limit('one', { concurrency: 1 })
    const held = task('work.held', { limits: [one], run: () => clock.sleep('1h') })
    const plain = task('work.plain', { run: () => clock.sleep('1h') })
    const engine = await start({ tasks: [held, plain], queues: { default: { concurrency: 2 } } })
    await held.enqueue()
    await clock.advance(0)
    const second = await held.enqueue()
    const running = await plain.enqueue()
    await clock.advance(0)
    const third = await plain.enqueue()
    await clock.advance('1s')
    expect(await engine.jobs.explain(second.id)).toMatchObject({
      waitsOn: { limit: 'one', key: null },
      until: null,
      expectedStart: null,
    })
    expect((await engine.jobs.explain(second.id)).words).toContain('until one of its permits returns')
    expect(await engine.jobs.explain(third.id)).toMatchObject({ waitsOn: null, position: 1 })
    expect((await engine.jobs.explain(third.id)).words).toContain('a free slot of queue default')
    expect((await engine.jobs.explain(running.id)).words).toBe('The job is active.')
  })
})

describe('limits', () => {
  test('are listed with their policies, those of queues and calls included', async () => {
    const { start } = createEngineHarness()
    const work = task('work.item', {
      limits: [limit('task-limit', { rate: 1, per: '1s' }), { every: '100ms' }],
      run: () => undefined,
    })
    const engine = await start({
      tasks: [work],
      limits: [limit('call-limit', { concurrency: 2 })],
      queues: { default: { limits: [limit('queue-limit', { window: 'sliding', max: 5, per: '1m', guard: 0 })] } },
    })
    const listed = new Map((await engine.limits.list()).map(({ name, policy }) => [name, policy]))
    expect([...listed.keys()].sort()).toEqual(['call-limit', 'queue-limit', 'task-limit', 'work.item'])
    expect(listed.get('queue-limit')?.rule).toEqual({ kind: 'sliding', max: 5, periodUs: 60_000_000 })
    expect(listed.get('work.item')?.rule).toEqual({ kind: 'spacing', everyUs: 100_000 })
  })

  test('show what every bucket has left, who holds it and who waits', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ key: string }>(), {
      limits: [limit('gate', { rate: 4, per: '40s', concurrency: 2 }).by((item) => item.key)],
      run: () => clock.sleep('5s'),
    })
    const engine = await start({ tasks: [work] })
    const openedMs = clock.now()
    for (const key of ['a', 'b', 'b', 'b', 'b', 'b']) await work.enqueue({ key })
    await clock.advance('1s')
    expect(await engine.limits.inspect('gate')).toMatchObject([
      { limit: 'gate', key: 'a', capacity: 4, active: 1, available: 1, debt: 0, waiting: 0, nextStart: null },
      { limit: 'gate', key: 'b', capacity: 4, active: 2, available: 0, waiting: 3, nextStart: null, drained: null },
    ])
    await clock.advance('6s')
    expect(await engine.limits.inspect('gate', 'b')).toMatchObject([{ active: 2, available: 0, waiting: 1 }])
    await clock.advance('4s')
    expect(await engine.limits.inspect('gate', 'b')).toMatchObject([{ active: 1, waiting: 0 }])
    expect((await engine.jobs.list({ limit: 1 }))[0]?.startedAt).toEqual(new Date(openedMs + 10_000))
    expect(await engine.limits.inspect('gate', 'never-used')).toMatchObject([{ available: 2, active: 0, waiting: 0 }])
    await expect(engine.limits.inspect('no-such-limit')).rejects.toMatchObject({ code: 'limit.unknown' })
  })
})
