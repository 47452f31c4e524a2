// Limits whose budgets a backend keeps, for jobs of one engine: on the memory backend, by a manual clock.
import { describe, expect, it } from 'vitest'
import { createLimiter, defineBackend } from '../../src/exports/limiter.ts'
import { input, limit, type Limit, RateLimited, Sluice, task, type TaskOptions } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { HttpHarness } from '../http/http-harness.ts'
import { createEngineHarness, type EngineHarness, record } from './engine-harness.ts'
import { UnreliableBackend } from './unreliable-backend.ts'

const BUDGETS = { shared: 'memory:' }

/** A task that notes when its jobs start, in seconds, and by which key. */
function noted(w: EngineHarness, limits: NonNullable<TaskOptions<string, unknown>['limits']>, name = 'call') {
  const starts: [number, string][] = []
  const each = task(name, input<string>(), {
    limits,
    run: (key) => void starts.push([w.at(), key]),
  })
  return { task: each, starts }
}

const keyed = (given: Limit) => given.by((key: string) => key)

describe('a limit with a backend', () => {
  it('is held to, and its jobs start as soon as they may', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { rate: 10, per: '1s', burst: 3, backend: 'shared', guard: 0 })
    const { task: call, starts } = noted(w, [stripe])
    const engine = await w.start({ tasks: [call], budgets: BUDGETS })
    await engine.enqueue(call, 'first')
    for (let n = 0; n < 20; n++) await engine.enqueue(call, 'x')
    await w.clock.advance('2s')
    expect(starts.length).toBe(21)
    // A period is a hundredth longer than it says: 101 ms for each unit.
    expect(starts.slice(0, 3).every(([at]) => at < 0.01)).toBe(true)
    expect(starts[3]![0]).toBeCloseTo(0.101, 2)
    expect(starts.at(-1)![0]).toBeLessThan(18 * 0.101 + 0.02)
  })

  it('shares its budget with plain calls of the same backend', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { window: 'sliding', max: 10, per: '10s', backend: 'shared' })
    const backend = defineBackend(new MemoryBackend(w.clock))
    const limiter = createLimiter({ backend, limits: [stripe], clock: w.clock })
    const { task: call, starts } = noted(w, [stripe])
    const engine = await w.start({ tasks: [call], budgets: { shared: backend } })
    for (let n = 0; n < 6; n++) await limiter.acquire([stripe])
    for (let n = 0; n < 10; n++) await engine.enqueue(call, 'x')
    await w.clock.advance('1s')
    expect(starts.length).toBe(4)
    await w.clock.advance('10s')
    expect(starts.length).toBe(10)
    const left = await limiter.inspect(stripe)
    expect(left.available).toBe(4)
  })

  it('is asked for fewer starts at once when its backend is too slow for many', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared', guard: 0 })
    const backend = new UnreliableBackend(w.clock)
    backend.most = 4
    const { task: call, starts } = noted(w, [keyed(stripe)])
    await w.start({ tasks: [call], budgets: { shared: backend }, queues: { default: { concurrency: 50 } } })
    await call.enqueueMany(Array.from({ length: 60 }, (_, n) => `tenant ${n}`))
    await w.clock.advance('10s')
    expect(starts.length).toBe(60)
  })

  it('lets a key that is used up delay no other', async () => {
    const w = createEngineHarness()
    const tenant = limit('tenant', { rate: 5, per: '10s', backend: 'shared' })
    const all = limit('all', { rate: 100, per: '10s', backend: 'shared' })
    const { task: call, starts } = noted(w, [keyed(tenant), all])
    const engine = await w.start({ tasks: [call], budgets: BUDGETS, queues: { default: { concurrency: 200 } } })
    for (let n = 0; n < 50; n++) await engine.enqueue(call, 't0')
    for (let t = 1; t <= 19; t++) for (let n = 0; n < 5; n++) await engine.enqueue(call, `t${t}`)
    await w.clock.advance('1s')
    expect(starts.length).toBe(100)
    expect(starts.filter(([, key]) => key === 't0').length).toBe(5)
  })

  it('holds permits until the end of a run is durable', async () => {
    const w = createEngineHarness()
    const slots = limit('slots', { concurrency: 2, backend: 'shared' })
    const running = { now: 0, most: 0, ended: 0 }
    const call = task('call', input<string>(), {
      limits: [slots],
      run: async () => {
        running.most = Math.max(running.most, ++running.now)
        await w.clock.sleep('100ms')
        running.now--
        running.ended++
      },
    })
    const engine = await w.start({ tasks: [call], budgets: BUDGETS })
    for (let n = 0; n < 10; n++) await engine.enqueue(call, 'x')
    await w.clock.advance('520ms')
    expect(running).toEqual({ now: 0, most: 2, ended: 10 })
    expect(await engine.limits.inspect('slots')).toMatchObject([{ limit: 'slots', active: 0, available: 2 }])
  })

  it('beside a limit of the store takes nothing of either for a job that the other refuses', async () => {
    const w = createEngineHarness()
    const shared = limit('shared', { rate: 2, per: '1s', backend: 'shared' })
    const here = limit('here', { rate: 1, per: '10s' })
    const { task: both, starts } = noted(w, [shared, here], 'both')
    const other = noted(w, [shared], 'other')
    const engine = await w.start({ tasks: [both, other.task], budgets: BUDGETS })
    for (let n = 0; n < 3; n++) await engine.enqueue(both, 'x')
    await w.clock.advance('100ms')
    expect(starts.length).toBe(1)
    await engine.enqueue(other.task, 'y')
    await w.clock.advance('10ms')
    expect(other.starts.length).toBe(1)
    await w.clock.advance('25s')
    expect(starts.length).toBe(3)
  })

  it('is closed by a refusal of the other side for everyone', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared' })
    const backend = defineBackend(new MemoryBackend(w.clock))
    const limiter = createLimiter({ backend, limits: [stripe], clock: w.clock })
    const refused = task('refused', input<string>(), {
      limits: [stripe],
      run: () => {
        throw new RateLimited({ retryAfter: '5s' })
      },
    })
    const engine = await w.start({ tasks: [refused], budgets: { shared: backend } })
    await engine.enqueue(refused, 'x')
    await w.clock.advance('100ms')
    await expect(limiter.acquire([stripe], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
    expect((await limiter.inspect(stripe)).closedUntil!.getTime()).toBeCloseTo(w.clock.now() + 4900, -2)
  })
})

describe('the option budgets', () => {
  const shared = limit('shared', { rate: 1, per: '1s', backend: 'shared' })
  const call = task('call', input<string>(), { limits: [shared], run: () => undefined })
  const make = (budgets: unknown) => () =>
    new Sluice({ store: 'sqlite::memory:', tasks: [call], budgets: budgets as never })

  it.each([
    [undefined, 'budget.unknown'],
    [{ shered: 'memory:' }, 'budget.unknown'],
    [[], 'option.invalid'],
    [{ shared: 'http://x' }, 'limiter.url.invalid'],
    [{ shared: 5 }, 'option.invalid'],
    [{ shared: { backend: 'memory:', failmode: 'open' } }, 'option.invalid'],
    [{ shared: { backend: 'memory:', failMode: 'ajar' } }, 'option.invalid'],
    [{ shared: { backend: 'memory:', failMode: { shered: 'open' } } }, 'limit.unknown'],
    [{ shared: 'memory:', other: { backend: 'memory:', failMode: { shared: 'open' } } }, 'limit.unknown'],
    [{ shared: { backend: 'memory:', namespace: '' } }, 'option.invalid'],
  ])('%j is refused with %s', (budgets, code) => {
    expect(make(budgets)).toThrow(expect.objectContaining({ code }) as Error)
  })

  it.each(['redis+cluster://host:7000', 'redis+sentinel://host:26379/main', 'rediss+cluster://host'])(
    '%s is an address of a backend, as in createLimiter',
    async (address) => {
      await expect(make({ shared: address })().stop()).resolves.toBeUndefined()
    },
  )

  it.each([
    { scope: 'worker' as const },
    { onLimit: 'drop' as const },
    { retries: 'free' as const },
    { backend: '' },
    { backend: 5 as never },
  ])('a policy with a backend and %j is refused', (more) => {
    expect(() => limit('x', { rate: 1, per: '1s', backend: 'shared', ...more })).toThrow(
      expect.objectContaining({ code: 'policy.invalid' }) as Error,
    )
  })

  it('a limit of a whole queue with a backend is refused', () => {
    expect(
      () => new Sluice({ store: 'sqlite::memory:', tasks: [], budgets: BUDGETS, queues: { q: { limits: [shared] } } }),
    ).toThrow(expect.objectContaining({ code: 'option.invalid' }) as Error)
  })

  it('a call that names a limit with an unknown backend is refused, and nothing is stored', async () => {
    const w = createEngineHarness()
    const plain = task('plain', input<string>(), { run: () => undefined })
    const engine = await w.start({ tasks: [plain] })
    await expect(engine.enqueue(plain, 'x', { limits: [shared] })).rejects.toMatchObject({ code: 'budget.unknown' })
    expect(await engine.jobs.list()).toEqual([])
  })
})

describe('a backend that cannot be reached', () => {
  it.each(['closed', 'open'] as const)('with failMode %s it lets jobs %s, and tells that once', async (failMode) => {
    const w = createEngineHarness()
    const backend = new UnreliableBackend(w.clock)
    const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared' })
    const { task: call, starts } = noted(w, [stripe])
    const free = noted(w, [], 'free')
    const engine = await w.start({ tasks: [call, free.task], budgets: { shared: { backend, failMode } } })
    const events = record(engine, 'rate_limit.backend_down', 'rate_limit.backend_up')
    backend.isDown = true
    for (let n = 0; n < 5; n++) await engine.enqueue(call, 'x')
    await engine.enqueue(free.task, 'y')
    await w.clock.advance('3s')
    expect(free.starts.length).toBe(1)
    expect(free.starts[0]![0]).toBeLessThan(0.2)
    expect(starts.length).toBe(failMode === 'open' ? 5 : 0)
    expect(events.map(({ name }) => name)).toEqual(['rate_limit.backend_down'])
    backend.isDown = false
    await w.clock.advance('500ms')
    expect(starts.length).toBe(5)
    expect(events.map(({ name }) => name)).toEqual(['rate_limit.backend_down', 'rate_limit.backend_up'])
    expect(events[1]!.event).toMatchObject({ backend: 'shared', granted: failMode === 'open' ? 5 : 0 })
  })
})

describe('a backend that is full', () => {
  it.each(['closed', 'open'] as const)('is told of once, whatever it still answers: %s', async (failMode) => {
    const w = createEngineHarness()
    const backend = new UnreliableBackend(w.clock)
    const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared' })
    const { task: call, starts } = noted(w, [stripe])
    const engine = await w.start({ tasks: [call], budgets: { shared: { backend, failMode } } })
    const events = record(engine, 'rate_limit.backend_down', 'rate_limit.backend_up')
    backend.isFull = true
    for (let n = 0; n < 5; n++) {
      await engine.enqueue(call, 'x')
      await w.clock.advance('1s')
      await engine.limits.inspect('stripe')
    }
    expect(starts.length).toBe(failMode === 'open' ? 5 : 0)
    expect(events.map(({ name }) => name)).toEqual(['rate_limit.backend_down'])
    backend.isFull = false
    await w.clock.advance('500ms')
    expect(starts.length).toBe(5)
    expect(events.map(({ name }) => name)).toEqual(['rate_limit.backend_down', 'rate_limit.backend_up'])
  })
})

describe('what is told of a limit with a backend', () => {
  it('explain names the backend and until when, inspect asks it', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { window: 'sliding', max: 2, per: '10s', backend: 'shared' })
    const { task: call } = noted(w, [keyed(stripe)])
    const engine = await w.start({ tasks: [call], budgets: BUDGETS })
    const since = w.clock.now()
    for (let n = 0; n < 2; n++) await engine.enqueue(call, 'k')
    const job = await engine.enqueue(call, 'k')
    await w.clock.advance('1s')
    const found = await engine.jobs.explain(job.id)
    expect(found.waitsOn).toEqual({ limit: 'stripe', key: 'k', backend: 'shared' })
    expect(found.until!.getTime() - since).toBeGreaterThan(10_000)
    expect(found.words).toContain('stripe for k at the backend shared')
    expect(await engine.limits.inspect('stripe', 'k')).toMatchObject([
      { key: 'k', available: 0, capacity: 2, waiting: 1, backend: 'shared', guardUs: 100_000 },
    ])
  })

  it('an override and a pause hold at the backend, and wait lists come at once', async () => {
    const w = createEngineHarness()
    const stripe = limit('stripe', { window: 'sliding', max: 2, per: '1m', backend: 'shared' })
    const backend = defineBackend(new MemoryBackend(w.clock))
    const limiter = createLimiter({ backend, limits: [stripe], clock: w.clock })
    const { task: call, starts } = noted(w, [stripe])
    const engine = await w.start({ tasks: [call], budgets: { shared: backend } })
    for (let n = 0; n < 6; n++) await engine.enqueue(call, 'x')
    await w.clock.advance('1s')
    expect(starts.length).toBe(2)
    await engine.limits.override(stripe, undefined, { max: 4 }, { until: '5s' })
    await w.clock.advance('1s')
    expect(starts.length).toBe(4)
    expect((await limiter.inspect(stripe)).capacity).toBe(4)
    await w.clock.advance('5s')
    expect((await limiter.inspect(stripe)).capacity).toBe(2)
    await engine.limits.pause(stripe)
    await expect(limiter.acquire([stripe], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
    await engine.limits.resume(stripe)
    await w.clock.advance('60s')
    expect(starts.length).toBe(6)
  })
})

describe('a limit with a backend in other places', () => {
  const shared = limit('shared', { rate: 5, per: '1s', concurrency: 2, backend: 'shared' })

  it('is refused by calls of plain code to the store, and in hold of a flow', async () => {
    const w = createEngineHarness()
    const flow = workflow('flow', input<string>(), { hold: [shared], run: async () => null })
    const engine = await w.start({ tasks: [], workflows: [flow], limits: [shared], budgets: BUDGETS })
    await expect(engine.limits.acquire([shared], { wait: false })).rejects.toMatchObject({ code: 'option.invalid' })
    await expect(flow.start('x')).rejects.toMatchObject({ code: 'option.invalid' })
  })

  it('holds the steps of a flow', async () => {
    const w = createEngineHarness()
    const strict = limit('strict', { window: 'sliding', max: 2, per: '1s', backend: 'shared' })
    const starts: number[] = []
    const flow = workflow('flow', input<string>(), {
      run: async (_, run) => {
        for (const step of ['a', 'b', 'c', 'd'])
          await run.step(step, { limits: [strict] }, () => void starts.push(w.at()))
        return starts.length
      },
    })
    const engine = await w.start({ tasks: [], workflows: [flow], budgets: BUDGETS })
    const started = await flow.start('x')
    await w.clock.advance('3s')
    expect((await engine.flows.get(started.id))!.state).toBe('completed')
    expect(starts.length).toBe(4)
    expect(starts[2]! - starts[0]!).toBeGreaterThanOrEqual(1.02)
  })

  it('is paid for by workers over HTTP, and their permits return', async () => {
    const plain = task('plain', input<string>(), { limits: [shared], run: () => undefined })
    const w = await HttpHarness.open({ engine: { tasks: [plain], budgets: BUDGETS } })
    for (let n = 0; n < 4; n++) await w.sluice.enqueue(plain, 'x')
    const fetchOnce = async (): Promise<{ id: string }[]> => {
      const asked = { worker_id: 'w', queues: ['default'], count: 4 }
      return (await w.post('/ojs/v1/workers/fetch', asked)).body['jobs'] as { id: string }[]
    }
    const first = await fetchOnce()
    expect(first.length).toBe(2)
    expect(await fetchOnce()).toEqual([])
    for (const { id } of first) await w.post('/ojs/v1/workers/ack', { worker_id: 'w', job_id: id })
    await w.clock.advance('500ms')
    expect((await fetchOnce()).length).toBe(2)
  })

  it.each([0, 1, 3])(
    'lets a job start as soon as it is paid, though %i fetches wait for other jobs',
    async (waiting) => {
      const w = createEngineHarness()
      const one = limit('one', { concurrency: 1 })
      const first = task('first', input<string>(), { limits: [one], run: () => w.clock.sleep('1s') })
      const { task: then, starts } = noted(w, [one, shared], 'then')
      const engine = await w.start({ tasks: [first, then], budgets: BUDGETS })
      await w.clock.advance(0)
      const fetches = Array.from({ length: waiting }, (_, n) =>
        remoteOf(engine).fetch({ worker: `w${n}`, queues: ['other'], count: 1, leaseUs: 60e6, waitMs: 10_000 }),
      )
      await w.clock.advance('100ms')
      await engine.enqueue(first, 'x')
      await engine.enqueue(then, 'y')
      await w.clock.advance('15s')
      expect(starts).toEqual([[1.1, 'y']])
      expect((await Promise.all(fetches)).flat()).toEqual([])
    },
  )
})
