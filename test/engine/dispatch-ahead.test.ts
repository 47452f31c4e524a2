import { describe, expect, it } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { type Duration, input, limit, type Policy, RateLimited, type Sluice, task } from '../../src/exports/index.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { everyStore } from '../stores.ts'
import { countClaims, createEngineHarness } from './engine-harness.ts'

const STRICT: Policy = { rate: 100, per: '1s', burst: 1 }

/** A store call that waits before it runs, or with its answer, until it is let go. */
async function halt(engine: Sluice, verb: keyof Store, when: 'before' | 'after' = 'before'): Promise<() => void> {
  const { store } = await internalsOf(engine).open()
  const calls = store as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>
  const original = calls[verb]!.bind(store)
  const gate = Promise.withResolvers<void>()
  calls[verb] = async (...args) => {
    if (when === 'before') await gate.promise
    const answer = await original(...args)
    if (when === 'after') await gate.promise
    return answer
  }
  return () => {
    calls[verb] = original
    gate.resolve()
  }
}

describe.each(await everyStore('held starts while a store call runs'))(
  'held starts while a store call runs, on $name',
  ({ create }) => {
    async function begin(
      work: (key: string) => unknown = () => undefined,
      concurrency = 20,
      ahead: Duration = '20ms',
    ): Promise<{
      readonly clock: ReturnType<typeof createEngineHarness>['clock']
      readonly engine: Sluice
      readonly starts: string[]
      readonly add: (key: string, count: number) => Promise<void>
      readonly active: () => Promise<number>
    }> {
      const { clock, start } = createEngineHarness()
      const starts: string[] = []
      const keyed = task('keyed', input<string>(), {
        limits: [limit('r', STRICT).by((key: string) => key)],
        run: async (key) => {
          starts.push(`${key} ${clock.monotonicUs() / 1000 - fromMs}`)
          await work(key)
        },
      })
      const engine = await start({
        tasks: [keyed],
        store: create(),
        ahead,
        limits: [limit('other', STRICT)],
        queues: { default: { concurrency } },
      })
      await clock.advance(0)
      const fromMs = clock.monotonicUs() / 1000
      return {
        clock,
        engine,
        starts,
        add: async (key, count) => {
          await keyed.enqueueMany(Array.from({ length: count }, () => key))
          await clock.advance(0)
        },
        active: async () => (await engine.jobs.list({ states: ['active'] })).length,
      }
    }

    it('are none that a change of limits met on its way, and come again after it', async () => {
      const { clock, engine, starts, add, active } = await begin()
      await add('a', 6)
      const letGo = await halt(engine, 'penalize')
      const change = engine.limits.penalize('other', undefined, '1h')
      await clock.advance('25ms')
      expect([starts, await active()]).toEqual([['a 0', 'a 10', 'a 20'], 0])
      await clock.advance('6ms')
      expect([starts.at(-1), await active()]).toEqual(['a 30', 0])
      letGo()
      await change
      await clock.advance(0)
      expect(await active()).toBe(2)
    })

    it('come again after a change that failed', async () => {
      const { clock, engine, starts, add, active } = await begin()
      await add('a', 6)
      const { store } = await internalsOf(engine).open()
      store.penalize = () => Promise.reject(new Error('no room on the disk'))
      await expect(engine.limits.penalize('r', 'a', '1h')).rejects.toThrow('no room')
      await clock.advance(0)
      expect([starts, await active()]).toEqual([['a 0'], 2])
    })

    it('begin before a claim that would keep them from it', async () => {
      const { clock, engine, starts, add } = await begin(undefined, 20, '25ms')
      const { store } = await internalsOf(engine).open()
      const claim = store.claim.bind(store)
      const claimedMs: number[] = []
      const fromMs = clock.monotonicUs() / 1000
      store.claim = async (request) => {
        claimedMs.push(clock.monotonicUs() / 1000 - fromMs)
        const answer = await claim(request)
        await clock.sleep('6ms')
        return answer
      }
      await add('a', 12)
      await clock.advance('100ms')
      const begunMs = starts.map((start) => Number(start.split(' ')[1]))
      const before = claimedMs.filter((ms) => begunMs.some((begun) => begun > ms && begun < ms + 6))
      expect(before.length > 0).toBe(store.claimsInThread !== true)
    })

    it('of a limit that is about to change begin no more, though a claim runs', async () => {
      const { clock, engine, starts, add } = await begin()
      await add('a', 3)
      await clock.advance('5ms')
      const letGo = await halt(engine, 'claim')
      await add('b', 1)
      const change = engine.limits.pause('r', 'a')
      await clock.advance('30ms')
      expect(starts).toEqual(['a 0'])
      letGo()
      await change
    })

    it('that a running claim brings go back before the change is made', async () => {
      const { clock, engine, starts, add, active } = await begin()
      const letGo = await halt(engine, 'claim', 'after')
      await add('a', 4)
      const { store } = await internalsOf(engine).open()
      const override = store.override.bind(store)
      let held = -1
      store.override = async (request) => {
        held = await active()
        return override(request)
      }
      const change = engine.limits.pause('r', 'a')
      await clock.advance('5ms')
      letGo()
      await change
      await clock.advance('50ms')
      // Only what could start at the clock of the claim.
      expect([held, starts]).toEqual([0, ['a 5']])
    })

    it('of a budget that a handler has found closed begin no more, while that is written', async () => {
      const { clock, engine, starts, add, active } = await begin(async (key) => {
        if (key === 'b') return
        await clock.sleep('5ms')
        throw new RateLimited({ retryAfter: '1h' })
      })
      await add('a', 3)
      await add('b', 3)
      const letGo = await halt(engine, 'settle')
      await clock.advance('30ms')
      expect(starts).toEqual(['a 0', 'b 0', 'b 10', 'b 20'])
      letGo()
      await clock.advance('10ms')
      expect([starts.length, await active()]).toEqual([4, 0])
    })

    it('are followed by others as soon as one has begun, when they were as many as may be held', async () => {
      const { clock, add, active, starts } = await begin(() => clock.sleep('1h'), 4)
      await add('a', 9)
      await clock.advance('9ms')
      expect([starts.length, await active()]).toEqual([1, 3])
      await clock.advance('1ms')
      expect([starts.length, await active()]).toEqual([2, 4])
    })

    it('cause no claim when they begin, if there was room for more', async () => {
      const { clock, engine, add, starts } = await begin(() => clock.sleep('1h'))
      await add('a', 3)
      const claims = await countClaims(engine)
      await clock.advance('30ms')
      expect([starts.length, claims()]).toEqual([3, 0])
    })

    it('are followed by others in time, though more of them begin while a claim is away', async () => {
      const { clock, engine, add, starts } = await begin(undefined, 20, '500ms')
      const { store } = await internalsOf(engine).open()
      const claim = store.claim.bind(store)
      store.claim = async (request) => {
        const claimed = await claim(request)
        await clock.sleep('35ms')
        return claimed
      }
      await add('a', 120)
      await clock.advance('1100ms')
      // The first answer was late, and each start makes up for a tenth of its distance.
      expect(starts.slice(45, 110)).toEqual(Array.from({ length: 65 }, (_, i) => `a ${10 * (i + 45)}`))
    })

    it('of many are followed by others once half of them have begun', async () => {
      const { clock, engine, add, starts } = await begin(() => clock.sleep('1h'), 100, '1s')
      await add('a', 90)
      const claims = await countClaims(engine)
      await clock.advance('240ms')
      expect([starts.length, claims()]).toEqual([25, 0])
      await clock.advance('10ms')
      expect([starts.length, claims()]).toEqual([26, 1])
      await clock.advance('500ms')
      expect(starts).toEqual(Array.from({ length: 76 }, (_, i) => `a ${10 * i}`))
    })
  },
)
