import { describe, expect, test } from 'vitest'
import { laneKey, stripeOf } from '../../../src/jobs/lane.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

const STRIPES = 4
const KEYS = Array.from({ length: 12 }, (_, i) => `k${i}`)
const LATER_MS = 1000

/** The stripe of a fair key's lane. */
function stripe(key: string): number {
  return stripeOf(laneKey('q', [], key), STRIPES)
}

/** The keys of each stripe that has any, in their order. */
function byStripe(): string[][] {
  return Array.from({ length: STRIPES }, (_, n) => KEYS.filter((key) => stripe(key) === n)).filter(
    (keys) => keys.length > 0,
  )
}

/** Starts all that may start now, so many at a time; each ends before the next claim. */
async function drain(w: StoreHarness, slots: number, queues?: Readonly<Record<string, number>>): Promise<string[]> {
  const started: string[] = []
  for (;;) {
    const { jobs, nextWakeUs, nowUs } = await w.claim(queues ? { queues } : { slots })
    started.push(...jobs.map(({ task }) => task))
    await w.complete(...jobs.map(({ task }) => task))
    if (jobs.length === 0 && (nextWakeUs === null || nextWakeUs > nowUs)) return started
  }
}

/** The starts of some keys' jobs, whose names begin with their key and a dot. */
function of(started: readonly string[], keys: readonly string[]): string[] {
  return started.filter((name) => keys.includes(name.slice(0, name.indexOf('.'))))
}

/** A queue over stripes: what is strict in each, and what they share. */
export function stripes(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a queue has one stripe until it is given more, and then as many', async () => {
    const w = harness()
    await w.add('a')
    await w.store.stripeQueue('other', 64)
    const known = async (): Promise<Record<string, number>> =>
      Object.fromEntries((await w.store.queues()).map(({ name, stripes: n }) => [name, n]))
    expect(await known()).toEqual({ other: 64, q: 1 })
    await w.store.stripeQueue('q', 3)
    await w.store.stripeQueue('other', 1)
    expect(await known()).toEqual({ other: 1, q: 3 })
    expect(await w.start()).toEqual(['a'])
  })

  describe('order', () => {
    test('the keys are of several stripes, and no stripe has all of them', () => {
      expect(byStripe().length).toBeGreaterThan(1)
      expect(byStripe().some((keys) => keys.length > 1)).toBe(true)
    })

    test.each([1, 3, 100])('within a stripe lanes take turns, each in its order, %d slots', async (slots) => {
      const w = harness()
      await w.store.stripeQueue('q', STRIPES)
      for (let n = 1; n <= 3; n++) for (const key of KEYS) await w.add(`${key}.${n}`, { fairKey: key })
      const started = await drain(w, slots)
      expect(started).toHaveLength(3 * KEYS.length)
      for (const keys of byStripe())
        expect(of(started, keys)).toEqual([1, 2, 3].flatMap((n) => keys.map((key) => `${key}.${n}`)))
    })

    test('within a stripe the priority of first jobs decides, beside any work in others', async () => {
      const w = harness()
      await w.store.stripeQueue('q', STRIPES)
      for (const [i, key] of KEYS.entries())
        for (const priority of [i % 3, 5 + (i % 2)]) await w.add(`${key}.${priority}`, { fairKey: key, priority })
      const started = await drain(w, 1)
      for (const keys of byStripe()) {
        const priorities = of(started, keys).map((name) => Number(name.split('.')[1]))
        expect(priorities).toEqual(priorities.toSorted((a, b) => b - a))
      }
      expect(started).toHaveLength(2 * KEYS.length)
    })

    test('no lane is starved: with one slot, each starts within a round of turns over all stripes', async () => {
      const w = harness()
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) for (let n = 1; n <= 6; n++) await w.add(`${key}.${n}`, { fairKey: key })
      for (let n = 1; n <= 10; n++) await w.add(`plain.${n}`)
      const round = STRIPES * 2 * Math.max(...byStripe().map((keys) => keys.length))
      const started: string[] = []
      for (let n = 0; n < round; n++) {
        const names = await w.start(1)
        started.push(...names)
        await w.complete(...names)
      }
      expect(new Set(started.map((name) => name.slice(0, name.indexOf('.'))))).toEqual(new Set([...KEYS, 'plain']))
    })

    test('jobs without limits and without a fair key start in their order, beside lanes of all stripes', async () => {
      const w = harness()
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) await w.add(`${key}.1`, { fairKey: key })
      await w.add('plain.', {}, 20)
      const started = await drain(w, 4)
      expect(started).toHaveLength(20 + KEYS.length)
      expect(of(started, ['plain'])).toEqual(Array.from({ length: 20 }, (_, i) => `plain.${i + 1}`))
    })

    test('a longer name of a queue changes nothing, and other queues beside it keep their order', async () => {
      const w = harness()
      const long = 'a-queue-with-a-name-beyond-forty-characters'
      await w.store.stripeQueue(long, STRIPES)
      await w.add('plain', { queue: long })
      for (const key of KEYS) await w.add(`${key}.1`, { fairKey: key, queue: long })
      await w.add('other', { fairKey: 'x' }, 3)
      const started = await drain(w, 0, { [long]: 2, q: 1 })
      expect(started).toHaveLength(1 + KEYS.length + 3)
      expect(started.filter((name) => name.startsWith('other'))).toEqual(['other1', 'other2', 'other3'])
    })
  })

  describe('what stripes share', () => {
    test('a budget that lanes of all stripes need is never exceeded, and used at each of its instants', async () => {
      const w = harness()
      await w.define({ all: { rate: 5, per: '5s', burst: 5 }, own: { rate: 100, per: '1s' } })
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) await w.add(`${key}.1`, { limits: ['all', `own:${key}`] })
      expect(await drain(w, 3)).toHaveLength(5)
      for (let n = 1; n <= KEYS.length - 5; n++) {
        expect(await w.wake({ slots: 3 })).toBe(n * 1000)
        w.at(n * 1000)
        expect(await drain(w, 3)).toHaveLength(1)
      }
      expect(await w.wake()).toBeNull()
    })

    test('permits are counted over all stripes, and one that returns lets any of them start', async () => {
      const w = harness()
      await w.define({ all: { concurrency: 3 }, own: { concurrency: 1 } })
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) await w.add(`${key}.1`, { limits: ['all', `own:${key}`] })
      let active: string[] = []
      const seen: string[] = []
      while (seen.length < KEYS.length) {
        for (let tries = 0; tries <= STRIPES; tries++) active.push(...(await w.start(2)))
        expect(active).toHaveLength(Math.min(3, KEYS.length - seen.length))
        const [first, ...rest] = active
        seen.push(first!)
        await w.complete(first!)
        active = rest
      }
      expect(new Set(seen).size).toBe(KEYS.length)
    })

    test('a pause and the queue’s own limit hold for every stripe', async () => {
      const w = harness()
      await w.define({ ql: { window: 'sliding', max: 4, per: '1h', guard: 0 } })
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) await w.add(`${key}.1`, { fairKey: key })
      await w.store.pauseQueue('q', true)
      expect(await drain(w, 100)).toEqual([])
      await w.store.limitQueue('q', 'ql')
      await w.store.pauseQueue('q', false)
      expect(await drain(w, 100)).toHaveLength(4)
      expect(await w.wake()).toBe(3_600_000)
      await w.store.limitQueue('q', null)
      expect(await drain(w, 100)).toHaveLength(KEYS.length - 4)
    })

    test('a limit of each worker holds over its stripes', async () => {
      const w = harness()
      await w.define({ each: { rate: 3, per: '1h', scope: 'worker' } })
      await w.store.stripeQueue('q', STRIPES)
      for (const key of KEYS) await w.add(`${key}.1`, { limits: ['each'], fairKey: key })
      const other = await w.store.join(['q'], 1e15)
      const mine = (await w.claim()).jobs.length + (await w.claim()).jobs.length
      const all = await drain(w, 100)
      let theirs = 0
      for (let tries = 0; tries <= STRIPES; tries++) theirs += (await w.claim({ worker: other })).jobs.length
      expect([mine + all.length, theirs]).toEqual([3, 3])
    })
  })

  describe('another number of stripes on a queue at work', () => {
    test.each([
      [1, 4],
      [4, 1],
      [3, 2],
      [2, 64],
    ])(
      'from %d to %d: order within each key, lanes that wait and jobs that run stay as they are',
      async (before, after) => {
        const w = harness()
        await w.define({ slow: { rate: 1, per: '1s', burst: 1 } })
        await w.store.stripeQueue('q', before)
        for (const key of KEYS) {
          await w.add(`${key}.1`, { limits: [`slow:${key}`] })
          await w.add(`${key}.2`, { limits: [`slow:${key}`] })
        }
        const active: string[] = []
        for (let tries = 0; tries <= before; tries++) active.push(...(await w.start()))
        expect(new Set(active)).toEqual(new Set(KEYS.map((key) => `${key}.1`)))
        for (const key of KEYS) await w.add(`${key}-fair.1`, { fairKey: key })
        await w.store.stripeQueue('q', after)
        await w.complete(...active)
        for (const key of KEYS) await w.add(`${key}-fair.2`, { fairKey: key })
        const fair = await drain(w, 5)
        for (const key of KEYS) expect(of(fair, [`${key}-fair`])).toEqual([`${key}-fair.1`, `${key}-fair.2`])
        expect(fair).toHaveLength(2 * KEYS.length)
        expect(await w.wake()).toBe(LATER_MS)
        w.at(LATER_MS)
        expect(new Set(await drain(w, 5))).toEqual(new Set(KEYS.map((key) => `${key}.2`)))
        expect(await w.wake()).toBeNull()
      },
    )

    test('there and back, with claims and arrivals between, each job starts once', async () => {
      const w = harness()
      const started: string[] = []
      for (const [round, n] of [4, 2, 4, 1, 3, 4].entries()) {
        await w.store.stripeQueue('q', n)
        for (const key of KEYS) await w.add(`${key}.${round}`, { fairKey: key })
        const names = await w.start(5)
        started.push(...names)
        await w.complete(...names)
      }
      started.push(...(await drain(w, 100)))
      expect(started).toHaveLength(6 * KEYS.length)
      for (const key of KEYS) expect(of(started, [key])).toEqual([0, 1, 2, 3, 4, 5].map((round) => `${key}.${round}`))
    })
  })
}
