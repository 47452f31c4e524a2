import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type Outcome } from './store-harness.ts'

/** Taking work: what starts, in which order, at which instant, and what it costs. */
export function claims(backend: StoreBackend): void {
  describe('buckets', () => buckets(backend))
  describe('order', () => order(backend))
  describe('lines', () => lines(backend))
  describe('instants', () => instants(backend))
  describe('refusals', () => refusals(backend))
  describe('outcomes', () => outcomes(backend))
}

function buckets(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a job without limits starts at once, with all that its handler needs', async () => {
    const w = harness()
    await w.add('plain', { input: '{"n":1}', priority: 7, attempts: 5 })
    w.at(3)
    const claim = await w.claim()
    expect(claim.nowUs).toBe(w.us(3))
    expect(claim.nextWakeUs).toBeNull()
    expect(claim.jobs).toEqual([
      {
        seq: expect.any(Number) as number,
        id: w.id('plain'),
        task: 'plain',
        queue: 'q',
        priority: 7,
        input: '{"n":1}',
        attempt: 1,
        maxAttempts: 5,
        pushedBack: 0,
        createdUs: w.us(0),
        availableUs: w.us(0),
        startedUs: w.us(3),
        waitedFor: null,
        extra: null,
        uses: [],
      },
    ])
    expect(await w.states('plain')).toEqual(['active'])
  })

  test('a claim never takes more than the slots, nor from other queues', async () => {
    const w = harness()
    await w.add('a', {}, 5)
    await w.add('other', { queue: 'p' })
    expect(await w.start(2)).toEqual(['a1', 'a2'])
    expect(await w.start(0)).toEqual([])
    expect(await w.start(100)).toEqual(['a3', 'a4', 'a5'])
    expect(await w.start({ queue: 'p' })).toEqual(['other'])
  })

  test('no more start than the bucket admits, whatever the weight', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s' } })
    await w.add('a', { limits: ['r*2'] }, 4)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.bucket('r')).toMatchObject({ available: 1, waiting: 2 })
  })

  test('keys have budgets of their own', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1m' } })
    await w.add('a', { limits: ['r:a'] }, 2)
    await w.add('b', { limits: ['r:b'] }, 2)
    expect(await w.start()).toEqual(['a1', 'b1'])
  })

  test('a job starts when all of its buckets admit it, and a denial charges none', async () => {
    const w = harness()
    await w.define({ free: { rate: 10, per: '10s' }, tight: { rate: 1, per: '10s' } })
    await w.add('a', { limits: ['free', 'tight'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.bucket('free')).toMatchObject({ available: 9 })
    expect(await w.wake()).toBe(10_000)
    expect(await w.bucket('free')).toMatchObject({ available: 9 })
    w.at(10_000)
    expect(await w.start()).toEqual(['a2'])
    expect(await w.bucket('free')).toMatchObject({ available: 9 })
  })

  test('an admitted job names what it was charged', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s' }, t: { rate: 5, per: '5s' } })
    await w.add('a', { limits: ['t:x', 'r*3'] })
    const [job] = (await w.claim()).jobs
    expect(job!.uses).toEqual([
      { limit: 'r', key: '', weight: 3 },
      { limit: 't', key: 'x', weight: 1 },
    ])
  })

  test('permits are held until the run is settled, however it ends', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'], attempts: 1 }, 5)
    const ends = [
      { kind: 'complete', result: null },
      { kind: 'discard', error: FAILURE },
      { kind: 'cancel' },
      { kind: 'retry', delayUs: 60_000_000, error: FAILURE },
    ] as const
    for (const [i, end] of ends.entries()) {
      expect(await w.start()).toEqual([`a${i + 1}`])
      expect(await w.wake()).toBeNull()
      expect(await w.bucket('c')).toMatchObject({ active: 1, available: 0 })
      await w.settle(`a${i + 1}`, end)
      expect(await w.bucket('c')).toMatchObject({ active: 0, available: 1 })
    }
    expect(await w.start()).toEqual(['a5'])
  })

  test('a permit is one start, whatever the weight', async () => {
    const w = harness()
    await w.define({ c: { rate: 100, per: '1s', concurrency: 2 } })
    await w.add('a', { limits: ['c*10'] }, 3)
    expect(await w.start()).toEqual(['a1', 'a2'])
  })

  test('a concurrency of zero pauses its jobs, and delays no other', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 0 } })
    await w.add('a', { limits: ['c'] })
    await w.add('b')
    expect(await w.start()).toEqual(['b'])
    expect(await w.wake()).toBeNull()
  })

  test('a retry that is free of charge pays no units but holds a permit', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', concurrency: 1, retries: 'free' } })
    await w.add('a', { limits: ['r'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    await w.retry('a1')
    expect(await w.start()).toEqual(['a1'])
    expect(await w.bucket('r')).toMatchObject({ active: 1, debt: 0 })
    await w.complete('a1')
    expect(await w.wake()).toBe(3_600_000)
  })
}

function order(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('within a lane: priority, then sequence', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1h' } })
    await w.add('low', { limits: ['r'], priority: -1 }, 2)
    await w.add('mid', { limits: ['r'] }, 2)
    await w.add('high', { limits: ['r'], priority: 3 }, 2)
    expect(await w.start()).toEqual(['high1', 'high2', 'mid1', 'mid2', 'low1', 'low2'])
  })

  test('without limits: priority, then sequence', async () => {
    const w = harness()
    await w.add('mid', {}, 2)
    await w.add('high', { priority: 3 })
    await w.add('low', { priority: -3 })
    expect(await w.start(2)).toEqual(['high', 'mid1'])
    expect(await w.start()).toEqual(['mid2', 'low'])
  })

  test('at equal priority lanes take turns', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1h' } })
    await w.add('a', { limits: ['r:a'] }, 6)
    await w.add('b', { limits: ['r:b'] }, 3)
    expect(await w.start(4)).toEqual(['a1', 'b1', 'a2', 'b2'])
    await w.add('c', { limits: ['r:c'] }, 2)
    expect((await w.start(3)).sort()).toEqual(['a3', 'b3', 'c1'])
  })

  test('a lane that comes back gets no turns for the time it was away', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1h' } })
    await w.add('a', { limits: ['r:a'] })
    expect(await w.start()).toEqual(['a1'].map(() => 'a'))
    await w.add('b', { limits: ['r:b'] }, 9)
    await w.start(3)
    await w.add('again', { limits: ['r:a'] }, 6)
    const started = await w.start(4)
    expect(started.filter((name) => name.startsWith('again'))).toHaveLength(2)
  })

  test('a higher priority goes first across lanes, the open line and queues', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1h' } })
    await w.add('plain')
    await w.add('lane', { limits: ['r:a'], priority: 1 })
    await w.add('urgent', { priority: 2 })
    await w.add('most', { limits: ['r:b'], priority: 3 })
    expect(await w.start(1)).toEqual(['most'])
    expect(await w.start(2)).toEqual(['urgent', 'lane'])
    expect(await w.start(2)).toEqual(['plain'])
  })

  test('the open line gets half of the slots, and no more while lanes can start', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1h' } })
    for (const key of ['a', 'b', 'c', 'd']) await w.add(key, { limits: [`r:${key}`] }, 10)
    await w.add('plain', {}, 20)
    const started = await w.start(10)
    expect(started.filter((name) => name.startsWith('plain'))).toHaveLength(5)
  })

  test('the open line gets no more than half of the slots before lanes that many refused ones keep from being read', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1s' }, closed: { rate: 1, per: '1d' } })
    await w.pause('closed')
    for (let n = 0; n < 200; n++) await w.add(`x${n}-`, { limits: ['closed', `r:x${n}`] })
    await w.add('open', {}, 20)
    for (let n = 0; n < 20; n++) await w.add(`lane${n}-`, { limits: [`r:${n}`] })
    const starts: string[] = []
    for (let n = 0; n < 20 && starts.length < 20; n++) starts.push(...(await w.start(20 - starts.length)))
    expect(starts.filter((name) => name.startsWith('open'))).toHaveLength(10)
    expect(starts.filter((name) => name.startsWith('lane'))).toHaveLength(10)
  })

  test('with one slot the open line and the lanes go in turn', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1h' } })
    await w.add('lane', { limits: ['r'] }, 3)
    await w.add('plain', {}, 3)
    const kinds: string[] = []
    for (let i = 0; i < 6; i++) {
      const [name] = await w.start(1)
      kinds.push(name!.slice(0, -1))
    }
    expect(kinds.slice(0, 2).sort()).toEqual(['lane', 'plain'])
    expect(kinds).toEqual([...kinds.slice(0, 2), ...kinds.slice(0, 2), ...kinds.slice(0, 2)])
  })

  test('a claim for several queues fills the slots of each', async () => {
    const w = harness()
    await w.define({ r: { rate: 3, per: '1h' } })
    await w.add('q', { limits: ['r'] }, 3)
    await w.add('p', { queue: 'p', limits: ['r'] }, 3)
    await w.add('x', { queue: 'p' }, 3)
    const started = await w.start({ queues: { q: 1, p: 4 } })
    expect(started.filter((name) => name.startsWith('q'))).toHaveLength(1)
    expect(started.filter((name) => name.startsWith('p'))).toHaveLength(2)
    expect(started.filter((name) => name.startsWith('x'))).toHaveLength(2)
  })

  test('a key without budget delays no other, however deep its backlog', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '1h' } })
    await w.add('deep', { limits: ['r:deep'], priority: 9 }, 500)
    expect(await w.start(10)).toEqual(['deep1', 'deep2'])
    await w.add('late', { limits: ['r:late'] })
    expect(await w.start(1)).toEqual(['late'])
  })
}

function lines(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a newcomer waits behind those it does not outrank', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1 }, k: { rate: 99, per: '1s' } })
    await w.add('a', { limits: ['r', 'k:a'] }, 2)
    await w.start()
    w.at(1000)
    await w.add('b', { limits: ['r', 'k:b'] })
    expect(await w.start()).toEqual(['a2'])
    w.at(2000)
    expect(await w.start()).toEqual(['b'])
  })

  test('lanes that wait on one bucket are served in turn', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1 }, k: { rate: 99, per: '1s' } })
    for (const key of ['a', 'b', 'c']) await w.add(key, { limits: ['r', `k:${key}`] }, 3)
    const started: string[] = []
    for (let s = 0; s < 9; s++) {
      w.at(s * 1000)
      started.push(...(await w.start()))
    }
    expect(started).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'c2', 'a3', 'b3', 'c3'])
  })

  test('a heavy head banks units, and lighter jobs of its own lane do not pass it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 } })
    await w.add('first', { limits: ['r*5'] })
    await w.add('heavy', { limits: ['r*5'] })
    await w.add('light', { limits: ['r'] }, 3)
    expect(await w.start()).toEqual(['first'])
    for (let s = 1; s < 5; s++) {
      w.at(s * 1000)
      expect(await w.wake()).toBe(5000)
    }
    w.at(5000)
    expect(await w.start()).toEqual(['heavy'])
    expect(await w.wake()).toBe(6000)
  })

  test('a heavy head is not robbed by lighter lanes that come later', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 }, k: { rate: 99, per: '1s' } })
    await w.add('light', { limits: ['r', 'k:light'] }, 5)
    await w.start()
    await w.add('heavy', { limits: ['r*5', 'k:heavy'] })
    expect(await w.wake()).toBe(5000)
    for (let s = 1; s < 5; s++) {
      w.at(s * 1000)
      await w.add(`flood${s}-`, { limits: ['r', 'k:light'] }, 50)
      await w.add(`new${s}-`, { limits: ['r', `k:new${s}`] }, 2)
      expect(await w.wake()).toBe(5000)
    }
    w.at(5000)
    expect(await w.start()).toEqual(['heavy'])
  })

  test('a head is not starved by a stream of lanes that are new, nor by one that comes back', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 }, k: { rate: 99, per: '1s' } })
    await w.add('first', { limits: ['r*5', 'k:heavy'] })
    await w.start()
    w.at(1)
    await w.add('heavy', { limits: ['r*5', 'k:heavy'] })
    for (let ms = 100; ms < 5000; ms += 100) {
      w.at(ms)
      await w.add(`new${ms}`, { limits: ['r', `k:${ms % 400 === 0 ? 0 : ms}`] })
      expect(await w.wake()).toBe(5000)
    }
    w.at(5000)
    expect(await w.start()).toEqual(['heavy'])
  })

  test('a heavy head is not robbed by another queue', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 3 } })
    const other = await w.store.join(['p'], 1e12)
    await w.add('first', { limits: ['r*3'] })
    await w.start()
    await w.add('heavy', { limits: ['r*3'] })
    await w.wake()
    await w.add('thief', { limits: ['r'], queue: 'p' }, 4)
    for (let s = 1; s < 3; s++) {
      w.at(s * 1000)
      expect(await w.start({ queue: 'p', worker: other })).toEqual([])
    }
    w.at(3000)
    expect(await w.start({ queue: 'p', worker: other })).toEqual([])
    expect(await w.start()).toEqual(['heavy'])
    w.at(4000)
    expect(await w.start({ queue: 'p', worker: other })).toEqual(['thief1'])
  })

  test('a lane of a queue that no live worker serves delays no other', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 3 } })
    const other = await w.store.join(['p'], 2_000_000)
    await w.add('first', { limits: ['r*3'] })
    await w.start()
    await w.add('heavy', { limits: ['r*3'], queue: 'p' })
    expect(await w.start({ queue: 'p', worker: other })).toEqual([])
    await w.add('light', { limits: ['r'] }, 2)
    w.at(1000)
    expect(await w.start()).toEqual([])
    w.at(2000)
    await w.store.recover()
    expect(await w.start()).toEqual(['light1', 'light2'])
  })

  test('nor does one whose worker has left', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 3 } })
    const other = await w.store.join(['p'], 1e12)
    await w.add('first', { limits: ['r*3'] })
    await w.start()
    await w.add('heavy', { limits: ['r*3'], queue: 'p' })
    expect(await w.start({ queue: 'p', worker: other })).toEqual([])
    await w.add('light', { limits: ['r'] })
    w.at(1000)
    expect(await w.start()).toEqual([])
    await w.store.leave(other)
    expect(await w.start()).toEqual(['light'])
  })

  test('a queue that comes back to life is looked at again', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1 } })
    const other = await w.store.join(['p'], 1_000_000)
    await w.add('p', { limits: ['r'], queue: 'p' }, 2)
    expect(await w.start({ queue: 'p', worker: other })).toEqual(['p1'])
    await w.store.leave(other)
    await w.add('q', { limits: ['r'] }, 3)
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['q1'])
    const again = await w.store.join(['p'], 1e12)
    w.at(2000)
    expect(await w.start({ queue: 'p', worker: again })).toEqual(['p2'])
  })

  test('a line with a full worker in front goes on elsewhere', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s', burst: 1 } })
    await w.add('q', { limits: ['r'] }, 2)
    await w.add('p', { limits: ['r'], queue: 'p' }, 2)
    expect(await w.start({ queues: { q: 1, p: 1 } })).toEqual(['q1'])
    w.at(100)
    expect(await w.start({ queues: { q: 0, p: 1 } })).toEqual(['p1'])
    w.at(200)
    expect(await w.start({ queues: { q: 1, p: 0 } })).toEqual(['q2'])
  })

  test('silent workers in front of two budgets hold up a job that needs both for a moment only', async () => {
    const w = harness()
    const silent = await w.store.join(['p'], 1e12)
    await w.define({ a: { concurrency: 1 }, b: { concurrency: 1 } })
    await w.add('one', { limits: ['a'] })
    await w.add('two', { limits: ['b'] })
    expect(await w.start()).toEqual(['one', 'two'])
    await w.add('first-of-a', { limits: ['a'], queue: 'p' })
    await w.add('first-of-b', { limits: ['b'], queue: 'p' })
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    await w.add('both', { limits: ['a', 'b'] })
    expect(await w.start()).toEqual([])
    await w.complete('one')
    w.at(30)
    await w.complete('two')
    const started: string[] = []
    for (let claims = 0; claims < 10 && started.length === 0; claims++) {
      const { jobs, nextWakeUs } = await w.claim()
      started.push(...jobs.map(({ task }) => task))
      if (nextWakeUs !== null) w.at(w.ms(nextWakeUs) ?? 0)
    }
    expect(started).toEqual(['both'])
    expect(w.ms(w.run('both').startedUs)).toBeLessThanOrEqual(80)
  })

  test('a silent worker that waits for a second budget holds up those behind it for a moment only', async () => {
    const w = harness()
    const silent = await w.store.join(['p'], 1e12)
    await w.define({ a: { concurrency: 1 }, b: { concurrency: 1 } })
    await w.add('one', { limits: ['a'] })
    expect(await w.start()).toEqual(['one'])
    await w.add('first', { limits: ['a', 'b'], queue: 'p' })
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    await w.add('second', { limits: ['a', 'b'] })
    expect(await w.start()).toEqual([])
    await w.add('two', { limits: ['b'] })
    expect(await w.start()).toEqual(['two'])
    await w.complete('one')
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    expect((await w.explain('first')).waitsOn).toEqual({ limit: 'b', key: '' })
    w.at(30)
    await w.complete('two')
    expect(await w.wake()).toBe(80)
    w.at(80)
    expect(await w.start()).toEqual(['second'])
  })

  test('a lane goes before those that the deputy of another worker shadows, also if a silent worker stands behind', async () => {
    const w = harness()
    const silent = await w.store.join(['p'], 1e12)
    await w.define({ a: { concurrency: 1 }, b: { concurrency: 1 } })
    await w.add('one', { limits: ['a'] })
    expect(await w.start()).toEqual(['one'])
    await w.add('first', { limits: ['a', 'b'], queue: 'p', priority: 5 })
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    await w.add('shadowed', { limits: ['a', 'b'], priority: 5 })
    await w.add('low', { limits: ['a'] })
    expect(await w.start()).toEqual([])
    await w.add('behind', { limits: ['a'], queue: 'p' })
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    await w.add('two', { limits: ['b'] })
    expect(await w.start()).toEqual(['two'])
    await w.complete('one')
    expect(await w.start({ worker: silent, queue: 'p' })).toEqual([])
    expect((await w.explain('first')).waitsOn).toEqual({ limit: 'b', key: '' })
    w.at(60)
    expect(await w.start()).toEqual(['low'])
    expect(await w.start()).toEqual([])
  })

  test('a more urgent arrival is looked at, in its own lane and across lanes', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 }, k: { rate: 99, per: '1s' } })
    await w.add('first', { limits: ['r*5', 'k:a'] })
    await w.start()
    await w.add('heavy', { limits: ['r*5', 'k:a'] })
    expect(await w.wake()).toBe(5000)
    await w.add('urgent', { limits: ['r', 'k:a'], priority: 1 })
    expect(await w.wake()).toBe(1000)
    await w.add('more-urgent', { limits: ['r', 'k:b'], priority: 2 })
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['more-urgent'])
    w.at(2000)
    expect(await w.start()).toEqual(['urgent'])
    expect(await w.wake()).toBe(7000)
  })

  test('cancelling a heavy head lets the next of its lane and of its line go', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 }, k: { rate: 99, per: '1s' } })
    await w.add('first', { limits: ['r*5', 'k:a'] })
    await w.start()
    await w.add('heavy', { limits: ['r*5', 'k:a'] })
    await w.add('behind', { limits: ['r', 'k:a'] })
    expect(await w.wake()).toBe(5000)
    await w.add('other', { limits: ['r', 'k:b'] })
    expect(await w.wake()).toBe(5000)
    expect(await w.cancel('heavy')).toBe('cancelled')
    expect(await w.wake()).toBe(1000)
    w.at(2000)
    expect((await w.start()).sort()).toEqual(['behind', 'other'])
  })

  test('a head that moves to another line leaves its old line to the next at once', async () => {
    const w = harness()
    await w.define({ g: { rate: 1, per: '1s', burst: 1 }, t: { rate: 1, per: '1m', burst: 1 } })
    await w.add('a', { limits: ['g', 't:a'] }, 2)
    await w.add('b', { limits: ['g', 't:b'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    w.at(1000)
    expect(await w.start()).toEqual(['b1'])
    await w.add('c', { limits: ['g', 't:c'] })
    expect(await w.wake()).toBe(2000)
    w.at(2000)
    expect(await w.start()).toEqual(['c'])
    w.at(60_000)
    expect(await w.start()).toEqual(['a2'])
    w.at(61_000)
    expect(await w.start()).toEqual(['b2'])
  })

  test('the first in a line is reported once, and its end once', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.add('a', { limits: ['r:x'] }, 4)
    const first = await w.claim()
    expect(first.closed).toEqual([
      {
        limit: 'r',
        key: 'x',
        queue: 'q',
        wanted: 1,
        granted: 2,
        grantedUnits: 2,
        deferred: 1,
        waiting: 2,
        nextAtUs: w.us(1000),
        defined: true,
      },
    ])
    expect(first.released).toEqual([])
    w.at(1000)
    const second = await w.claim()
    expect([second.closed, second.released]).toEqual([[], []])
    w.at(2000)
    const third = await w.claim()
    expect(third.jobs.map((job) => job.task)).toEqual(['a4'])
    expect(third.released).toEqual([{ limit: 'r', key: 'x', deferred: 1, atUs: w.us(2000) }])
    expect(third.closed).toEqual([])
  })

  test('a job that waits for a limit that is not defined is named, with its place in a flow', async () => {
    const w = harness()
    await w.add('plain', { limits: ['later:a'] })
    const id = await w.flow({ kind: 'chain', jobs: { first: {}, second: { limits: ['later:b'] } } })
    const { closed } = await w.claim()
    expect(closed).toMatchObject([{ limit: 'later', key: 'a', defined: false, refused: { task: 'plain' } }])
    expect(closed[0]).not.toHaveProperty('seq')
    expect(closed[0]).not.toHaveProperty('bucket')
    await w.complete('first')
    expect((await w.claim()).closed).toMatchObject([
      { limit: 'later', key: 'b', refused: { task: 'second', flow: { id, node: 1, callback: null } } },
    ])
  })

  test('every job that had to wait is reported once, in one of three ways, by any claimer', async () => {
    const w = harness()
    const second = await w.store.join(['q'], 1e15)
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r:x'] }, 8)
    const told: string[] = []
    for (let ms = 0; ms < 10_000; ms += 500) {
      w.at(ms)
      const claim = await w.claim({ worker: ms % 1000 === 0 ? w.worker : second, eventWindowMs: 3000 })
      for (const each of claim.closed) told.push(`closed@${ms} ${each.deferred}`)
      for (const each of claim.sustained) told.push(`sustained@${ms} ${each.deferred} next ${w.ms(each.nextAtUs)}`)
      for (const each of claim.released) told.push(`released@${ms} ${each.deferred}`)
    }
    expect(told).toEqual(['closed@0 1', 'sustained@3000 2 next 4000', 'sustained@6000 3 next 7000', 'released@7000 1'])
  })

  test('a start says since when the job waited, and for which bucket', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' }, ample: { rate: 100, per: '1s' } })
    await w.add('a', { limits: ['r:x', 'ample'] }, 2)
    expect((await w.claim()).jobs).toMatchObject([{ task: 'a1', waitedFor: null, availableUs: w.us(0) }])
    w.at(1500)
    expect((await w.claim()).jobs).toMatchObject([
      { task: 'a2', waitedFor: { limit: 'r', key: 'x' }, availableUs: w.us(0), startedUs: w.us(1500) },
    ])
  })

  test('a claim that finds nothing to do looks at nothing', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h' } })
    for (let i = 0; i < 20; i++) await w.add(`k${i}-`, { limits: [`r:k${i}`] }, 5)
    await w.start()
    expect((await w.claim()).looks).toBe(0)
  })
}

function instants(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const policies = {
    'a rate': { rate: 3, per: '1s', burst: 1 },
    'a sliding window': { window: 'sliding', max: 2, per: '700ms', guard: 0 },
    'a fixed window': { window: 'fixed', max: 2, per: '700ms' },
    'a spacing': { every: '123ms' },
    'a rate of a prime period': { rate: 7, per: '1013ms' },
  } as const

  test.each(Object.entries(policies))(
    '%s: one microsecond before the named instant nothing starts, at it one does',
    async (_name, policy) => {
      const w = harness()
      await w.define({ r: policy })
      await w.add('a', { limits: ['r'] }, 30)
      await w.start()
      for (let i = 0; i < 8; i++) {
        const next = (await w.wake())!
        w.at(next - 0.001)
        expect(await w.wake()).toBe(next)
        w.at(next)
        expect(await w.start()).not.toEqual([])
      }
    },
  )

  test('a third of a second is rounded up to the microsecond and does not drift', async () => {
    const w = harness()
    await w.define({ r: { rate: 3, per: '1s', burst: 1 } })
    await w.add('a', { limits: ['r'] }, 7)
    const seen: number[] = []
    await w.start()
    for (let i = 0; i < 6; i++) {
      const next = (await w.wake())!
      seen.push(next)
      w.at(next)
      await w.start()
    }
    expect(seen).toEqual([333.334, 666.667, 1000, 1333.334, 1666.667, 2000])
  })

  test('no wake while nothing but a permit is waited for, nor without a slot', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 }, r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['c'] }, 2)
    await w.start()
    expect(await w.wake()).toBeNull()
    await w.add('b', { limits: ['r'] }, 2)
    expect(await w.start()).toEqual(['b1'])
    expect(await w.wake({ slots: 0 })).toBeNull()
    expect(await w.wake({ slots: 1 })).toBe(1000)
  })

  test('the earliest of all lines and of all scheduled jobs is named', async () => {
    const w = harness()
    await w.define({ slow: { rate: 1, per: '1m' }, quick: { rate: 1, per: '5s' } })
    await w.add('s', { limits: ['slow'] }, 2)
    await w.start()
    expect(await w.wake()).toBe(60_000)
    await w.add('f', { limits: ['quick'] }, 2)
    await w.start()
    expect(await w.wake()).toBe(5000)
    await w.add('sched', { runAtMs: w.clock.now() + 2000 })
    expect(await w.wake()).toBe(2000)
  })

  test('the request is read, and then the clock, when the claim is made', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    const claim = await w.store.claim(() => {
      w.at(1000)
      return { worker: w.worker, leaseUs: 1_000_000, queues: [{ queue: 'q', slots: 1 }] }
    })
    expect(claim.nowUs).toBe(w.us(1000))
    expect(claim.jobs.map((job) => job.task)).toEqual(['a2'])
  })

  test('what one claim leaves for want of room is claimed by the next, which is due at once', async () => {
    const w = harness()
    await w.add('s', { runAtMs: w.clock.now() + 1000 }, 1200)
    w.at(1000)
    let started = 0
    for (let claims = 0; started < 1200 && claims < 10; claims++) {
      const claim = await w.claim({ slots: 5000 })
      started += claim.jobs.length
      if (started < 1200) expect(w.ms(claim.nextWakeUs)).toBe(1000)
    }
    expect(started).toBe(1200)
  })

  test("a queue's own limits put the queue to sleep as a whole, and no other", async () => {
    const w = harness()
    await w.define({ ql: { rate: 1, per: '1s' }, r: { rate: 99, per: '1s' } })
    await w.add('plain', {}, 2)
    await w.add('lane', { limits: ['r'] }, 2)
    await w.add('other', { queue: 'p' }, 2)
    await w.declare('q', ['ql'])
    expect(await w.start()).toHaveLength(1)
    expect(await w.wake()).toBe(1000)
    expect(await w.start({ queue: 'p' })).toHaveLength(2)
    const rest: string[] = []
    for (let s = 1; s <= 3; s++) {
      w.at(s * 1000 - 0.001)
      expect(await w.wake()).toBe(s * 1000)
      w.at(s * 1000)
      rest.push(...(await w.start()))
    }
    expect(rest).toHaveLength(3)
  })

  test("a permit of the queue's own limit returns with the settlement", async () => {
    const w = harness()
    await w.define({ ql: { concurrency: 1 } })
    await w.add('a', {}, 2)
    await w.declare('q', ['ql'])
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBeNull()
    await w.complete('a1')
    expect(await w.start()).toEqual(['a2'])
  })
}

function refusals(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('an undefined limit holds only its own jobs, and they run once it is defined', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' } })
    await w.add('unknown', { limits: ['nope:x', 'r'] }, 2)
    await w.add('known', { limits: ['r'] })
    expect(await w.start()).toEqual(['known'])
    expect(await w.wake()).toBeNull()
    expect(await w.bucket('r')).toMatchObject({ available: 8 })
    expect(await w.define({ nope: { rate: 1, per: '1s' } })).toEqual(['nope'])
    expect(await w.start()).toEqual(['unknown1'])
    expect(await w.wake()).toBe(1000)
  })

  test('a limit that drops ends what it cannot start at once', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', onLimit: 'drop' } })
    await w.add('a', { limits: ['r:k'], input: '"in"' }, 3)
    const claim = await w.claim()
    expect(claim.jobs.map((job) => job.task)).toEqual(['a1'])
    expect(claim.rejected).toEqual(
      ['a2', 'a3'].map((name) => ({
        id: w.id(name),
        task: name,
        queue: 'q',
        input: '"in"',
        attempt: 0,
        reason: 'dropped',
        limit: 'r',
        key: 'k',
        expectedStartUs: w.us(1000),
      })),
    )
    expect(await w.get('a2')).toMatchObject({ state: 'discarded', error: { code: 'limit.rejected' } })
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 0, waiting: 0, debt: 0 })
    expect(await w.wake()).toBeNull()
  })

  test('a job that cannot start within its maxWait learns it at once, and uses no budget', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '2500ms' } })
    await w.add('a', { limits: ['r'] }, 6)
    const claim = await w.claim()
    expect(claim.jobs.map((job) => job.task)).toEqual(['a1'])
    expect(claim.rejected.map(({ task, reason }) => [task, reason])).toEqual([
      ['a4', 'late'],
      ['a5', 'late'],
      ['a6', 'late'],
    ])
    w.at(1000)
    expect(await w.start()).toEqual(['a2'])
    w.at(2000)
    expect(await w.start()).toEqual(['a3'])
    expect(await w.wake()).toBeNull()
  })

  test('a job is not late while the end of an override may let it start in time', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1s', burst: 1, maxWait: '4s' } })
    await w.override('r', { rate: 1, per: '10s' }, 1000)
    await w.add('a', { limits: ['r'] }, 20)
    const started = await w.start()
    // No sooner than that, and not known better: the rules change then.
    for (const id of ['a2', 'a9'])
      expect(await w.explain(id)).toMatchObject({ expectedStartUs: w.us(1000), exact: false })
    for (let claims = 0; claims < 40; claims++) {
      const { jobs, rejected, nextWakeUs } = await w.claim()
      expect(rejected).toEqual([])
      started.push(...jobs.map(({ task }) => task))
      if (nextWakeUs === null || started.length === 20) break
      w.at(w.ms(nextWakeUs) ?? 0)
    }
    expect(started).toEqual(Array.from({ length: 20 }, (_, i) => `a${i + 1}`))
  })

  test('one that comes too late even then is told when the override is over', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '3s', burst: 1, maxWait: '2s' } })
    await w.override('r', { rate: 1, per: '1h' }, 1000)
    await w.add('a', { limits: ['r'] }, 3)
    expect(await w.start()).toEqual(['a1'])
    w.at(1000)
    expect((await w.claim()).rejected).toHaveLength(2)
  })

  test('a job that can start exactly at the end of its maxWait does', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', maxWait: '1s' } })
    await w.add('a', { limits: ['r'] }, 3)
    expect((await w.claim()).rejected.map((job) => job.task)).toEqual(['a3'])
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['a2'])
  })

  test('a job whose maxWait ends while it waits for a permit is discarded when it is over', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1, maxWait: '5s' } })
    await w.add('a', { limits: ['c'] }, 2)
    await w.start()
    w.at(5000)
    expect((await w.claim()).rejected).toEqual([])
    const next = (await w.wake())!
    expect(next).toBe(5000.001)
    w.at(next)
    const { rejected } = await w.claim()
    expect(rejected.map(({ task, reason, limit }) => [task, reason, limit])).toEqual([['a2', 'late', 'c']])
    await w.complete('a1')
    expect(await w.wake()).toBeNull()
  })

  test('a limit that reschedules sends a job to its expected start, and it rejoins its lane then', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.states('a2')).toEqual(['scheduled'])
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['a2'])
  })

  test('of several limits that refuse, one that drops decides', async () => {
    const w = harness()
    await w.define({
      drops: { rate: 1, per: '1s', onLimit: 'drop' },
      waits: { rate: 1, per: '1h' },
    })
    await w.add('a', { limits: ['drops', 'waits'] }, 2)
    expect((await w.claim()).rejected).toMatchObject([{ task: 'a2', reason: 'dropped' }])
  })

  test('a job that has expired before it could start is discarded and never runs', async () => {
    const w = harness()
    await w.add('soon', { expiresAtMs: w.clock.now() + 1000 })
    await w.add('later', { expiresAtMs: w.clock.now() + 2000 })
    w.at(1500)
    const claim = await w.claim()
    expect(claim.jobs.map((job) => job.task)).toEqual(['later'])
    expect(claim.rejected).toMatchObject([{ task: 'soon', reason: 'expired', limit: '', key: '' }])
    expect(await w.get('soon')).toMatchObject({ state: 'discarded', error: { code: 'job.expired' } })
  })
}

function outcomes(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a settlement that cannot be written is refused alone: those that are made with it are kept', async () => {
    const w = harness()
    await w.add('a', {}, 20)
    await w.start()
    const unwritable = {
      message: 'no',
      get code(): string {
        throw new TypeError('not this one')
      },
    }
    const answers = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) =>
        i === 7 || i === 12
          ? w.settle(`a${i + 1}`, { kind: 'retry', delayUs: 0, error: unwritable })
          : w.settle(`a${i + 1}`),
      ),
    )
    expect(answers.flatMap(({ status }, i) => (status === 'rejected' ? [i] : []))).toEqual([7, 12])
    expect(answers[7]).toMatchObject({ reason: { message: 'not this one' } })
    expect(await w.states('a7', 'a8', 'a9', 'a13', 'a20')).toEqual([
      'completed',
      'active',
      'completed',
      'active',
      'completed',
    ])
    await w.complete('a8', 'a13')
  })

  test('a completed job keeps its result, a discarded one its error', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.start()
    w.at(5)
    expect(await w.settle('a1', { kind: 'complete', result: '{"rows":3}' })).toEqual({
      kind: 'settled',
      state: 'completed',
    })
    expect(await w.settle('a2', { kind: 'discard', error: FAILURE })).toEqual({ kind: 'settled', state: 'discarded' })
    expect(await w.get('a1')).toMatchObject({ state: 'completed', result: '{"rows":3}', finishedUs: w.us(5) })
    expect(await w.get('a2')).toMatchObject({ state: 'discarded', error: FAILURE, finishedUs: w.us(5) })
  })

  test('a retry pays again and keeps its place and its attempt count', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 2 } })
    await w.add('a', { limits: ['r'] }, 4)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.retry('a1')).toEqual({ kind: 'settled', state: 'available' })
    w.at(1000)
    expect(await w.start()).toEqual(['a1'])
    expect(w.run('a1').attempt).toBe(2)
    expect(await w.wake()).toBe(2000)
  })

  test('a delayed retry is retryable until its instant, then goes before those that came after it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s' } })
    await w.add('a', { limits: ['r'] }, 3)
    await w.start()
    expect(await w.retry('a1', 4000)).toEqual({ kind: 'settled', state: 'retryable' })
    expect(await w.get('a1')).toMatchObject({ state: 'retryable', dueUs: w.us(4000), error: FAILURE })
    expect(await w.wake()).toBe(4000)
    w.at(4000)
    expect(await w.wake()).toBe(10_000)
    expect(await w.states('a1')).toEqual(['available'])
    w.at(10_000)
    expect(await w.start()).toEqual(['a1'])
  })

  test('a retry without limits starts at its instant, not before', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.retry('a', 250)
    w.at(249.999)
    expect(await w.wake()).toBe(250)
    w.at(250)
    expect(await w.start()).toEqual(['a'])
  })

  test('push-back closes the bucket for everybody, costs no attempt, and leaves one token', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1s' } })
    await w.add('a', { limits: ['r:k'] }, 6)
    await w.add('other', { limits: ['r:o'] })
    await w.start(1)
    await w.settle('a1', { kind: 'push-back', limit: 'r', key: 'k', closedForUs: 7_000_000, error: FAILURE })
    expect(await w.get('a1')).toMatchObject({ state: 'available', attempt: 0 })
    expect(await w.start()).toEqual(['other'])
    expect(await w.wake()).toBe(7000)
    w.at(6999.999)
    expect(await w.wake()).toBe(7000)
    w.at(7000)
    expect(await w.start()).toEqual(['a1'])
    expect(w.run('a1')).toMatchObject({ attempt: 1, pushedBack: 1 })
    expect(await w.wake()).toBe(7200)
  })

  test('push-back without a limit puts the job off', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.settle('a', { kind: 'push-back', limit: null, key: '', closedForUs: 3_000_000, error: FAILURE })
    expect(await w.get('a')).toMatchObject({ state: 'retryable', attempt: 0, dueUs: w.us(3000) })
    w.at(3000)
    expect(await w.start()).toEqual(['a'])
    expect(w.run('a')).toMatchObject({ attempt: 1, pushedBack: 1 })
    await w.retry('a')
    await w.start()
    expect(w.run('a')).toMatchObject({ attempt: 2, pushedBack: 0 })
  })

  test('a spacing beside a rate holds too: one start at a time, and no more than the rate', async () => {
    const w = harness()
    await w.define({ r: { rate: 3, per: '10s', every: '1s' } })
    await w.add('a', { limits: ['r'] }, 5)
    const starts: [number, string[]][] = []
    for (let next: number | null = 0; next !== null && starts.length < 5; next = await w.wake()) {
      w.at(next)
      starts.push([next, await w.start()])
      for (const id of starts.at(-1)?.[1] ?? []) await w.complete(id)
    }
    expect(starts).toEqual([
      [0, ['a1']],
      [1000, ['a2']],
      [2000, ['a3']],
      [3333.334, ['a4']],
      [6666.667, ['a5']],
    ])
  })

  test('push-back of a bucket that the job does not stand under closes it and puts the job off as well', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1s' }, s: { rate: 5, per: '1s' } })
    await w.add('a', { limits: ['r:k'] })
    await w.start(1)
    const refusal = {
      kind: 'push-back',
      limit: 's',
      key: 'x',
      closedForUs: 3_000_000,
      apart: true,
      error: FAILURE,
    } as const
    await w.settle('a', refusal)
    expect(await w.get('a')).toMatchObject({ state: 'retryable', attempt: 0, dueUs: w.us(3000) })
    await w.add('other', { limits: ['s:x'] })
    expect(await w.start()).toEqual([])
    w.at(3000)
    expect((await w.start()).toSorted()).toEqual(['a', 'other'])
    expect(w.run('a')).toMatchObject({ attempt: 1, pushedBack: 1 })
  })

  test('a snooze schedules the job, counts no attempt, returns its permits, and pays again', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', concurrency: 1 } })
    await w.add('a', { limits: ['r'], attempts: 1 })
    for (const at of [0, 12_000, 24_000]) {
      w.at(at)
      expect(await w.start()).toEqual(['a'])
      expect(w.run('a')).toMatchObject({ attempt: 1, uses: [{ limit: 'r', weight: 1 }] })
      expect(await w.settle('a', { kind: 'snooze', delayUs: 12_000_000 })).toEqual({
        kind: 'settled',
        state: 'scheduled',
      })
      expect(await w.get('a')).toMatchObject({ state: 'scheduled', attempt: 0, finishedUs: null, result: null })
      expect(await w.bucket('r')).toMatchObject({ active: 0 })
      expect(await w.wake()).toBe(at + 12_000)
    }
    await w.add('b', { limits: ['r'] })
    w.at(34_000)
    expect(await w.start()).toEqual(['b'])
    await w.complete('b')
    w.at(36_000)
    expect([await w.start(), await w.wake()]).toEqual([[], 44_000])
    w.at(44_000)
    expect(await w.start()).toEqual(['a'])
    await w.complete('a')
    expect(await w.states('a')).toEqual(['completed'])
  })

  test('a snooze for no time lets the job start again at the next claim', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.settle('a', { kind: 'snooze', delayUs: 0 })
    expect(await w.start()).toEqual(['a'])
  })

  test('a snooze ends a row of push-backs, and keeps the failures and the attempts before it', async () => {
    const w = harness()
    await w.add('a', { attempts: 3 })
    await w.start()
    await w.retry('a')
    for (let i = 0; i < 3; i++) {
      await w.start()
      await w.settle('a', { kind: 'push-back', limit: null, key: '', closedForUs: 0, error: FAILURE })
    }
    await w.start()
    expect(w.run('a')).toMatchObject({ attempt: 2, pushedBack: 3 })
    await w.settle('a', { kind: 'snooze', delayUs: 1_000_000 })
    expect(await w.get('a')).toMatchObject({ state: 'scheduled', attempt: 1, error: FAILURE })
    w.at(1000)
    await w.start()
    expect(w.run('a')).toMatchObject({ attempt: 2, pushedBack: 1 })
    await w.retry('a')
    await w.start()
    expect(w.run('a')).toMatchObject({ attempt: 3, pushedBack: 0 })
  })

  test('a snooze of a job that a caller has cancelled ends it, and a snoozed job can be cancelled', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.start()
    await w.store.cancel(w.id('a1'))
    expect(await w.settle('a1', { kind: 'snooze', delayUs: 1_000_000 })).toMatchObject({ state: 'cancelled' })
    await w.settle('a2', { kind: 'snooze', delayUs: 1_000_000 })
    expect(await w.store.cancel(w.id('a2'))).toMatchObject({ kind: 'cancelled' })
    expect(await w.states('a1', 'a2')).toEqual(['cancelled', 'cancelled'])
    w.at(2000)
    expect(await w.start()).toEqual([])
  })

  test('what is given back keeps its place and its attempt', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] }, 2)
    await w.start()
    expect(await w.settle('a1', { kind: 'give-back' })).toEqual({ kind: 'settled', state: 'available' })
    expect(await w.get('a1')).toMatchObject({ attempt: 0, state: 'available' })
    expect(await w.start()).toEqual(['a1'])
    expect(w.run('a1').attempt).toBe(1)
  })

  test('settlements made together are answered each for itself', async () => {
    const w = harness()
    await w.add('a', {}, 4)
    await w.start()
    const [done, retried, lost, twice] = await Promise.all([
      w.settle('a1'),
      w.retry('a2', 1000),
      w.settle('a3', { kind: 'complete', result: null }, w.worker + 1),
      w.settle('a4'),
    ])
    expect([done, retried, lost, twice]).toEqual([
      { kind: 'settled', state: 'completed' },
      { kind: 'settled', state: 'retryable' },
      { kind: 'lost' },
      { kind: 'settled', state: 'completed' },
    ])
    expect(await w.settle('a4', { kind: 'discard', error: FAILURE })).toEqual({ kind: 'lost' })
    expect(await w.states('a3', 'a4')).toEqual(['active', 'completed'])
  })

  test.each<[string, Outcome]>([
    ['an end', { kind: 'complete', result: null }],
    ['a retry', { kind: 'retry', delayUs: 1_000_000, error: FAILURE }],
    ['a push-back', { kind: 'push-back', limit: null, key: '', closedForUs: 1_000_000, error: FAILURE }],
    ['a give-back', { kind: 'give-back' }],
    ['a snooze', { kind: 'snooze', delayUs: 0 }],
  ])(
    'of settlements of one run that are made together the first counts, and no other: %s first',
    async (_name, first) => {
      const w = harness()
      await w.define({ c: { concurrency: 2 } })
      await w.add('a', { limits: ['c'] }, 3)
      await w.start()
      const answers = await Promise.all([
        w.settle('a1', first),
        ...Array.from({ length: 29 }, (_, i) =>
          w.settle('a1', i % 2 ? { kind: 'complete', result: String(i) } : { kind: 'discard', error: FAILURE }),
        ),
      ])
      expect(answers.map(({ kind }) => kind)).toEqual(['settled', ...Array.from({ length: 29 }, () => 'lost')])
      const ofFirst = await w.states('a1')
      expect(ofFirst).toEqual([(answers[0] as { state: string }).state])
      expect(await w.start(100)).toHaveLength(1)
    },
  )

  test('many runs that complete together keep each its own result, and return each its permits', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 12 } })
    await w.add('a', {}, 6)
    await w.add('b', { limits: ['c'] }, 12)
    expect(await w.start(30)).toHaveLength(18)
    expect(await w.bucket('c')).toMatchObject({ active: 12 })
    const names = [
      ...Array.from({ length: 6 }, (_, i) => `a${i + 1}`),
      ...Array.from({ length: 12 }, (_, i) => `b${i + 1}`),
    ]
    const result = (i: number): string | null => (i % 6 < 5 ? (i < 6 ? null : '"same"') : String(i))
    const answers = await Promise.all(
      names.map((name, i) => w.settle(name, { kind: 'complete', result: result(i) }, w.worker + (i === 2 ? 1 : 0))),
    )
    expect(answers.map(({ kind }) => kind)).toEqual(names.map((_, i) => (i === 2 ? 'lost' : 'settled')))
    const records = await Promise.all(names.map((name) => w.get(name)))
    expect(records.map((record) => record.result)).toEqual(names.map((_, i) => (i === 2 ? null : result(i))))
    expect(records.map((record) => record.state)).toEqual(names.map((_, i) => (i === 2 ? 'active' : 'completed')))
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
  })

  test('after many that only ended, runs that complete together are still answered each for itself', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 2 } })
    const complete = (name: string): Promise<unknown> => w.settle(name, { kind: 'complete', result: null })
    for (const name of ['a', 'b']) {
      await w.add(name, {}, 5)
      await w.start(5)
      const ends = [1, 2, 3, 4, 5].map((n) => complete(`${name}${n}`))
      expect(await Promise.all(ends)).toEqual(ends.map(() => ({ kind: 'settled', state: 'completed' })))
    }
    await w.add('d', {}, 5)
    await w.add('p', { limits: ['c'] }, 2)
    expect(await w.start(7)).toHaveLength(7)
    await complete('d3')
    const answers = await Promise.all(['d1', 'd2', 'd3', 'd4', 'd5', 'p1', 'p2'].map(complete))
    const kinds = ['settled', 'settled', 'lost', 'settled', 'settled', 'settled', 'settled']
    expect(answers).toMatchObject(kinds.map((kind) => ({ kind })))
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
    expect(await w.states('d3', 'd5', 'p2')).toEqual(['completed', 'completed', 'completed'])
  })

  test('a settlement of a worker that has lost its run does not count beside that of the one that has it', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    const answers = await Promise.all([
      w.settle('a', { kind: 'complete', result: '1' }, w.worker + 1),
      w.settle('a', { kind: 'complete', result: '2' }),
    ])
    expect(answers.map(({ kind }) => kind)).toEqual(['lost', 'settled'])
  })
}
