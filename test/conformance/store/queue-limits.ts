import { expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

/** Limits of a queue as a whole: they put it to sleep, and hold up no other queue. */
export function queueLimits(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a queue that its own limit has put to sleep holds up no other queue in a line', async () => {
    const w = harness()
    const both = { queues: { a: 9, b: 9 } }
    await w.define({
      s: { window: 'sliding', max: 5, per: '1h', guard: 0 },
      own: { window: 'sliding', max: 3, per: '1h', guard: 0 },
    })
    await w.store.limitQueue('a', 'own')
    await w.add('light', { queue: 'b', limits: ['s'] }, 2)
    expect(await w.start(both)).toEqual(['light1', 'light2'])
    await w.add('heavy', { queue: 'a', limits: ['s*4'] })
    expect(await w.wake(both)).toBe(3_600_000)
    await w.add('plain', { queue: 'a' }, 6)
    expect(await w.start(both)).toEqual(['plain1', 'plain2', 'plain3'])
    await w.add('last', { queue: 'b', limits: ['s'] })
    expect(await w.start(both)).toEqual(['last'])
    expect(await w.wake(both)).toBe(3_600_000)
  })

  test('watchers hear of a permit that returns to a sleeping queue, and not where nothing waits', async () => {
    const w = harness()
    await w.define({ ql: { concurrency: 1 } })
    await w.store.limitQueue('q', 'ql')
    await w.add('a', {}, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBeNull()
    expect(await told(w, () => w.complete('a1'))).toBe(true)
    expect(await w.start()).toEqual(['a2'])
    expect(await w.wake()).toBeNull()
    expect(await told(w, () => w.complete('a2'))).toBe(!w.store.notifiesOwnWrites)
  })

  test('a bucket that a queue sleeps on is reported closed only once jobs of other queues wait for it', async () => {
    const w = harness()
    const both = { queues: { q: 9, p: 9 } }
    await w.define({ ql: { concurrency: 1 } })
    await w.store.limitQueue('q', 'ql')
    await w.add('a', {}, 2)
    expect(await w.start(both)).toEqual(['a1'])
    expect((await w.claim(both)).closed).toEqual([])
    await w.add('b', { queue: 'p', limits: ['ql'] })
    expect((await w.claim(both)).closed).toMatchObject([{ limit: 'ql', queue: 'p' }])
    await w.complete('a1')
    const [first] = await w.start(both)
    await w.complete(first!)
    const { jobs, released } = await w.claim(both)
    expect(new Set([first, ...jobs.map((job) => job.task)])).toEqual(new Set(['a2', 'b']))
    await w.complete(jobs[0]!.task)
    expect([...released, ...(await w.claim(both)).released]).toMatchObject([{ limit: 'ql' }])
  })

  test('declared limits hold for every claim, until an empty declaration removes them', async () => {
    const w = harness()
    await w.define({ ql: { rate: 2, per: '1h' }, other: { rate: 1, per: '1h' } })
    expect(await w.declare('q', ['ql'])).toBe(true)
    expect(await w.declare('q', ['ql'])).toBe(false)
    await w.add('a', {}, 6)
    await w.add('b', { queue: 'p' })
    expect(await w.start({ queues: { q: 9, p: 9 } })).toEqual(['a1', 'a2', 'b'])
    const { worker } = await w.store.registerWorker({ name: 'outside', queues: ['q'], aliveUs: 1e9, about: null })
    expect(await w.start({ worker })).toEqual([])
    expect(await w.wake()).toBe(1_800_000)
    await w.store.limitQueue('q', 'other')
    expect(await w.declare('q', [])).toBe(true)
    expect(await w.start({ worker })).toEqual(['a3'])
    expect(await w.start()).toEqual([])
    await w.store.limitQueue('q', null)
    expect(await w.start()).toEqual(['a4', 'a5', 'a6'])
  })

  test('of two declarations the higher version holds, at the same version the later', async () => {
    const w = harness()
    await w.define({ few: { rate: 1, per: '1h' }, many: { rate: 9, per: '1h' } })
    expect(await w.declare('q', ['few'], 1)).toBe(true)
    expect(await w.declare('q', ['many'])).toBe(false)
    expect(await w.declare('q', [])).toBe(false)
    await w.add('a', {}, 4)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.declare('q', ['many'], 1)).toBe(true)
    // The same limits of a higher version change nothing but what may replace them.
    expect(await w.declare('q', ['many'], 3)).toBe(false)
    expect(await w.declare('q', ['few'], 2)).toBe(false)
    expect(await w.start()).toEqual(['a2', 'a3', 'a4'])
  })

  test('permits that were taken under a declaration return after it is gone', async () => {
    const w = harness()
    await w.define({ ql: { concurrency: 1 } })
    await w.declare('q', ['ql'])
    await w.add('a', {}, 2)
    expect(await w.start()).toEqual(['a1'])
    await w.declare('q', [])
    expect(await w.start()).toEqual(['a2'])
    await w.complete('a1', 'a2')
    expect(await w.bucket('ql')).toMatchObject({ active: 0 })
    await w.declare('q', ['ql'])
    await w.add('b', {}, 2)
    expect(await w.start()).toEqual(['b1'])
  })

  test('an expected start under a limit of the queue as a whole is a lower bound', async () => {
    const w = harness()
    await w.define({ ql: { rate: 9, per: '1s' }, r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.explain('a2')).toMatchObject({ exact: true })
    await w.declare('q', ['ql'])
    expect(await w.explain('a2')).toMatchObject({ exact: false, expectedStartUs: w.us(1000) })
    await w.declare('q', [])
    await w.declare('p', ['r'])
    expect(await w.explain('a2')).toMatchObject({ exact: false })
  })
}

/** Whether a watcher hears of work; a store that does not notify leaves it to the process itself. */
async function told(w: StoreHarness, act: () => Promise<void>): Promise<boolean> {
  const changes: string[] = []
  const stop = w.store.watch((change) => changes.push(change))
  await act()
  stop()
  return !w.store.notifiesOwnWrites || changes.includes('work')
}
