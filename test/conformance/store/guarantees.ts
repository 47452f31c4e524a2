import { describe, expect, test } from 'vitest'
import { limit, seededRandom } from '../../../src/exports/index.ts'
import { useOf } from '../../../src/policy/limits/define.ts'
import type { CommonLimit, Policy } from '../../../src/policy/limits/policy.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

/** A common limit, and one with a guaranteed share of it: `c`, and `t` with keys. */
function shares(common: Policy, own: Policy, of: Omit<CommonLimit, 'limit'>): ReturnType<typeof limit>[] {
  const c = limit('c', common)
  return [c, limit('t', { ...own, of: { limit: c, ...of } })]
}

async function define(w: StoreHarness, limits: readonly ReturnType<typeof limit>[]): Promise<void> {
  await w.store.define(limits.map((each) => ({ name: each.name, policy: useOf(each).policy, version: 0 })))
}

/** Jobs of `c` alone, which borrow. */
const BORROWS = { limits: ['c'] }
/** Jobs of a key of `t`, which pay to `c` too. */
const of = (key: string, weight = 1) => ({ limits: [`t:${key}*${weight}`, `c*${weight}`] })

/** Guaranteed shares of a common limit. */
export function guarantees(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  describe('of a rate', () => {
    /** One start per 10 ms without a reserve, and two per second for each key. */
    const strict = shares({ rate: 100, per: '1s', burst: 1 }, { rate: 50, per: '1s' }, { atLeast: '1 per 500ms' })

    test('goes before a backlog of higher priority, once per interval', async () => {
      const w = harness()
      await define(w, strict)
      await w.add('a', { ...BORROWS, priority: 9 }, 20)
      expect(await w.start()).toEqual(['a1'])
      await w.add('b', of('b'), 3)
      expect(await w.wake()).toBe(10)
      w.at(10)
      expect(await w.start()).toEqual(['b1'])
      w.at(20)
      expect(await w.start()).toEqual(['a2'])
      w.at(500)
      expect(await w.start()).toEqual(['a3'])
      // b2 was out of its guarantee until 510 ms.
      w.at(509)
      expect(await w.wake()).toBe(510)
      w.at(510)
      expect(await w.start()).toEqual(['b2'])
      w.at(520)
      expect(await w.start()).toEqual(['a4'])
    })

    test('is not too late for a maxWait while the guarantee lets it start in time', async () => {
      const w = harness()
      const own: Policy = { every: '100ms', maxWait: '1s' }
      await define(w, shares({ rate: 10, per: '10s' }, own, { atLeast: { rate: 5, per: '10s' }, keys: 1 }))
      await w.add('a', BORROWS, 20)
      expect(await w.start()).toHaveLength(5)
      await w.add('b', of('b'), 5)
      const started: string[] = []
      for (let ms = 0; ms <= 400; ms += 100) {
        w.at(ms)
        started.push(...(await w.start()))
      }
      expect(started).toEqual(['b1', 'b2', 'b3', 'b4', 'b5'])
    })

    test('counts for lanes that waited beside others before it was given', async () => {
      const w = harness()
      const b = limit('b', { rate: 1, per: '100ms' })
      const k = limit('k', { rate: 99, per: '1s' })
      const own = { rate: 99, per: '1ms' } as const
      const [c, given] = shares({ rate: 1, per: '1s' }, own, { atLeast: '1 per 2s' }) as [typeof b, typeof b]
      await define(w, [b, c, k, limit('t', own)])
      await w.add('x', BORROWS, 2)
      expect(await w.start()).toEqual(['x1'])
      await w.pause('b')
      const lanes = (name: string, more: readonly string[]) =>
        Array.from({ length: 40 }, (_, i) => w.job(`${name}${i}`, { limits: ['b', 'c', `k:${name}${i}`, ...more] }))
      await w.store.enqueue([...lanes('borrows', []), ...lanes('of', ['t:a'])])
      expect(await w.wake()).toBe(1000)
      await w.resume('b')
      await w.store.define([{ name: 't', policy: useOf(given).policy, version: 1 }])
      const started: string[] = []
      for (let ms = 100; ms <= 6000; ms += 100) {
        w.at(ms)
        started.push(...(await w.start()))
      }
      expect(started).toEqual(['of0', 'x2', 'of1', 'borrows0', 'of2', 'borrows1'])
    })

    test('puts two lanes in some order where the guarantee of each is before the other', async () => {
      const w = harness()
      const pair = (n: number): ReturnType<typeof limit>[] => {
        const common = limit(`c${n}`, { rate: 10, per: '1s', burst: 4 })
        const of = { limit: common, atLeast: '1 per 10s' }
        return [common, limit(`t${n}`, { rate: 100, per: '1s', of })]
      }
      await define(w, [...pair(1), ...pair(2)])
      const both = (one: string, other: string) => ({ limits: [`t1:${one}`, 'c1', `t2:${other}`, 'c2'] })
      await w.add('a', both('a', 'x'))
      await w.add('b', both('y', 'b'))
      expect((await w.start()).toSorted()).toEqual(['a', 'b'])
      // The first has had its guarantee in c1, the other in c2. Both limits are full, and leave their reserve.
      w.at(1000)
      await w.add('d', both('a', 'v'))
      await w.add('e', both('u', 'b'))
      expect((await w.start()).toSorted()).toEqual(['d', 'e'])
    })

    test('goes before others within their guarantee by priority, also before any of them waits', async () => {
      const w = harness()
      await define(w, shares({ rate: 10, per: '1s', burst: 8 }, { rate: 10, per: '1s' }, { atLeast: '2 per 1s' }))
      await w.add('a', { ...BORROWS, priority: 9 })
      await w.add('b', of('b'))
      await w.add('d', { ...of('d'), priority: 5 }, 2)
      expect(await w.start({ slots: 2 })).toEqual(['d1', 'd2'])
      expect(await w.start({ slots: 2 })).toEqual(['b', 'a'])
    })

    test('goes before a backlog at the instant at which another limit lets it go', async () => {
      const w = harness()
      await define(w, strict)
      await w.define({ x: { every: '20ms' } })
      await w.add('x', { limits: ['x'] })
      await w.add('a', { ...BORROWS, priority: 9 }, 9)
      expect((await w.start()).sort()).toEqual(['a1', 'x'])
      await w.add('b', { limits: ['t:b', 'c', 'x'] })
      expect(await w.start()).toEqual([])
      expect((await w.explain('b')).waitsOn).toEqual({ limit: 'x', key: '' })
      w.at(10)
      expect(await w.start()).toEqual(['a2'])
      w.at(20)
      expect(await w.start()).toEqual(['b'])
    })

    test('is not used by a start beyond the guaranteed permits, which borrows', async () => {
      const w = harness()
      const common: Policy = { rate: 10, per: '1s', burst: 2, concurrency: 9 }
      await define(w, shares(common, { concurrency: 9 }, { atLeast: { every: '150ms', concurrency: 1 } }))
      await w.add('b', of('b'), 2)
      expect(await w.start({ slots: 1 })).toEqual(['b1'])
      w.at(200)
      expect(await w.start()).toEqual(['b2'])
      await w.complete('b1', 'b2')
      await w.add('a', { ...BORROWS, priority: 9 }, 9)
      await w.add('late', of('b'))
      expect(await w.start({ slots: 1 })).toEqual(['late'])
    })

    test('wakes a claim at its own instant while its limit is closed for others', async () => {
      const w = harness()
      await define(
        w,
        shares({ rate: 10, per: '1s', burst: 4 }, { rate: 10, per: '1s' }, { atLeast: '4 per 1s', keys: 2 }),
      )
      await w.add('a', { ...BORROWS, priority: 9 }, 50)
      // Half of the burst is kept for guaranteed starts.
      expect(await w.start()).toEqual(['a1', 'a2'])
      await w.add('b', of('b'), 1)
      expect(await w.start()).toEqual(['b1'])
      const story: string[] = []
      for (let ms = 0; ms <= 2000; ms += 50) {
        w.at(ms)
        story.push(...(await w.start()))
      }
      expect(story.length).toBeLessThanOrEqual(21)
      expect(story.length).toBeGreaterThanOrEqual(19)
      expect(new Set(story.map((name) => name[0]))).toEqual(new Set(['a']))
    })

    test('wakes a claim at its own instant, also once no other of its key waits for its limit', async () => {
      const w = harness()
      const common: Policy = { window: 'sliding', max: 4, per: '1s', guard: 0 }
      await define(w, shares(common, { rate: 2, per: '1s', burst: 3 }, { atLeast: '1 per 600ms' }))
      await w.define({ free: { concurrency: 100 } })
      await w.add('b', of('b'))
      expect(await w.start()).toEqual(['b'])
      await w.add('heavy', { limits: ['c*4'], priority: 9 })
      await w.add('late', of('b'))
      await w.add('large', { limits: ['free', 't:b*3', 'c'] })
      expect(await w.start()).toEqual([])
      await w.cancel('large')
      await w.add('small', { limits: ['free', 't:b', 'c'], priority: 10 })
      expect(await w.start()).toEqual(['small'])
      expect(await w.wake()).toBe(600)
      w.at(600)
      expect(await w.start()).toEqual(['late'])
    })

    test.each<[string, Policy, Policy, CommonLimit['atLeast']]>([
      [
        'a sliding window',
        { window: 'sliding', max: 2, per: '20ms', guard: 0 },
        { rate: 50, per: '1s' },
        '2/s burst 1',
      ],
      ['a spacing', { every: '10ms' }, { rate: 50, per: '1s' }, { every: '500ms' }],
      ['a rate, by a sliding window', '1 per 10ms', { window: 'sliding', max: 9, per: '1s' }, '2/s burst 1'],
      ['a rate, by a spacing', '1 per 10ms', { every: '20ms' }, { every: '500ms' }],
      ['a rate, by permits', '1 per 10ms', { concurrency: 100 }, { every: '500ms' }],
    ] as [string, Policy, Policy, CommonLimit['atLeast']][])(
      'goes before a backlog in %s, at its own pace',
      async (_name, common, own, atLeast) => {
        const w = harness()
        await define(w, shares(common, own, { atLeast }))
        await w.add('a', { ...BORROWS, priority: 9 }, 300)
        await w.start()
        await w.add('b', of('b'), 4)
        const starts: [string, number][] = []
        for (let ms = 0; ms <= 1600; ms += 10) {
          w.at(ms)
          for (const name of await w.start()) starts.push([name, ms])
        }
        const theirs = starts.filter(([name]) => name.startsWith('b')).map(([, ms]) => ms)
        expect(theirs).toHaveLength(4)
        for (const [i, ms] of theirs.entries()) {
          expect(ms).toBeGreaterThanOrEqual(i * 500)
          expect(ms).toBeLessThanOrEqual(i * 520 + 20)
        }
        expect(starts.length).toBeGreaterThanOrEqual(155)
      },
    )

    test('lends what it does not use, and a borrower waits in its turn', async () => {
      const w = harness()
      await define(w, strict)
      await w.add('b', of('b'), 5)
      await w.add('d', of('d'), 5)
      const story: string[] = []
      for (let ms = 0; ms < 100; ms += 10) {
        w.at(ms)
        story.push(...(await w.start()))
      }
      expect(story).toEqual(['b1', 'd1', 'b2', 'd2', 'b3', 'd3', 'b4', 'd4', 'b5', 'd5'])
    })

    test('begins for a job that must leave headroom as early as for any other', async () => {
      const w = harness()
      const own: Policy = { window: 'sliding', max: 3, per: '50ms', guard: 0, headroom: { units: 1, priority: 5 } }
      await define(w, shares({ rate: 1, per: '1s', burst: 6 }, own, { atLeast: { rate: 1, per: '4s', burst: 2 } }))
      await w.add('a', { ...BORROWS, priority: 9 }, 9)
      expect(await w.start()).toEqual(['a1', 'a2', 'a3'])
      await w.add('heavy', of('b', 2))
      expect(await w.start()).toEqual(['heavy'])
      await w.add('late', of('b'))
      expect(await w.start()).toEqual([])
      w.at(3000)
      expect(await w.start()).toEqual(['a4'])
      expect(await w.wake()).toBe(4000)
      w.at(4000)
      expect(await w.start()).toEqual(['late'])
      w.at(5000)
      expect(await w.start()).toEqual(['a5'])
    })

    test('holds for a job of several units', async () => {
      const w = harness()
      const limits = shares(
        { rate: 100, per: '1s', burst: 10 },
        { rate: 50, per: '1s' },
        { atLeast: '5 per 1s', keys: 1 },
      )
      await define(w, limits)
      await w.add('a', { ...BORROWS, priority: 9 }, 99)
      expect(await w.start()).toHaveLength(5)
      await w.add('b', of('b', 5))
      expect(await w.start()).toEqual(['b'])
      await w.add('e', of('b', 5))
      w.at(1000)
      expect((await w.start())[0]).toBe('e')
    })

    test('holds for a job that has two of them, while one of them is left', async () => {
      const w = harness()
      const [c, t] = strict as [ReturnType<typeof limit>, ReturnType<typeof limit>]
      const u = limit('u', { rate: 50, per: '1s', of: { limit: c, atLeast: '1 per 500ms' } })
      await define(w, [c, t, u])
      const both = { limits: ['t:b', 'u:b', 'c'] }
      await w.add('a', { ...BORROWS, priority: 9 }, 100)
      expect(await w.start()).toEqual(['a1'])
      await w.add('t', of('b'))
      expect(await w.start()).toEqual([])
      w.at(10)
      expect(await w.start()).toEqual(['t'])
      await w.add('b', both, 2)
      expect(await w.start()).toEqual([])
      expect((await w.explain('b1')).guarantee).toEqual({ limit: 'u', key: 'b', fromUs: w.us(10) })
      w.at(20)
      expect(await w.start()).toEqual(['b1'])
      expect((await w.explain('b2')).guarantee).toEqual({ limit: 't', key: 'b', fromUs: w.us(510) })
      for (let ms = 30; ms < 510; ms += 10) {
        w.at(ms)
        expect(await w.start()).toEqual([`a${ms / 10 - 1}`])
      }
      expect(await w.wake()).toBe(510)
      w.at(510)
      expect(await w.start()).toEqual(['b2'])
    })

    test.each<[string, number]>([
      ['that waits', 0],
      ['that comes as they return', 1000],
    ])('takes all units that return at one instant, for a key %s', async (_, atMs) => {
      const w = harness()
      const common: Policy = { window: 'sliding', max: 4, per: '1s', guard: 0 }
      await define(w, shares(common, { rate: 50, per: '1s' }, { atLeast: '4 per 1s' }))
      await w.add('a', { ...BORROWS, priority: 9 }, 8)
      expect(await w.start()).toEqual(['a1', 'a2', 'a3', 'a4'])
      w.at(atMs)
      await w.add('b', of('b'), 4)
      if (atMs === 0) expect(await w.start()).toEqual([])
      w.at(1000)
      expect(await w.start()).toEqual(['b1', 'b2', 'b3', 'b4'])
    })

    /** A used-up common budget; for it wait a start that leaves its key without a share, the same key, and another one. */
    async function leftWithout(): Promise<ReturnType<typeof harness>> {
      const w = harness()
      const atLeast = { rate: 2, per: '1s', burst: 2 } as const
      const many = limit('many', { concurrency: 100 })
      await define(w, [...shares({ rate: 100, per: '1s', burst: 2 }, { rate: 50, per: '1s' }, { atLeast }), many])
      await w.add('y', of('y', 2))
      expect(await w.start()).toEqual(['y'])
      await w.add('first', { ...of('a'), priority: 9 })
      await w.add('heavy', { limits: [...of('a', 2).limits, 'many'], priority: 5 })
      await w.add('b', of('b'))
      return w
    }

    test('lets no lane go first that another start of its key has left without', async () => {
      const w = await leftWithout()
      const story: [number, string][] = []
      for (let ms = 0; ms <= 100; ms += 10) {
        w.at(ms)
        for (const name of await w.start()) story.push([ms, name])
      }
      expect(story).toEqual([
        [10, 'first'],
        [20, 'b'],
        [40, 'heavy'],
      ])
    })

    test('wakes a claim for the next in it, where one start used up a slot and what its key had left', async () => {
      const w = await leftWithout()
      expect(await w.start()).toEqual([])
      w.at(10)
      expect(await w.start(1)).toEqual(['first'])
      expect(await w.wake()).toBe(20)
      w.at(20)
      expect(await w.start()).toEqual(['b'])
    })

    test('follows the priority of a job that joins a lane which waits within it', async () => {
      const w = harness()
      const atLeast = { rate: 2, per: '1s', burst: 2 } as const
      await define(w, shares({ rate: 100, per: '1s', burst: 2 }, { rate: 50, per: '1s' }, { atLeast }))
      await w.add('y', of('y', 2))
      expect(await w.start()).toEqual(['y'])
      await w.add('low', of('b'))
      await w.add('heavy', { ...of('d', 2), priority: 5 })
      expect(await w.start()).toEqual([])
      await w.add('high', { ...of('b'), priority: 9 })
      w.at(10)
      expect(await w.start()).toEqual(['high'])
    })

    test('is not exceeded by what it guarantees: the common limit stays the bound', async () => {
      const w = harness()
      await define(
        w,
        shares(
          { rate: 10, per: '1s', burst: 2 },
          { rate: 9, per: '1s', burst: 2 },
          { atLeast: '9 per 1s burst 2', overcommit: 'scale' },
        ),
      )
      for (const key of ['b', 'd', 'e']) await w.add(key, of(key), 20)
      const starts: [string, number][] = []
      for (let ms = 0; ms <= 3000; ms += 20) {
        w.at(ms)
        for (const name of await w.start()) starts.push([name, ms])
      }
      expect(starts.length).toBeLessThanOrEqual(32)
      expect(starts.length).toBeGreaterThanOrEqual(31)
      const each = ['b', 'd', 'e'].map((key) => starts.filter(([name]) => name.startsWith(key)).length)
      expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1)
    })

    test('is kept beside another limit that many lanes share', async () => {
      const w = harness()
      await define(w, strict)
      await w.define({ x: { rate: 1000, per: '1s', burst: 1 } })
      for (let i = 0; i < 20; i++) await w.add(`a${i}-`, { limits: ['c', 'x', `k:${i}`], priority: 5 }, 3)
      await w.define({ k: { rate: 99, per: '1s' } })
      expect(await w.start()).toHaveLength(1)
      await w.add('b', { limits: ['t:b', 'c', 'x'] })
      for (let ms = 1; ms <= 10; ms++) {
        w.at(ms)
        await w.start()
      }
      expect(await w.states('b')).toEqual(['active'])
    })

    test('is woken for a queue that another worker serves', async () => {
      const w = harness()
      await define(w, strict)
      const other = await w.store.join(['r'], 1e15)
      await w.add('a', { ...BORROWS, priority: 9 }, 200)
      expect(await w.start()).toEqual(['a1'])
      await w.add('b', { ...of('b'), queue: 'r' }, 2)
      w.at(10)
      expect(await w.start({ queue: 'r', worker: other })).toEqual(['b1'])
      for (let ms = 20; ms < 510; ms += 10) {
        w.at(ms)
        expect(await w.start({ queue: 'r', worker: other })).toEqual([])
        expect(await w.start()).toHaveLength(1)
      }
      w.at(510)
      // The claim of the other queue sees that it may not take this start.
      expect(await w.start()).toEqual([])
      expect(await w.start({ queue: 'r', worker: other })).toEqual(['b2'])
    })
  })

  test.each(backend.part === undefined ? [1, 2, 3, 4, 5, 6] : [1, 2])(
    'of random arrivals within it starts each of them in time, and the common limit is used up and never exceeded, seed %i',
    async (seed) => {
      const w = harness()
      const source = seededRandom(seed)
      const random = (): number => source.next()
      const burst = random() < 0.5 ? 1 : 10
      const tenants = 2 + Math.floor(random() * 5)
      const own = { rate: 100, per: '1s' } as const
      await define(w, shares({ rate: 100, per: '1s', burst }, own, { atLeast: '10/s burst 1', keys: tenants }))
      await w.add('a', { ...BORROWS, priority: 9 }, 400)
      const arrivals = new Map<string, number>()
      const nextMs = Array.from({ length: tenants }, () => Math.floor(random() * 100))
      const starts: number[] = []
      let late = 0
      for (let ms = 0; ms <= 1000; ms += 10) {
        w.at(ms)
        for (const [tenant, dueMs] of nextMs.entries()) {
          if (dueMs > ms) continue
          const name = `t${tenant}-${ms}`
          await w.add(name, of(`${tenant}`))
          arrivals.set(name, ms)
          nextMs[tenant] = ms + 100 + Math.floor(random() ** 3 * 300)
        }
        for (const name of await w.start()) {
          starts.push(ms)
          late = Math.max(late, ms - (arrivals.get(name) ?? ms))
        }
      }
      // (n − r) / R, on the grid of these claims.
      expect(late).toBeLessThanOrEqual((tenants - Math.min(tenants, Math.floor(burst / 2))) * 10 + 10)
      for (const [i, fromMs] of starts.entries())
        for (const [j, atMs] of starts.slice(i).entries())
          expect(j + 1).toBeLessThanOrEqual(burst + (atMs - fromMs) / 10)
      expect(starts.length).toBeGreaterThanOrEqual(100)
    },
  )

  describe('of permits', () => {
    const permits = shares({ concurrency: 2 }, { concurrency: 2 }, { atLeast: { concurrency: 1 } })

    test('is given the next permit that returns, before all others', async () => {
      const w = harness()
      await define(w, permits)
      await w.add('a', { ...BORROWS, priority: 9 }, 6)
      expect(await w.start()).toEqual(['a1', 'a2'])
      await w.add('b', of('b'), 2)
      expect(await w.wake()).toBeNull()
      await w.complete('a1')
      expect(await w.start()).toEqual(['b1'])
      await w.complete('a2')
      expect(await w.start()).toEqual(['a3'])
      await w.complete('b1')
      // Its own permit is back, and so is its guarantee.
      expect(await w.start()).toEqual(['b2'])
    })

    test('lends its permits while it is quiet', async () => {
      const w = harness()
      await define(w, permits)
      await w.add('b', of('b'), 3)
      expect(await w.start()).toEqual(['b1', 'b2'])
    })
  })
}
