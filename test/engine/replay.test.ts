import { describe, expect, onTestFinished, test } from 'vitest'
import { input, limit, type ReplayOptions, task } from '../../src/exports/index.ts'
import { replayJobs } from '../../src/engine/api/replay.ts'
import { openExisting } from '../../src/store/open.ts'
import { onSqlite, everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

interface Call {
  readonly tenant: string
  readonly cost?: number
}

describe.each(await everyStore('replays'))('a replay of the jobs of a store, on $name', ({ create }) => {
  test('says of a policy what it did when it was enforced', async () => {
    const { clock, start } = createEngineHarness()
    const waits: number[] = []
    const limits = [limit('crm', { rate: 2, per: '1s', burst: 1 }).by(({ tenant }: Call) => tenant)]
    const arrivedAt = new Map<string, number>()
    const sync = task('sync', input<Call>(), {
      limits,
      run: (_, { job }) => void waits.push(clock.now() - (arrivedAt.get(job.id) ?? 0)),
    })
    const engine = await start({ store: create(), tasks: [sync], retention: { completed: '7d' } })
    for (const tenant of ['acme', 'acme', 'birch', 'acme', 'birch', 'acme']) {
      const { id } = await sync.enqueue({ tenant })
      arrivedAt.set(id, clock.now())
      await clock.advance('100ms')
    }
    await clock.advance('10s')
    const found = await engine.limits.replay({ rate: 2, per: '1s', burst: 1 }, { since: '1h', by: 'tenant' })
    const sorted = waits.toSorted((a, b) => a - b)
    expect(sorted).toHaveLength(6)
    expect(found).toMatchObject({ arrivals: 6, keys: 2, dropped: 0, truncated: false })
    expect(found.worstMs).toBeCloseTo(sorted[5]!, 0)
    expect(found.p50Ms).toBeCloseTo(sorted[2]!, 0)
    expect(found.worst.map(({ key }) => key)).toEqual(['acme', 'birch'])
    const weighed = { since: '1h', by: ({ tenant }: Call) => tenant, weight: ({ cost = 2 }: Call) => cost }
    expect((await engine.limits.replay('2/s burst 2', weighed as ReplayOptions)).worstMs).toBeGreaterThan(found.worstMs)
    expect((await engine.limits.replay('1/s', { since: '1h', task: 'other' })).arrivals).toBe(0)
    expect((await engine.limits.replay('1/s', { since: '10s' })).arrivals).toBe(0)
  })
})

describe('a replay of the jobs of a store', () => {
  test('is told where it is cut off, and reads more than one page', async () => {
    const { clock, create } = createEngineHarness()
    const sync = task('sync', input<Call>(), { run: () => undefined })
    const url = onSqlite.create()
    const engine = create({ store: url, tasks: [sync] })
    await sync.enqueueMany(Array.from({ length: 2500 }, () => ({ tenant: 'a' })))
    await clock.advance(0)
    const found = await engine.limits.replay('1000/s burst 1', { since: '1h' })
    expect(found).toMatchObject({ arrivals: 2500, truncated: false, delayed: 2499, worstMs: 2499 })
    const store = await openExisting(url, clock)
    onTestFinished(() => store.close())
    expect(await replayJobs(store, '1000/s burst 1', { since: '1h' }, 1500)).toMatchObject({
      arrivals: 1500,
      truncated: true,
    })
  })

  test.each<[string, unknown, string]>([
    ['no time', {}, 'option.invalid'],
    ['a misspelt option', { since: '1h', kee: 'tenant' }, 'option.invalid'],
    ['key for by', { since: '1h', key: 'tenant' }, 'option.invalid'],
    ['a time that is none', { since: 'soon' }, 'option.invalid'],
    ['an empty path', { since: '1h', by: 'a..b' }, 'option.invalid'],
    ['a number as path', { since: '1h', by: 5 }, 'option.invalid'],
    ['a weight of 0', { since: '1h', weight: 0 }, 'limit.weight.invalid'],
    ['a path to an object', { since: '1h', by: 'tenant' }, 'limit.key.invalid'],
    ['a function that throws', { since: '1h', by: () => JSON.parse('') as string }, 'limit.key.threw'],
  ])('is refused for %s', async (_name, options, code) => {
    const { create } = createEngineHarness()
    const sync = task('sync', input<unknown>(), { run: () => undefined })
    const engine = create({ tasks: [sync] })
    await sync.enqueue({ tenant: {} })
    await expect(engine.limits.replay('1/s', options as ReplayOptions)).rejects.toMatchObject({ code })
  })
})
