import { describe, expect, test } from 'vitest'
import { input, limit, type Limit, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

interface Call {
  readonly tenant: string
  readonly atMs: number
}

const stores = await everyStore('guaranteed shares')

describe.each(stores)('a guaranteed share of a common limit, on $name', (store) => {
  /** A backlog of one sender in a common limit, beside tenants that are guaranteed a share of it. */
  function stage(outbound: Limit, share: Limit) {
    const harness = createEngineHarness()
    const { clock } = harness
    const starts: { readonly tenant: string; readonly lateMs: number; readonly atMs: number }[] = []
    const run = ({ tenant, atMs }: Call): void => {
      starts.push({ tenant, lateMs: clock.now() - atMs, atMs: clock.now() })
    }
    const greedy = task('greedy', input<Call>(), { limits: [outbound], run })
    const guaranteed = task('guaranteed', input<Call>(), { limits: [share.by(({ tenant }) => tenant)], run })
    const engine = harness.create({ store: store.create(), tasks: [greedy, guaranteed] })
    const call = (tenant: string): Call => ({ tenant, atMs: clock.now() })
    return { ...harness, engine, greedy, guaranteed, starts, call }
  }

  test('keeps every job of ten tenants within 50 ms beside a backlog, which gets all of the rest', async () => {
    const outbound = limit('outbound', { rate: 100, per: '1s' })
    const share = limit('tenant', {
      rate: 20,
      per: '1s',
      of: { limit: outbound, atLeast: { rate: 5, per: '1s' } },
    })
    const { clock, engine, greedy, guaranteed, starts, call } = stage(outbound, share)
    const backlog = Array.from({ length: store.name === 'sqlite' ? 100_000 : 2000 }, () => call('A'))
    await greedy.enqueueMany(backlog, { priority: 50 })
    await engine.start()
    await clock.advance('1s')
    const quietFrom = starts.length
    await clock.advance('1s')
    expect(starts.length - quietFrom).toBeGreaterThanOrEqual(98)
    const from = starts.length
    for (let n = 0; n < 10; n++) {
      await guaranteed.enqueueMany(Array.from({ length: 10 }, (_, i) => call(`t${i}`)))
      await clock.advance('200ms')
    }
    const during = starts.slice(from)
    const theirs = during.filter(({ tenant }) => tenant !== 'A')
    expect(theirs).toHaveLength(100)
    expect(Math.max(...theirs.map(({ lateMs }) => lateMs))).toBeLessThanOrEqual(50)
    const rest = during.length - theirs.length
    expect(rest).toBeGreaterThanOrEqual(98)
    expect(rest).toBeLessThanOrEqual(102)
  })

  test('is refused to a call that leaves the common limit out, as a program over HTTP may', async () => {
    const outbound = limit('outbound', { rate: 1, per: '1s' })
    const share = limit('tenant', { rate: 9, per: '1s', of: { limit: outbound, atLeast: { every: '9s' } } })
    const { engine } = stage(outbound, share)
    await engine.start()
    const backend = await internalsOf(engine).budgets.backend()
    const request = (...limits: string[]) => ({
      uses: limits.map((name) => ({ limit: name, key: name === 'tenant' ? 'a' : '', weight: 1 })),
      priority: 0,
      line: 0,
      permit: 'p',
      leaseUs: 1_000_000,
    })
    const refused = { code: 'policy.invalid', message: expect.stringContaining('a share of outbound') as string }
    await expect(backend.acquire([request('tenant')])).rejects.toMatchObject(refused)
    await expect(backend.reserve(request('tenant'), 1_000_000)).rejects.toMatchObject(refused)
    expect(await backend.acquire([request('outbound', 'tenant')])).toMatchObject([{ kind: 'granted' }])
    expect(await backend.acquire([request('outbound')])).toMatchObject([{ kind: 'denied' }])
  })

  test('is that of plain code too, which goes before a backlog at once, and then in its turn', async () => {
    const outbound = limit('outbound', { rate: 10, per: '1s', burst: 1 })
    const share = limit('tenant', { every: '10ms', of: { limit: outbound, atLeast: { every: '1s' } } })
    const { clock, engine, greedy, starts, call } = stage(outbound, share)
    await engine.start()
    await greedy.enqueueMany(
      Array.from({ length: 50 }, () => call('A')),
      { priority: 50 },
    )
    await clock.advance(0)
    const from = clock.now()
    const waited: number[] = []
    const acquire = async (): Promise<void> => {
      await (await engine.limits.acquire([share.key('b')])).release()
      waited.push(clock.now() - from)
    }
    const both = Promise.all([acquire(), acquire()])
    await clock.advance('1s')
    await clock.advance('200ms')
    await both
    expect(waited).toEqual([100, 1100])
    expect(starts).toHaveLength(11)
    await expect(engine.limits.acquire([share.key('b')], { wait: false })).rejects.toMatchObject({
      name: 'RateLimitRejected',
    })
    const [bucket] = await engine.limits.inspect('tenant', 'b')
    expect(bucket?.guarantee).toEqual({ limit: 'outbound', from: new Date(from + 2100) })
    const caveats = await Promise.all(
      [{}, { policy: '9/s' }].map(async (other) =>
        (await engine.forecast(share, { ...other, backlog: 5 })).caveats.join(),
      ),
    )
    for (const words of caveats) expect(words).toContain('each start pays to limit outbound too')
  })

  test('is named by explain, with the instant at which it begins', async () => {
    const outbound = limit('outbound', { rate: 10, per: '1s', burst: 1 })
    const share = limit('tenant', { rate: 10, per: '1s', of: { limit: outbound, atLeast: '1 per 1s' } })
    const { clock, engine, greedy, guaranteed, call } = stage(outbound, share)
    await engine.start()
    await guaranteed.enqueue(call('b'))
    await clock.advance(0)
    await greedy.enqueueMany(Array.from({ length: 50 }, () => call('A')))
    const job = await guaranteed.enqueue(call('b'))
    await clock.advance(0)
    const from = new Date(clock.now() + 1000)
    const explained = await engine.jobs.explain(job.id)
    expect(explained).toMatchObject({
      waitsOn: { limit: 'outbound', key: null },
      guarantee: { limit: 'tenant', key: 'b', from },
    })
    expect(explained.words).toContain(
      `tenant for b guarantees it a share of that budget from ${from.toISOString()} on.`,
    )
  })
})

describe('a guaranteed share', () => {
  const outbound = limit('outbound', '10/s')
  const share = (name: string, keys: number, overcommit?: 'scale') =>
    limit(name, {
      rate: 10,
      per: '1s',
      of: { limit: outbound, atLeast: '4/s', keys, ...(overcommit && { overcommit }) },
    })
  const use = (...limits: Limit[]) =>
    task('use', input<Call>(), { limits: limits.map((each) => each.by(({ tenant }) => tenant)), run: () => undefined })

  test('is refused where all of an engine add up to more than the common limit, unless they may shrink', async () => {
    const { create } = createEngineHarness()
    const both = (): unknown => create({ tasks: [use(share('gold', 2), share('silver', 1))] })
    expect(both).toThrow(expect.objectContaining({ code: 'policy.invalid' }))
    expect(both).toThrow('add up to more than its rate')
    const tasks = [use(share('gold', 1), share('silver', 1))]
    const engine = create({ tasks })
    await expect(tasks[0]!.enqueue({ tenant: 'b', atMs: 0 }, { limits: [share('bronze', 1)] })).rejects.toMatchObject({
      code: 'policy.invalid',
    })
    await tasks[0]!.enqueue({ tenant: 'b', atMs: 0 }, { limits: [share('bronze', 1, 'scale')] })
    expect((await engine.limits.list()).map(({ name }) => name).sort()).toEqual([
      'bronze',
      'gold',
      'outbound',
      'silver',
    ])
  })

  test('is refused for a queue as a whole, and by a limiter without jobs', () => {
    const { create } = createEngineHarness()
    expect(() => create({ tasks: [use()], queues: { default: { limits: [share('gold', 1)] } } })).toThrow(
      'limit gold guarantees a share of outbound, which holds for single jobs',
    )
    expect(() => createLimiter({ backend: 'memory:', limits: [share('gold', 1)] })).toThrow('limit gold has of')
  })

  test('reaches the common limit by that limit’s own key, with the weight of the job', async () => {
    const { create, clock } = createEngineHarness()
    const regional = limit('regional', '10/s')
    const keyed = limit('tenant', {
      rate: 10,
      per: '1s',
      of: { limit: regional.by(({ tenant }: Call) => tenant.slice(0, 2)), atLeast: '4/s' },
    })
    const job = task('job', input<Call>(), { limits: [keyed.by(({ tenant }) => tenant)], run: () => undefined })
    const engine = create({ tasks: [job] })
    const { id } = await job.enqueue({ tenant: 'eu-1', atMs: clock.now() }, { weight: 3 })
    expect((await engine.jobs.explain(id)).limits).toEqual([
      { limit: 'regional', key: 'eu', weight: 3 },
      { limit: 'tenant', key: 'eu-1', weight: 3 },
    ])
  })
})
