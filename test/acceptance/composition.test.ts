import { describe, expect, test } from 'vitest'
import { input, type Key, limit, Sluice, task } from '../../src/exports/index.ts'
import { expectWithinBudget, rate, Room, times } from './harness.ts'

interface Item {
  readonly tenant: string
  readonly tokens?: number
}

/** A room whose own limit is not used: clock, logger and clean-up for engines of the test's own tasks. */
function harness(): Room {
  return new Room({ policy: rate(1, 1), file: true })
}

function engineOf(room: Room, options: Partial<ConstructorParameters<typeof Sluice>[0]>): Sluice {
  return new Sluice({ store: 'sqlite::memory:', tasks: [], clock: room.clock, logger: room.logger(), ...options })
}

describe('limits of the task, of the call and of the queue', () => {
  const perTenant = limit('tenant', { window: 'sliding', max: 3, per: '10s', guard: 0 })
  const tokens = limit('tokens', { rate: 100, per: '10s' })
  const gap = limit('gap', { every: '500ms' })
  const slots = limit('slots', { concurrency: 2 })
  const inQueue = limit('in-queue', { rate: 4, per: '1s', burst: 4 })

  test('all hold together, each with its own key and weight', async () => {
    const room = harness()
    const starts: { atUs: number; weight: number; tenant: string }[] = []
    const work = task('work.all', input<Item>(), {
      limits: [perTenant.by((item) => item.tenant), tokens.by('tenant', { weight: 20 }), slots],
      run: async ({ tenant }) => {
        starts.push({ atUs: room.atUs, weight: 1, tenant })
        await room.clock.sleep('100ms')
      },
    })
    const engine = engineOf(room, {
      tasks: [work],
      limits: [gap],
      queues: { default: { concurrency: 50, limits: [inQueue] } },
    })
    await engine.start()
    for (let i = 0; i < 40; i++)
      await work.enqueue({ tenant: `t${i % 4}` }, i % 2 === 0 ? { limits: [gap.key('even')] } : {})
    await room.clock.advance('60s')
    expect(starts).toHaveLength(40)
    for (const tenant of ['t0', 't1', 't2', 't3']) {
      const own = starts.filter((start) => start.tenant === tenant)
      expectWithinBudget({ window: 'sliding', max: 3, per: '10s', guard: 0 }, own, tenant)
      const costs = own.map((start) => ({ ...start, weight: 20 }))
      expectWithinBudget({ rate: 100, per: '10s' }, costs, `tokens of ${tenant}`)
    }
    const even = starts.filter(({ tenant }) => tenant === 't0' || tenant === 't2')
    expectWithinBudget({ every: '500ms' }, even, 'the gap of the even calls')
    expectWithinBudget({ rate: 4, per: '1s', burst: 4 }, starts, 'the queue')
    for (const { atUs } of starts)
      expect(starts.filter((other) => other.atUs > atUs - 100_000 && other.atUs <= atUs).length).toBeLessThanOrEqual(2)
    // Nothing but the windows of the tenants holds the last of them: three every ten seconds, ten each.
    expect(starts.at(-1)!.atUs).toBeLessThan(32_000_000)
    await engine.stop({ within: 0 })
    expect(room.errors).toEqual([])
  })

  test('a refusal by any of them charges none of the others, however often it is asked', async () => {
    const room = harness()
    let runs = 0
    const [mine, calls, queues, closed] = ['mine', 'calls', 'queues', 'closed'].map((name) =>
      limit(name, { rate: 10, per: '365d' }),
    )
    const work = task('work.mine', { limits: [mine!], run: () => void runs++ })
    const drain = task('work.drain', { limits: [closed!], run: () => undefined })
    const engine = engineOf(room, {
      tasks: [work, drain],
      limits: [calls!],
      queues: { default: {}, limited: { limits: [queues!] } },
    })
    await engine.start()
    for (let i = 0; i < 10; i++) await drain.enqueue()
    await room.clock.advance('1s')
    for (let i = 0; i < 20; i++)
      await work.enqueue(undefined, { queue: 'limited', limits: [calls!.weight(2), closed!] })
    // Every wakeup is one more look at the closed lane.
    for (let i = 0; i < 50; i++) {
      await engine.limits.penalize('closed', undefined, new Date(room.clock.now() + 1000))
      await room.clock.advance('1s')
    }
    expect(runs).toBe(0)
    for (const name of ['mine', 'calls', 'queues'])
      expect([name, (await engine.limits.inspect(name))[0]?.available ?? 10]).toEqual([name, 10])
    await engine.stop({ within: 0 })
  })
})

describe('tenants under one global limit', () => {
  /** Starts of so many tenants, each with its share of 3,000 jobs, within 20 s. */
  async function startsOf(tenants: number): Promise<number> {
    const room = harness()
    const starts: { atUs: number; weight: number }[] = []
    const all = { rate: 100, per: '1s', burst: 1 } as const
    const work = task('work.tenants', input<Item>(), {
      limits: [limit('all', all), limit('each', { rate: 1000, per: '1s' }).by('tenant')],
      run: () => void starts.push({ atUs: room.atUs, weight: 1 }),
    })
    const engine = engineOf(room, { tasks: [work] })
    await engine.start()
    await work.enqueueMany(Array.from({ length: 3000 }, (_, i) => ({ tenant: `t${i % tenants}` })))
    await room.clock.advance('19.999s')
    await engine.stop({ within: 0 })
    expectWithinBudget(all, starts, `${tenants} tenants`)
    return starts.length
  }

  test('reach its full rate, in any number', async () => {
    expect(await startsOf(1)).toBe(2000)
    expect(await startsOf(100)).toBe(2000)
    expect(await startsOf(1000)).toBe(2000)
  })

  test('none is starved by another, though one has a thousand times the backlog and newcomers keep coming', async () => {
    const room = harness()
    const starts = new Map<string, number[]>()
    const work = task('work.fair', input<Item>(), {
      limits: [limit('all', { rate: 10, per: '1s', burst: 1 }), limit('each', { concurrency: 100 }).by('tenant')],
      run: ({ tenant }) => void starts.set(tenant, [...(starts.get(tenant) ?? []), room.atUs / 1e6]),
    })
    const engine = engineOf(room, { tasks: [work] })
    await engine.start()
    await work.enqueueMany(Array.from({ length: 5000 }, () => ({ tenant: 'huge' })))
    await work.enqueueMany(Array.from({ length: 5 }, () => ({ tenant: 'small' })))
    for (let second = 0; second < 60; second++) {
      await work.enqueueMany(Array.from({ length: 4 }, (_, i) => ({ tenant: `new${second}-${i}` })))
      await room.clock.advance('1s')
    }
    expect(starts.get('small')!.at(-1)).toBeLessThan(5)
    for (let second = 0; second < 58; second++)
      for (let i = 0; i < 4; i++) expect(starts.get(`new${second}-${i}`)![0]! - second).toBeLessThan(1.5)
    expect(starts.get('huge')!.length).toBeGreaterThan(300)
    expect([...starts.values()].flat().length).toBe(601)
    await engine.stop({ within: 0 })
  })
})

describe('names', () => {
  test('two tasks that use one limit share its budget', async () => {
    const room = harness()
    const starts: { atUs: number; weight: number }[] = []
    const policy = { rate: 20, per: '1s' } as const
    const run = (): void => void starts.push({ atUs: room.atUs, weight: 1 })
    const a = task('work.a', { limits: [limit('openai', policy)], run })
    const b = task('work.b', { limits: [limit('openai', policy)], run })
    const engine = engineOf(room, { tasks: [a, b] })
    await engine.start()
    await Promise.all(times(60, 0).map((_, i) => (i % 2 === 0 ? a : b).enqueue()))
    await room.clock.advance('1.999s')
    expect(starts).toHaveLength(59)
    expectWithinBudget(policy, starts, 'both tasks')
    await engine.stop({ within: 0 })
  })

  test('limits of other names do not touch, inline ones belong to their task', async () => {
    const room = harness()
    const starts: string[] = []
    const slow = task('work.slow', { limits: [{ rate: 1, per: '1h' }], run: () => void starts.push('slow') })
    const quick = task('work.quick', { limits: [{ rate: 100, per: '1s' }], run: () => void starts.push('quick') })
    const engine = engineOf(room, { tasks: [slow, quick] })
    await engine.start()
    for (let i = 0; i < 10; i++) {
      await slow.enqueue()
      await quick.enqueue()
    }
    await room.clock.advance('1s')
    expect(starts.filter((name) => name === 'slow')).toHaveLength(1)
    expect(starts.filter((name) => name === 'quick')).toHaveLength(10)
    await engine.stop({ within: 0 })
  })

  test('a name that is defined twice is an error that names both, and where they are', async () => {
    const room = harness()
    const run = (): void => undefined
    const twenty = limit('openai', { rate: 20, per: '1s' })
    const thirty = limit('openai', { rate: 30, per: '1s' })
    const a = task('work.a', { limits: [twenty], run })
    const b = task('work.b', { limits: [thirty], run })
    expect(() => engineOf(room, { tasks: [a, b] })).toThrow(/openai.*task work\.a.*"rate":20.*task work\.b.*"rate":30/)
    expect(() => engineOf(room, { tasks: [a], limits: [thirty] })).toThrow(/the limits of new Sluice.*30.*task work\.a/)
    expect(() => engineOf(room, { tasks: [a], queues: { q: { limits: [thirty] } } })).toThrow(/queue q.*task work\.a/)
    const engine = engineOf(room, { tasks: [a] })
    await expect(a.enqueue(undefined, { limits: [thirty] })).rejects.toMatchObject({ code: 'limit.conflict' })
    await expect(a.enqueue(undefined, { limits: [limit('openai', { rate: 20, per: '1s' })] })).resolves.toBeDefined()
    await engine.stop()
  })
})

describe('hostile keys', () => {
  const KEYS = ['a@b.com', 't:42', 'acme corp', 'ünï', 'a.b', 'x.', '_global', '9007199254740993', 'true', "');--", '%', '*', '\u0000', '__proto__', 'constructor'] // prettier-ignore
  const NUMBERS = [1_000_000, 42, -1.5]

  test('each is a budget of its own, by a function and by a path', async () => {
    for (const by of ['fn', 'path'] as const) {
      const room = harness()
      const starts: string[] = []
      const gate = limit('gate', { rate: 1, per: '1s' })
      const work = task('work.keys', input<{ x: string | number }>(), {
        limits: [by === 'fn' ? gate.by(({ x }) => x) : gate.by('x')],
        run: ({ x }) => void starts.push(`${String(x).slice(0, 20)}@${room.atUs / 1e6}`),
      })
      const engine = engineOf(room, { tasks: [work] })
      await engine.start()
      const long = 'k'.repeat(4096)
      const keys = [...KEYS, ...NUMBERS, long]
      for (const x of [...keys, ...keys]) await work.enqueue({ x })
      await room.clock.advance('0.999s')
      expect(starts.sort()).toEqual(keys.map((x) => `${String(x).slice(0, 20)}@0`).sort())
      starts.length = 0
      await room.clock.advance('1s')
      expect(starts.sort()).toEqual(keys.map((x) => `${String(x).slice(0, 20)}@1`).sort())
      await engine.stop()
      expect(room.errors).toEqual([])
    }
  })

  test('42 is the key "42", and a neighbour of a number that doubles cannot tell apart is another', async () => {
    const room = harness()
    const starts: string[] = []
    const work = task('work.keys', input<{ x: string | number }>(), {
      limits: [limit('gate', { rate: 1, per: '1h' }).by('x')],
      run: ({ x }) => void starts.push(`${typeof x} ${x}`),
    })
    const engine = engineOf(room, { tasks: [work] })
    await engine.start()
    for (const x of [42, '42', '9007199254740993', '9007199254740992']) await work.enqueue({ x })
    await room.clock.advance('1s')
    expect(starts.sort()).toEqual(['number 42', 'string 9007199254740992', 'string 9007199254740993'])
    await engine.stop({ within: 0 })
  })

  test('none at all is an error or a shared budget, as the limit says; the engine goes on', async () => {
    const room = harness()
    const starts: string[] = []
    const strict = limit('strict', { rate: 1, per: '1s', onMissingKey: 'fail' })
    const shared = limit('shared', { rate: 1, per: '1h', onMissingKey: 'shared' })
    const fails = task('work.fails', input<{ x?: Key | null | undefined }>(), {
      limits: [strict.by('x')],
      run: ({ x }) => void starts.push(`fails ${String(x)}`),
    })
    const shares = task('work.shares', input<{ x?: Key | null | undefined }>(), {
      limits: [shared.by('x')],
      run: () => void starts.push('shares'),
    })
    const engine = engineOf(room, { tasks: [fails, shares] })
    await engine.start()
    for (const x of ['', null, undefined])
      await expect(fails.enqueue({ x })).rejects.toMatchObject({ code: 'limit.key.missing' })
    for (const x of [{}, [], true, Number.NaN])
      await expect(fails.enqueue({ x: x as Key })).rejects.toMatchObject({ code: 'limit.key.invalid' })
    await fails.enqueue({ x: 'ok' })
    for (const x of ['', null, undefined]) await shares.enqueue({ x })
    await room.clock.advance('1s')
    expect(starts.sort()).toEqual(['fails ok', 'shares'])
    await engine.stop({ within: 0 })
  })
})
