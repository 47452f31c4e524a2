import { expect, test } from 'vitest'
import { type StoreBackend, RETENTION } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

const KEYS = Array.from({ length: 130 }, (_, n) => `k${n}`)

/** Stores two jobs of each key in one call, which are named by their key and 1 or 2. Their ids by name. */
async function storeAll(w: StoreHarness, limited = true): Promise<ReadonlyMap<string, string>> {
  const jobs = [1, 2].flatMap((n) =>
    KEYS.map((key) => w.job(`${key}.${n}`, limited ? { limits: [`c:${key}`] } : { fairKey: key })),
  )
  await w.store.enqueue(jobs)
  return new Map(jobs.map(({ task, id }) => [task, id]))
}

/** All that may start now. No run ends. */
async function startAll(w: StoreHarness, worker = w.worker): Promise<string[]> {
  const started: string[] = []
  for (let idle = 0; idle < 6;) {
    const names = await w.start({ worker, slots: 50 })
    idle = names.length === 0 ? idle + 1 : 0
    started.push(...names)
  }
  return started.toSorted()
}

const each = (n: number, without: readonly string[] = []): string[] =>
  KEYS.map((key) => `${key}.${n}`)
    .filter((name) => !without.includes(name))
    .toSorted()

/** Jobs of many keys that one call stores. What happens to some of them before a claim changes nothing for others. */
export function manyKeys(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('each key has its own budget, and its jobs start in their order', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await storeAll(w)
    expect(await startAll(w)).toEqual(each(1))
  })

  test('keys of fairness alone take turns', async () => {
    const w = harness()
    await storeAll(w, false)
    expect((await w.start({ slots: KEYS.length })).toSorted()).toEqual(each(1))
    expect(await startAll(w)).toEqual(each(2))
  })

  test('the first jobs of some have gone, or all of them', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    const ids = await storeAll(w)
    for (const name of ['k3.1', 'k5.1', 'k5.2']) await w.store.cancel(ids.get(name)!)
    w.at(RETENTION.cancelledUs / 1000 + 1)
    await w.store.prune(100)
    expect(await w.store.get(ids.get('k3.1')!)).toBeNull()
    expect(await startAll(w)).toEqual([...each(1, ['k3.1', 'k5.1']), 'k3.2'].toSorted())
  })

  test('their limit is one of each worker, and more come to known keys', async () => {
    const w = harness()
    const other = await w.store.join(['q'], 1e15)
    await w.define({ c: { concurrency: 1, scope: 'worker' } })
    await storeAll(w)
    expect(await startAll(w)).toEqual(each(1))
    await storeAll(w)
    expect(await startAll(w)).toEqual([])
    expect(await startAll(w, other)).toEqual(each(2))
  })

  test.each([
    [1, 4],
    [4, 1],
    [3, 2],
  ])('their queue has %d stripes, then %d', async (before, after) => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.store.stripeQueue('q', before)
    await storeAll(w)
    await w.store.stripeQueue('q', after)
    expect(await startAll(w)).toEqual(each(1))
  })
}
