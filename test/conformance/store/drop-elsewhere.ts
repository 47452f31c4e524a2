import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

/** Claims until nothing more is to be done now; the names of the rejected, with the limit that each was dropped by. */
async function dropped(w: StoreHarness, slots = 100): Promise<string[]> {
  const names: string[] = []
  for (;;) {
    const claim = await w.claim({ slots })
    names.push(...claim.rejected.map((job) => `${job.task} by ${job.limit} ${job.reason}`))
    if (claim.nextWakeUs === null || claim.nextWakeUs > claim.nowUs) return names.sort()
  }
}

const by = (name: string, from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => `${name}${from + i} by d dropped`).sort()

const D = { rate: 4, per: '10m', burst: 4, onLimit: 'drop' } as const
const W = { rate: 1, per: '1h', burst: 1 } as const

/** A limit that drops ends jobs that wait for another one, once it is out of budget for them. */
export function dropElsewhere(backend: StoreBackend): void {
  describe('the last of the budget goes', () => spent(backend))
  describe('the budget is taken away', () => taken(backend))
}

/** One job of each key has started; the next waits for its key's own budget, and the limit that drops has units left. */
async function waiting(w: StoreHarness, ...keys: string[]): Promise<void> {
  await w.define({ d: D, w: W })
  for (const key of keys) {
    await w.add(`first-${key}`, { limits: [`w:${key}`] })
    await w.start()
    await w.add(key, { limits: ['d', `w:${key}`] })
  }
  expect(await dropped(w)).toEqual([])
}

function spent(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('to a job of another lane: all that wait elsewhere are dropped in that claim', async () => {
    const w = harness()
    await waiting(w, 'a', 'b')
    await w.add('rest', { limits: ['d'] }, 4)
    const { jobs, rejected } = await w.claim()
    expect(jobs).toHaveLength(4)
    expect(rejected.map(({ task, limit, reason }) => `${task} by ${limit} ${reason}`).sort()).toEqual([
      'a by d dropped',
      'b by d dropped',
    ])
    expect(await w.states('a', 'b')).toEqual(['discarded', 'discarded'])
    expect(await w.bucket('w', 'a')).toMatchObject({ waiting: 0 })
    w.at(3_600_000)
    await w.add('next', { limits: ['w:a'] })
    expect(await w.start()).toEqual(['next'])
  })

  test('while every slot is taken by those starts', async () => {
    const w = harness()
    await waiting(w, 'a')
    await w.add('rest', { limits: ['d'] }, 4)
    const { jobs, rejected } = await w.claim({ slots: 4 })
    expect([jobs.length, rejected.map((job) => job.task)]).toEqual([4, ['a']])
  })

  test('all of a lane, however deep, and of many lanes', async () => {
    const w = harness()
    await waiting(w, ...Array.from({ length: 100 }, (_, i) => `k${i}`))
    await w.add('deep', { limits: ['d', 'w:k7'] }, 1500)
    expect(await dropped(w)).toEqual([])
    await w.add('rest', { limits: ['d'] }, 4)
    expect((await dropped(w)).length).toBe(1600)
    expect(await w.wake()).toBeNull()
  })

  test('one that costs more than is left is dropped, one that does not goes on waiting', async () => {
    const w = harness()
    await waiting(w, 'a')
    await w.add('first-h', { limits: ['w:h'] })
    await w.start()
    await w.add('heavy', { limits: ['d*3', 'w:h'] })
    expect(await dropped(w)).toEqual([])
    await w.add('rest', { limits: ['d'] }, 2)
    expect(await dropped(w)).toEqual(['heavy by d dropped'])
    expect(await w.states('a')).toEqual(['available'])
    w.at(3_600_000)
    expect(await w.start()).toEqual(['a'])
  })

  test('of two limits that drop, whichever is out', async () => {
    const w = harness()
    await w.define({ e: D })
    await waiting(w)
    await w.add('first', { limits: ['w'] })
    await w.start()
    await w.add('a', { limits: ['d', 'e', 'w'] })
    expect(await dropped(w)).toEqual([])
    await w.add('rest', { limits: ['e'] }, 4)
    expect(await dropped(w)).toEqual(['a by e dropped'])
  })

  test('jobs of a lane are dropped one by one: those behind a job that it does not refuse stay', async () => {
    const w = harness()
    await waiting(w, 'a')
    await w.add('heavy', { limits: ['d*3', 'w:a'] })
    await w.add('rest', { limits: ['d'] }, 2)
    expect(await dropped(w)).toEqual([])
    w.at(3_600_000)
    expect(await w.start()).toEqual(['a'])
  })
}

function taken(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test.each<[string, (w: StoreHarness) => Promise<unknown>]>([
    ['a penalty', (w) => w.store.penalize('d', '', w.us(60_000))],
    ['a smaller budget', (w) => w.store.charge('d', '', 4, w.store.nowUs())],
    ['a pause', (w) => w.pause('d')],
    ['an override', (w) => w.override('d', { concurrency: 0 })],
  ])('by %s: what waits elsewhere is dropped by the next claim', async (_, take) => {
    const w = harness()
    await waiting(w, 'a', 'b')
    await w.add('behind', { limits: ['d', 'w:a'] }, 2)
    await take(w)
    expect(await dropped(w)).toEqual(['a by d dropped', 'b by d dropped', ...by('behind', 1, 2)])
    expect(await w.wake()).toBeNull()
  })

  test('a limit that is changed to drop while jobs wait elsewhere drops them', async () => {
    const w = harness()
    await waiting(w, 'a')
    await w.define({ later: { ...D, onLimit: 'wait' } })
    await w.add('first', { limits: ['w:l'] })
    await w.start()
    await w.add('b', { limits: ['later', 'w:l'] })
    expect(await dropped(w)).toEqual([])
    await w.define({ later: D }, 1)
    await w.add('rest', { limits: ['later'] }, 4)
    expect(await dropped(w)).toEqual(['b by later dropped'])
  })

  test('a bucket without waiting jobs is forgotten', async () => {
    const w = harness()
    await w.define({ d: D, w: W })
    await w.add('first', { limits: ['w:a'] })
    await w.start()
    await w.add('a', { limits: ['d:k', 'w:a'] })
    expect(await dropped(w)).toEqual([])
    await w.cancel('a')
    await w.complete('first')
    await w.claim()
    w.at(30 * 86_400_000)
    await w.claim()
    await w.store.prune(100)
    await w.claim()
    await w.store.prune(100)
    await w.claim()
    await w.store.prune(100)
    expect((await w.store.inspect('d')).map(({ key }) => key)).toEqual([])
  })
}
