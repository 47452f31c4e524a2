import { expect, test } from 'vitest'
import type { StoreHarness } from './harness.ts'
import { eachWorld, type World } from './world.ts'

/** Limits of a queue as a whole: they put it to sleep, and hold up no other queue. */
export function queueLimits(harness: StoreHarness): void {
  const world = eachWorld(harness)

  test('a queue that its own limit has put to sleep holds up no other queue in a line', async () => {
    const w = world()
    const both = { queues: { a: 9, b: 9 } }
    await w.define({ s: { window: 'sliding', max: 5, per: '1h' }, own: { window: 'sliding', max: 3, per: '1h' } })
    await w.store.outside.limit('a', 'own')
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

  test('whoever watches is told of a permit that returns to a queue asleep, and not where nothing waits', async () => {
    const w = world()
    await w.define({ ql: { concurrency: 1 } })
    await w.store.outside.limit('q', 'ql')
    await w.add('a', {}, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBeNull()
    expect(await told(w, () => w.complete('a1'))).toBe(true)
    expect(await w.start()).toEqual(['a2'])
    expect(await w.wake()).toBeNull()
    expect(await told(w, () => w.complete('a2'))).toBe(!w.store.rings)
  })

  test('what a queue sleeps on is told of as closed only once jobs of other queues stand in its line', async () => {
    const w = world()
    const both = { queues: { q: 9, p: 9 } }
    await w.define({ ql: { concurrency: 1 } })
    await w.store.outside.limit('q', 'ql')
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
}

/** Whether a watcher is told of work; a store that does not ring leaves it to the process itself. */
async function told(w: World, act: () => Promise<void>): Promise<boolean> {
  const changes: string[] = []
  const stop = w.store.watch((change) => changes.push(change))
  await act()
  stop()
  return !w.store.rings || changes.includes('work')
}
