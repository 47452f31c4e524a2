import { expect, test } from 'vitest'
import type { KeyCount } from '../../../src/store/contract/limits.ts'
import type { StoreBackend } from './backend.ts'
import type { QueueCount } from '../../../src/store/contract/queues.ts'
import { eachHarness, FAILURE } from './store-harness.ts'

/** The reports on waiting jobs: places, expected starts, counts. */
export function waits(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('what drains a line is the weight of its jobs', async () => {
    const w = harness()
    await w.define({ r: { rate: 4, per: '4s' } })
    await w.add('a', { limits: ['r*2'] }, 2)
    await w.start()
    await w.add('b', { limits: ['r*3'] }, 2)
    await w.add('c', { limits: ['r*2'] })
    await w.start()
    expect(await w.bucket('r')).toMatchObject({ waiting: 3, nextStartUs: w.us(3000), drainedUs: w.us(8000) })
  })

  test('the place in a line counts the jobs of all queues that take turns there', async () => {
    const w = harness()
    await w.store.join(['p'], 1e15)
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('first', { limits: ['r:k'] })
    await w.start()
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.add('b', { limits: ['r:k'], queue: 'p' }, 2)
    await w.add('urgent', { limits: ['r:k'], queue: 'p', priority: 1 })
    await w.claim({ queues: { q: 9, p: 9 } })
    const told = await Promise.all(['urgent', 'a1', 'b1', 'a2', 'b2', 'a3'].map((name) => w.explain(name)))
    expect(told.map(({ linePosition }) => linePosition)).toEqual([1, 2, 3, 4, 5, 6])
    expect(told.map(({ position }) => position)).toEqual([1, 1, 2, 2, 3, 3])
    expect(told.map(({ expectedStartUs }) => w.ms(expectedStartUs))).toEqual([1000, 2000, 3000, 4000, 5000, 6000])
    expect(told.map(({ exact }) => exact)).not.toContain(false)
  })

  test('a reported budget that the weights cannot use up tells when jobs start, and which are too late', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s', maxWait: '2500ms' } })
    await w.store.calibrate('r', '', { remaining: 7, resetUs: w.us(2000), direction: 'both', reset: 'window' })
    await w.add('a', { limits: ['r*3'] }, 5)
    const { jobs, rejected } = await w.claim()
    expect(jobs.map(({ task }) => task)).toEqual(['a1', 'a2'])
    expect(rejected.map(({ task, expectedStartUs }) => [task, w.ms(expectedStartUs)])).toEqual([['a5', 5000]])
    const told = await Promise.all(['a3', 'a4'].map((task) => w.explain(task)))
    expect(told.map(({ expectedStartUs }) => w.ms(expectedStartUs))).toEqual([2000, 2000])
    w.at(2000)
    expect(await w.start()).toEqual(['a3', 'a4'])
  })

  test('a lane of another queue whose jobs have all started leaves the place and the start exact', async () => {
    const w = harness()
    const both = { queues: { q: 9, p: 9 } }
    await w.define({ r: { every: '1m' } })
    await w.add('first', { limits: ['r'], queue: 'p' })
    expect(await w.start(both)).toEqual(['first'])
    await w.complete('first')
    await w.add('a', { limits: ['r'] }, 2)
    await w.claim(both)
    expect(await w.explain('a1')).toMatchObject({ linePosition: 1, expectedStartUs: w.us(60_000), exact: true })
    expect(await w.explain('a2')).toMatchObject({ linePosition: 2, expectedStartUs: w.us(120_000), exact: true })
  })

  test('a place in several lines is none, and the latest of them bounds the start', async () => {
    const w = harness()
    await w.define({ g: { rate: 1, per: '1s' }, k: { rate: 1, per: '10s' } })
    await w.add('a', { limits: ['g', 'k:a'] }, 3)
    await w.start()
    expect(await w.explain('a3')).toMatchObject({
      position: 2,
      linePosition: null,
      expectedStartUs: w.us(20_000),
      exact: false,
    })
  })

  test('a retry that is free costs its line nothing', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', retries: 'free' } })
    await w.add('a', { limits: ['r'] })
    await w.start()
    await w.add('b', { limits: ['r'] }, 2)
    await w.retry('a')
    await w.add('urgent', { limits: ['r'], priority: 1 })
    expect(await w.explain('b2')).toMatchObject({ expectedStartUs: w.us(3000), position: 4 })
    expect(await w.explain('a')).toMatchObject({ expectedStartUs: w.us(1000), position: 2 })
  })

  test('a job that may be given up before its turn makes the start of those behind it a lower bound', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] })
    await w.add('mortal', { limits: ['r'], expiresAtMs: w.clock.now() + 1500 })
    await w.add('b', { limits: ['r'] }, 2)
    await w.start()
    expect(await w.explain('mortal')).toMatchObject({
      expectedStartUs: w.us(1000),
      givenUpAtUs: w.us(1500),
      exact: true,
    })
    expect(await w.explain('b2')).toMatchObject({ expectedStartUs: w.us(2000), givenUpAtUs: null, exact: false })
  })

  test('a job of its lane that may be given up leaves it no later than jobs of other lanes', async () => {
    const w = harness()
    await w.define({ r: { window: 'fixed', max: 2, per: '1s' } })
    await w.add('first', { limits: ['r*2'] })
    await w.start()
    await w.add('mortal', { limits: ['r'], expiresAtMs: w.clock.now() + 500 })
    await w.add('a', { limits: ['r'], share: 2 }, 2)
    await w.add('b', { limits: ['r*2'], fairKey: 'b' })
    await w.claim()
    expect(await w.explain('a2')).toMatchObject({ expectedStartUs: w.us(1000), exact: false })
    w.at(1000)
    expect(await w.start()).toEqual(['a1', 'a2'])
  })

  test.each(['paused', 'without a worker'])('lanes of a queue that is %s take no turns in a line', async (kind) => {
    const w = harness()
    await w.store.join(['p'], 1e15)
    await w.define({ r: { every: '1s' } })
    await w.add('first', { limits: ['r'] })
    await w.start()
    const idle = kind === 'paused' ? 'p' : 'nobody'
    await w.add('idle', { limits: ['r'], queue: idle }, 3)
    await w.add('a', { limits: ['r'] }, 2)
    await w.add('b', { limits: ['r'], queue: idle }, 2)
    if (kind === 'paused') await w.store.pauseQueue(idle, true)
    await w.claim({ queues: { q: 9, [idle]: 0 } })
    expect(await w.explain('a1')).toMatchObject({ linePosition: 1, expectedStartUs: w.us(1000), exact: true })
    expect(await w.explain('a2')).toMatchObject({ linePosition: 2, expectedStartUs: w.us(2000), exact: true })
    const told = await w.explain('b1')
    expect(told).toMatchObject({ expectedStartUs: w.us(4000), exact: false, served: false })
    expect(told.paused === true).toBe(kind === 'paused')
    for (const n of [1, 2]) {
      w.at(n * 1000)
      expect(await w.start()).toEqual([`a${n}`])
    }
  })

  test('jobs whose task no worker lists take no turns in a line', async () => {
    const w = harness()
    await w.store.leave(w.worker)
    const tasks = ['first', 'a1', 'a2']
    const worker = await w.store.join(['q', 'p'], 1e15, tasks)
    const claim = { worker, tasks, queues: { q: 9, p: 9 } }
    await w.define({ r: { every: '1s' } })
    await w.add('first', { limits: ['r'] })
    await w.start(claim)
    await w.add('unlisted', { limits: ['r'], queue: 'p' }, 2)
    await w.add('a', { limits: ['r'] }, 2)
    await w.claim(claim)
    expect(await w.explain('a1')).toMatchObject({ linePosition: 1, expectedStartUs: w.us(1000), exact: true })
    expect(await w.explain('a2')).toMatchObject({ linePosition: 2, expectedStartUs: w.us(2000), exact: true })
    // Now one lists it.
    await w.store.join(['p'], 1e15, ['unlisted1', 'unlisted2'])
    expect(await w.explain('a1')).toMatchObject({ linePosition: 2, expectedStartUs: w.us(1000), exact: false })
  })

  test('lanes whose queue has limits of its own may be passed: the start of others is a lower bound', async () => {
    const w = harness()
    await w.store.join(['p'], 1e15)
    const both = { queues: { q: 9, p: 9 } }
    await w.define({ r: { every: '1s' }, own: { concurrency: 1 } })
    await w.declare('p', ['own'])
    await w.add('first', { limits: ['r'], queue: 'p' })
    expect(await w.start(both)).toEqual(['first'])
    await w.add('p', { limits: ['r'], queue: 'p' }, 2)
    await w.add('a', { limits: ['r'] }, 2)
    await w.claim(both)
    expect(await w.explain('a1')).toMatchObject({ expectedStartUs: w.us(1000), exact: false })
    expect(await w.explain('a2')).toMatchObject({ linePosition: 4, expectedStartUs: w.us(2000), exact: false })
    w.at(1000)
    expect(await w.start(both)).toEqual(['a1'])
    w.at(2000)
    expect(await w.start(both)).toEqual(['a2'])
  })

  test('a job that waits for a free slot has no exact start, nor has one of a queue without workers', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 3)
    expect(await w.start({ slots: 1 })).toEqual(['a1'])
    expect(await w.explain('a3')).toMatchObject({ expectedStartUs: w.us(0), exact: false, served: true })
    await w.add('b', { limits: ['r:k'], queue: 'nobody' }, 9)
    expect(await w.explain('b9')).toMatchObject({ expectedStartUs: w.us(800), exact: false, served: false })
  })

  test('a job whose time has not come is expected when it comes', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1s' } })
    const dueMs = w.clock.now() + 5000
    await w.add('later', { limits: ['r'], runAtMs: dueMs })
    expect(await w.explain('later')).toMatchObject({ expectedStartUs: dueMs * 1000, exact: false, position: null })
    await w.add('again', { limits: ['r'] })
    await w.start()
    await w.retry('again', 3000)
    expect(await w.explain('again')).toMatchObject({ expectedStartUs: w.us(3000), exact: false, position: null })
  })

  test('jobs that wait are counted by queue and bucket, the longest line first', async () => {
    const w = harness()
    await w.store.join(['exports'], 1e15)
    await w.define({ r: { rate: 1, per: '10s' }, c: { concurrency: 1 } })
    await w.add('a', { limits: ['r:A'] }, 3)
    await w.add('b', { limits: ['r:B'], queue: 'exports' }, 2)
    await w.add('c', { limits: ['c'] }, 2)
    await w.add('free', {}, 2)
    expect(await w.store.throttled(9)).toEqual({ waiting: 0, rows: [], next: null })
    await w.claim({ queues: { q: 9, exports: 9 } })
    const rows = [
      { queue: 'q', limit: 'r', key: 'A', waiting: 2, nextStartUs: w.us(10_000) },
      { queue: 'q', limit: 'c', key: '', waiting: 1, nextStartUs: null },
      { queue: 'exports', limit: 'r', key: 'B', waiting: 1, nextStartUs: w.us(10_000) },
    ]
    expect(await w.store.throttled(9)).toMatchObject({ waiting: 4, rows })
    expect(await w.store.throttled(1)).toMatchObject({ waiting: 4, rows: rows.slice(0, 1) })
    w.at(11_000)
    await w.claim({ queues: { q: 9, exports: 9 } })
    expect((await w.store.throttled(9)).rows.map(({ key, waiting }) => [key, waiting])).toEqual([
      ['', 1],
      ['A', 1],
    ])
  })

  test('after a penalty, a job that may not use the headroom is told when its units are there', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s', headroom: { units: 3, priority: 10 } } })
    await w.store.penalize('r', '', w.us(1000))
    await w.add('a', { limits: ['r'] })
    expect(await w.start()).toEqual([])
    expect(await w.explain('a')).toMatchObject({ untilUs: w.us(4000), expectedStartUs: w.us(4000) })
    w.at(3999)
    expect(await w.start()).toEqual([])
    w.at(4000)
    expect(await w.start()).toEqual(['a'])
  })

  test('keys of a limit come by their waiting jobs, by key and by next start, page by page', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', burst: 1 }, other: { rate: 1, per: '1s', burst: 1 } })
    for (const [key, jobs] of [
      ['late', 2],
      ['long', 4],
      ['idle', 1],
      ['also', 1],
    ] as const)
      await w.add(key, { limits: [`r:${key}`] }, jobs)
    await w.add('else', { limits: ['other:x'] }, 3)
    await w.claim({ queues: { q: 9 } })
    await w.store.penalize('r', 'late', w.us(60_000))
    await w.claim({ queues: { q: 9 } })
    const all = async (sort: 'waiting' | 'key' | 'next', rows: number): Promise<string[]> => {
      const keys: string[] = []
      for (let after: KeyCount | null = null; ;) {
        const page: readonly KeyCount[] = await w.store.limitKeys({ limit: 'r', sort, after, rows })
        keys.push(...page.map(({ key }) => key))
        after = page.at(-1) ?? null
        if (page.length < rows) return keys
      }
    }
    for (const rows of [1, 2, 3, 9]) {
      expect(await all('waiting', rows)).toEqual(['long', 'late', 'also', 'idle'])
      expect(await all('key', rows)).toEqual(['also', 'idle', 'late', 'long'])
      expect(await all('next', rows)).toEqual(['long', 'late', 'also', 'idle'])
    }
    expect(await w.store.limitKeys({ limit: 'r', sort: 'next', after: null, rows: 2 })).toEqual([
      { key: 'long', waiting: 3, active: 0, wakeAtUs: w.us(10_000), nextStartUs: w.us(10_000) },
      { key: 'late', waiting: 1, active: 0, wakeAtUs: w.us(60_000), nextStartUs: w.us(60_000) },
    ])
    const [late, long] = await w.store.inspectKeys('r', ['long', 'nobody', 'late'])
    expect([late, long]).toEqual([...(await w.store.inspect('r', 'late')), ...(await w.store.inspect('r', 'long'))])
  })

  test('a sample of all jobs says what counting says', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', burst: 1 }, other: { rate: 1, per: '1s', burst: 1 } })
    await w.add('a', { limits: ['r:a'] }, 5)
    await w.add('b', { limits: ['r:b'], queue: 'p' }, 3)
    await w.add('else', { limits: ['other'] }, 2)
    await w.add('later', { delayUs: 9_000_000 }, 2)
    await w.claim({ queues: { q: 9, p: 9 } })
    const counted = async () => ({
      counts: byName(await w.store.queueCounts()),
      totals: byName(await w.store.limitTotals(['r', 'other'])),
      ...(({ waiting, rows }) => ({ waiting, rows: byName(rows) }))(await w.store.throttled(9)),
    })
    const sampled = await w.store.sample(1)
    expect({
      counts: byName(sampled?.counts ?? []),
      totals: byName(sampled?.totals ?? []),
      waiting: sampled?.waiting,
      rows: byName(sampled?.lists.map(({ active: _, wakeAtUs: __, ...row }) => row) ?? []),
    }).toEqual(await counted())
    expect(sampled?.lists[0]).toMatchObject({ limit: 'r', key: 'a', waiting: 4, active: 0, wakeAtUs: w.us(10_000) })
    expect(await w.store.sample(13)).toBeNull()
  })

  test('a sample of a part of the jobs is near what counting says', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', burst: 1 } })
    await w.add('hot', { limits: ['r:hot'] }, 6000)
    for (const key of ['k', 'l']) await w.add(key, { limits: [`r:${key}`], queue: 'p' }, 20)
    await w.add('free', { queue: 'p' }, 9000)
    await w.claim({ queues: { q: 9, p: 1 } })
    const sampled = await w.store.sample(10_000)
    const counts = await w.store.queueCounts()
    for (const { queue, state, jobs } of counts.filter((each) => each.jobs > 1000)) {
      const estimate = sampled?.counts.find((each) => each.queue === queue && each.state === state)
      expect(Math.abs((estimate?.jobs ?? 0) / jobs - 1)).toBeLessThan(0.1)
    }
    expect(Math.abs((sampled?.waiting ?? 0) / 5999 - 1)).toBeLessThan(0.1)
    expect(sampled?.lists[0]).toMatchObject({ queue: 'q', limit: 'r', key: 'hot' })
    // Jobs that are gone leave gaps in the numbers, and the store is small again.
    await w.store.clear()
    await w.add('few', {}, 3)
    expect(await w.store.sample(10_000)).toBeNull()
  })

  test('a sample counts the states of few jobs, and estimates those of many', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', burst: 1 } })
    await w.add('ends', { queue: 'few' }, 6)
    await w.start({ queue: 'few' })
    await w.complete('ends1', 'ends2')
    for (const name of ['ends3', 'ends4', 'ends5']) await w.settle(name, { kind: 'discard', error: FAILURE })
    await w.retry('ends6', 9_000_000)
    await w.add('many', { limits: ['r:a'] }, 6000)
    await w.add('runs', { queue: 'few' })
    await w.start({ queue: 'few' })
    await w.add('goes', { queue: 'few' }, 2)
    for (const name of ['goes1', 'goes2']) await w.cancel(name)
    await w.add('later', { queue: 'few', delayUs: 9_000_000 }, 3)
    await w.chain('first', 'second', 'third')
    await w.add('more', { limits: ['r:b'] }, 6000)
    const ofFew = (counts: readonly QueueCount[]): object[] =>
      counts.filter(({ queue, state }) => queue === 'few' || state === 'pending').map(({ oldest: _, ...each }) => each)
    const { counts = [] } = (await w.store.sample(10_000)) ?? {}
    expect(byName(ofFew(counts))).toEqual(byName(ofFew(await w.store.queueCounts())))
    expect(ofFew(counts)).toHaveLength(7)
    const many = counts.find(({ queue, state }) => queue === 'q' && state === 'available')?.jobs ?? 0
    expect(Math.abs(many / 12_001 - 1)).toBeLessThan(0.1)
  })

  test('the backlog of a limit is all that needs its buckets, wherever it waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 3, per: '1s' }, k: { rate: 1, per: '10s' } })
    await w.add('a', { limits: ['r', 'k:a'] }, 2)
    await w.add('b', { limits: ['r*2', 'k:b'] }, 2)
    expect(await w.store.backlog('r')).toMatchObject([{ key: '', jobs: 4, units: 6, even: false, active: 0 }])
    await w.start()
    expect(await w.store.backlog('r')).toMatchObject([{ key: '', jobs: 2, units: 3, even: false }])
    expect(await w.store.backlog('k')).toMatchObject([
      { key: 'a', jobs: 1, units: 1, even: true, policy: { rule: { kind: 'rate', rate: 1 } } },
      { key: 'b', jobs: 1, units: 1, even: true },
    ])
    expect(await w.store.backlog('k', 'b')).toMatchObject([{ key: 'b', jobs: 1 }])
    expect(await w.store.backlog('k', 'unused')).toEqual([])
    expect(await w.store.backlog('unknown')).toBeNull()
  })

  test('the end of an override may be the next start of those that wait', async () => {
    const w = harness()
    await w.define({ r: { every: '1s' }, both: { rate: 100, per: '1s' } })
    await w.override('r', { every: '10s' }, 4000)
    await w.add('first', { limits: ['r'] })
    await w.start()
    await w.add('a', { limits: ['r'] })
    await w.add('b', { limits: ['r', 'both'] })
    await w.claim()
    for (const name of ['a', 'b'])
      expect(await w.explain(name)).toMatchObject({ untilUs: w.us(4000), expectedStartUs: w.us(4000), exact: false })
    expect(await w.bucket('r')).toMatchObject({ nextStartUs: w.us(4000) })
    w.at(4000)
    expect(await w.start()).toEqual(['a'])
  })

  test('the guard of a budget is shown, and whether it is the default', async () => {
    const w = harness()
    await w.define({
      usual: { window: 'sliding', max: 1, per: '1m' },
      named: { rate: 1, per: '1m', guard: '100ms' },
      none: { window: 'sliding', max: 1, per: '1m', guard: 0 },
    })
    for (const limit of ['usual', 'named', 'none']) await w.add(`${limit}x`, { limits: [limit] }, 2)
    await w.start()
    const guards = [{ us: 20_000, isDefault: true }, { us: 100_000, isDefault: false }, undefined]
    const limits = ['usual', 'named', 'none']
    expect(await Promise.all(limits.map(async (limit) => (await w.bucket(limit)).guard))).toEqual(guards)
    expect(await Promise.all(limits.map(async (limit) => (await w.explain(`${limit}x2`)).guard))).toEqual(guards)
  })
}

/** In an order that two lists of the same rows share. */
function byName<T extends object>(rows: readonly T[]): T[] {
  return rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}
