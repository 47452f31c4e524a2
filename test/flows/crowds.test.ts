// Many flows before one budget: order, deaths, live changes, odd keys, and a key that many start at once.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'
import { sized } from '../sized.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'
import { mortalStore } from './mortal-store.ts'

const numbered = input<{ n: number }>()
const WIDE = { queues: { default: { concurrency: 100 } } }
const DOORS = ['workflow', 'machine', 'graph'] as const
const many = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }))

describe.each(STORES)('crowds of flows on $name', (store) => {
  /** Each instant of the manual clock costs round trips. */
  const crowd = store.name === 'sqlite' ? sized(700, 5_000) : sized(400, 5_000)
  const untilS = store.name === 'sqlite' ? 30 : sized(13, 30)

  /** A flow of each door whose one step is limited. */
  function limited(
    door: (typeof DOORS)[number],
    w: FlowsHarness,
    pace: ReturnType<typeof limit>,
  ): Startable<{ n: number }, null> {
    const ran = (n: number): null => (w.note(`s${n}`), null)
    if (door === 'workflow')
      return workflow('waits', numbered, { run: ({ n }, flow) => flow.step('s', { limits: [pace] }, () => ran(n)) })
    if (door === 'machine')
      return machine('waits', {
        states: { s: numbered },
        first: 's',
        result: input<null>(),
        limits: { s: [pace] },
        run: { s: ({ n }, to) => to.done(ran(n)) },
      })
    return graph('waits', numbered)
      .step('s', { limits: [pace] }, ({ input: { n } }) => ran(n))
      .output(() => null)
  }

  test.each(DOORS)(
    'a process of a crowded %s dies, and the next one goes on in order, within the budget, while a sleep keeps its time',
    async (door) => {
      const w = new FlowsHarness(store)
      const pace = limit('pace', { rate: 20, per: '1s', burst: 20 })
      const code = () => [
        limited(door, w, pace),
        workflow('sleeps', numbered, {
          run: async (_input, flow) => {
            await flow.sleep('long', '60s')
            await flow.step('awake', () => w.note('awake'))
          },
        }),
      ]
      const { store: mortal, kill } = await mortalStore(w.url, w.clock, {
        when: 'before',
        call: 'any',
        fits: () => false,
      })
      const [waits, sleeps] = code()
      const victim = await w.start({ store: mortal, workflows: [waits!, sleeps!], lease: '2s', ...WIDE })
      await waits!.startMany(many(crowd))
      await w.clock.advance('1s')
      await sleeps!.start({ n: 0 })
      await w.clock.advance('4s')
      kill()
      await w.stop(victim)
      await w.clock.advance(8000 - w.at * 1000)
      const engine = await w.start({ workflows: code(), lease: '2s', ...WIDE })
      await w.clock.advance(untilS * 1000 - w.at * 1000)
      const starts = w.starts.filter(({ step }) => step !== 'awake')
      expect(starts.length).toBeGreaterThan(20 * (untilS - 10))
      for (const [i, { at }] of starts.entries()) expect(i + 1).toBeLessThanOrEqual(20 + 20 * at + 1e-3)
      const order = [...new Set(starts.map(({ step }) => Number(step.slice(1))))]
      if (store.name === 'sqlite') expect(order).toEqual(order.toSorted((a, b) => a - b))
      // The death interrupts a few, which are repeated; all others start once.
      expect(starts.length - order.length).toBeLessThanOrEqual(40)
      let cancelled = 0
      for (;;) {
        const running = await engine.flows.list({ workflow: 'waits', states: ['running'], limit: 1000 })
        if (running.length === 0) break
        for (const { id } of running) cancelled += (await engine.flows.cancel(id)) ? 1 : 0
      }
      expect(cancelled).toBeGreaterThanOrEqual(crowd - starts.length)
      await w.clock.advance((62 - untilS) * 1000)
      expect(w.of('awake')).toHaveLength(1)
      expect(Math.abs((w.of('awake')[0] ?? 0) - 61)).toBeLessThanOrEqual(1)
      expect(await engine.jobs.list({ states: ['available', 'pending', 'active', 'retryable', 'scheduled'] })).toEqual(
        [],
      )
    },
  )

  test.each(DOORS)('a key of a %s that two processes start 50 times at once has one flow', async (door) => {
    const w = new FlowsHarness(store)
    const pace = limit('pace', { rate: 20, per: '1s', burst: 20 })
    const [here, there] = [limited(door, w, pace), limited(door, w, pace)]
    const engine = w.create({ workflows: [here] })
    w.create({ workflows: [there] })
    const all = await Promise.all(many(50).map(({ n }) => (n % 2 === 0 ? here : there).start({ n: 1 }, { key: 'one' })))
    expect(new Set(all.map(({ id }) => id)).size).toBe(1)
    expect(all.filter(({ duplicate }) => duplicate)).toHaveLength(49)
    await engine.start()
    await w.clock.advance('1s')
    expect(w.of('s1')).toHaveLength(1)
    expect(await engine.flows.list({ workflow: 'waits' })).toHaveLength(1)
  })

  test.each(DOORS)('a limit that a %s waits for is raised, lowered, paused and resumed while it runs', async (door) => {
    const w = new FlowsHarness(store)
    const pace = limit('pace', { rate: 10, per: '1m', burst: 1 })
    const waits = limited(door, w, pace)
    const engine = await w.start({ workflows: [waits], limits: [pace], ...WIDE })
    await waits.startMany(many(41))
    await w.clock.advance('1s')
    expect(w.starts).toHaveLength(1)
    await engine.limits.override('pace', undefined, { rate: 100, per: '1s', burst: 100 })
    await w.clock.advance('2s')
    expect(w.starts).toHaveLength(41)
    await engine.limits.override('pace', undefined, { rate: 1, per: '1s', burst: 1 })
    await waits.startMany(many(5))
    await w.clock.advance('2s')
    const soon = w.starts.length
    expect(soon).toBeLessThanOrEqual(41 + 4)
    await engine.limits.pause('pace')
    await w.clock.advance('1m')
    expect(w.starts).toHaveLength(soon)
    await engine.limits.resume('pace')
    await w.clock.advance('10s')
    expect(w.starts).toHaveLength(46)
  })

  test('keys with separators and of any script are buckets of their own, and others go on', async () => {
    const w = new FlowsHarness(store)
    const keys = [
      'a:b',
      'a',
      'b:c',
      'ünï',
      'a@b.com',
      'x.',
      '_global',
      '1000000',
      'true',
      'k'.repeat(4096),
      'a/b',
      '#1',
    ]
    const one = limit('one:a', { rate: 1, per: '1m', burst: 1 })
    const other = limit('one', { rate: 1, per: '1m', burst: 1 })
    const keyed = machine('keyed', {
      states: { a: numbered, b: numbered },
      first: 'a',
      result: input<null>(),
      run: {
        a: ({ n }, to) => to.next('b', { n }, { limits: [(n < 0 ? other : one).key(keys[Math.abs(n)] ?? '')] }),
        b: ({ n }, to) => (w.note(`b${n}`), to.done(null)),
      },
    })
    const engine = await w.start({ workflows: [keyed], ...WIDE })
    const inputs = [...keys.map((_, n) => ({ n })), { n: -1 }]
    const twice = await keyed.startMany([...inputs, ...inputs])
    const empty = await keyed.start({ n: 99 })
    await w.clock.advance('1s')
    for (const { n } of inputs) expect(w.of(`b${n}`)).toEqual([0])
    await w.clock.advance('1m')
    for (const { n } of inputs) expect(w.of(`b${n}`)).toEqual([0, 60])
    // A key must not be empty: that step fails after its attempts, and no other.
    await expect(empty.result({ timeout: 0 })).rejects.toMatchObject({ code: 'flow.failed' })
    expect(twice).toHaveLength(2 * inputs.length)
    expect(await engine.jobs.list({ states: ['available', 'retryable', 'pending'] })).toEqual([])
  })
})
