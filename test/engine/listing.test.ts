import { describe, expect, it, onTestFinished, test } from 'vitest'
import { call, input, Sluice, task } from '../../src/exports/index.ts'
import { countMatches, Reach, searchJobs } from '../../src/engine/api/find-jobs.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('pages of jobs')

describe('pages of jobs', () => {
  test.each(stores)('on $name hold each job once, newest first, while others come and go', async ({ create }) => {
    const store = create()
    const work = task('work.item', input<number>(), { run: () => undefined })
    const other = task('other', { run: () => undefined })
    const sluice = new Sluice({ store, tasks: [work, other] })
    onTestFinished(() => sluice.stop())
    const ids: string[] = []
    for (let n = 0; n < 7; n++) {
      ids.unshift((await work.enqueue(n)).id)
      await other.enqueue()
    }
    const seen: string[] = []
    let cursor: string | null = null
    for (let pages = 0; pages < 3; pages++) {
      const page: Awaited<ReturnType<typeof sluice.jobs.page>> = await sluice.jobs.page({
        task: 'work.item',
        limit: 3,
        cursor,
      })
      seen.push(...page.jobs.map(({ id }) => id))
      cursor = page.cursor
      expect(cursor === null).toBe(pages === 2)
      await work.enqueue(100 + pages)
    }
    expect(seen).toEqual(ids)
    const all = []
    for await (const { id } of sluice.jobs.iterate({ task: 'work.item' })) all.push(id)
    expect(all.slice(3)).toEqual(ids)
    expect(all).toHaveLength(10)
    expect(await sluice.jobs.page({ task: 'work.item', limit: 10 })).toMatchObject({ cursor: null })
    expect(await sluice.jobs.page({ queue: 'none' })).toMatchObject({
      jobs: [],
      cursor: null,
      looked: { complete: true },
    })
  })

  test.each(stores)('on $name find jobs far behind others, and count them', async ({ create }) => {
    const work = task('work.item', input<number>(), { run: () => undefined })
    const sluice = new Sluice({ store: create(), tasks: [work] })
    onTestFinished(() => sluice.stop())
    const tagged = async (n: number): Promise<string> => (await work.enqueue(n, { tags: ['rare'] })).id
    const first = await tagged(-1)
    await work.enqueueMany(Array.from({ length: 1_200 }, (_, n) => n))
    const second = await tagged(-2)
    await work.enqueueMany(Array.from({ length: 1_200 }, (_, n) => n))
    const filter = { tags: ['rare'] }
    const { jobs, cursor } = await sluice.jobs.page({ ...filter, limit: 1 })
    expect(jobs.map(({ id }) => id)).toEqual([second])
    const next = await sluice.jobs.page({ ...filter, limit: 1, cursor })
    expect(next).toMatchObject({ jobs: [{ id: first }], cursor: null })
    expect((await sluice.jobs.list(filter)).map(({ id }) => id)).toEqual([second, first])
    const counts = await Promise.all([filter, {}, { text: 'RARE' }].map((each) => sluice.jobs.count(each)))
    expect(counts).toEqual([2, 2_402, 2])
    await expect(sluice.jobs.count({ tag: 'rare' } as never)).rejects.toThrow('did you mean tags?')
    await expect(sluice.jobs.page({ ...filter, tags: ['other'], cursor })).rejects.toThrow('another filter')
    // A store so slow that the time of a page is over after one part: it says so, and its cursor continues.
    const slow = { now: 0, monotonicUs: () => (slow.now += 300_000) }
    const store = await remoteOf(sluice).store()
    const found = []
    const places: (number | null)[] = []
    for (let before: number | undefined; places.length < 10;) {
      const part = await searchJobs(store, filter, 10, before, new Reach(slow))
      expect(part.rows).toBeLessThanOrEqual(2_000)
      found.push(...part.found.map(({ id }) => id))
      places.push(part.from)
      if (part.from === null) break
      before = part.from
    }
    expect(found).toEqual([second, first])
    expect(places.length).toBeGreaterThan(1)
    expect(places.at(-1)).toBeNull()
    expect(await countMatches(store, filter, undefined, new Reach(slow))).toMatchObject({
      found: 0,
      rows: 1_000,
      from: expect.any(Number) as number,
    })
  })

  test('a search takes at most 200,000 jobs, and fewer if they are slow', () => {
    const clock = { us: 0, monotonicUs: () => clock.us }
    const quick = new Reach(clock)
    for (clock.us = 1; quick.take(16_000) > 0;);
    expect(quick.rows).toBe(200_000)
    const slow = new Reach(clock)
    for (let rows = 1_000, us = clock.us; (rows = slow.take(16_000)) > 0; clock.us += rows * 10)
      expect(clock.us + rows * 10 - us).toBeLessThanOrEqual(510_000)
    expect(slow.rows).toBeGreaterThan(30_000)
    expect(slow.rows).toBeLessThanOrEqual(51_000)
  })

  test('of a flow are in its order', async () => {
    const step = task('step', input<number>(), { run: () => undefined })
    const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [step] })
    onTestFinished(() => sluice.stop())
    const { id } = await sluice.flows.start({ kind: 'chain', steps: [1, 2, 3, 4, 5].map((n) => call(step, n)) })
    const inputs: unknown[] = []
    let page = await sluice.jobs.page({ flow: id, limit: 2 })
    inputs.push(...page.jobs.map((job) => job.input))
    while (page.cursor !== null) {
      page = await sluice.jobs.page({ flow: id, limit: 2, cursor: page.cursor })
      inputs.push(...page.jobs.map((job) => job.input))
    }
    expect(inputs).toEqual([1, 2, 3, 4, 5])
  })

  test('beyond the first hundred are iterated over as well', async () => {
    const work = task('work.item', input<number>(), { run: () => undefined })
    const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [work] })
    onTestFinished(() => sluice.stop())
    await work.enqueueMany(Array.from({ length: 250 }, (_, n) => n))
    let count = 0
    for await (const job of sluice.jobs.iterate()) expect(job.input).toBe(249 - count++)
    expect(count).toBe(250)
  })

  test('a cursor is opaque: what no page answered, or one of another filter, is refused', async () => {
    const work = task('work.item', { run: () => undefined })
    const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [work] })
    onTestFinished(() => sluice.stop())
    await work.enqueueMany([undefined, undefined])
    const { cursor } = await sluice.jobs.page({ task: 'work.item', limit: 1 })
    const same = await sluice.jobs.page({ task: 'work.item', limit: 5, cursor })
    expect(same.jobs).toHaveLength(1)
    const refused = { code: 'option.invalid' }
    for (const odd of [
      '',
      'x',
      '1',
      '42',
      `${cursor}=`,
      `${cursor}x`,
      'A'.repeat(1000),
      7,
      {},
      Buffer.from('1.1.0').toString('base64url'),
    ])
      await expect(sluice.jobs.page({ task: 'work.item', cursor: odd as string })).rejects.toMatchObject(refused)
    await expect(sluice.jobs.page({ cursor })).rejects.toThrow('another filter')
    await expect(sluice.jobs.page({ task: 'work.item', states: ['active'], cursor })).rejects.toMatchObject(refused)
    await expect(sluice.jobs.list({ before: 5 } as never)).rejects.toThrow('cursor of jobs.page')
    expect(() => sluice.jobs.iterate({ limit: 5 } as never)).toThrow(expect.objectContaining(refused))
    await expect(sluice.jobs.page({ states: 'active' as never })).rejects.toMatchObject(refused)
    await expect(sluice.jobs.page({ limit: 1001 })).rejects.toMatchObject(refused)
  })
})

it('a listing refuses options, states and limits that it does not know', async () => {
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [] })
  const refused = { code: 'option.invalid' }
  await expect(sluice.jobs.list({ state: 'active' } as never)).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ states: ['running' as never] })).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ limit: 0 })).rejects.toMatchObject(refused)
  await expect(sluice.jobs.list({ states: ['active'], limit: 1000 })).resolves.toEqual([])
  await sluice.stop()
})
