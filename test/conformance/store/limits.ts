import { describe, expect, test } from 'vitest'
import type { BucketUse } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness } from './store-harness.ts'

/** Policies, the state of their buckets, and the reports on both. */
export function limits(backend: StoreBackend): void {
  describe('definitions', () => definitions(backend))
  describe('corrections', () => corrections(backend))
  describe('reports', () => reports(backend))
}

function definitions(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('the names whose policy changed are answered', async () => {
    const w = harness()
    expect(await w.define({ a: { rate: 1, per: '1s' }, b: { concurrency: 2 } })).toEqual(['a', 'b'])
    expect(await w.define({ a: { rate: 1, per: '1s' }, b: { concurrency: 3 } })).toEqual(['b'])
  })

  test('the higher version wins; at the same version the later call does', async () => {
    const w = harness()
    await w.define({ a: { concurrency: 1 } }, 2)
    expect(await w.define({ a: { concurrency: 7 } }, 1)).toEqual([])
    expect(await w.define({ a: { concurrency: 2 } }, 2)).toEqual(['a'])
    expect(await w.define({ a: { concurrency: 3 } }, 5)).toEqual(['a'])
    expect(await w.store.limits()).toMatchObject([{ name: 'a', version: 5, policy: { concurrency: 3 } }])
  })

  test('every declared limit is listed', async () => {
    const w = harness()
    expect(await w.store.limits()).toEqual([])
    await w.define({ b: { concurrency: 2 }, a: { rate: 1, per: '1s' } })
    expect((await w.store.limits()).map((limit) => limit.name).sort()).toEqual(['a', 'b'])
  })

  test('a change carries the level over and refills nothing for free', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r'] }, 8)
    expect(await w.start()).toHaveLength(8)
    await w.define({ r: { rate: 100, per: '10s', burst: 100 } })
    expect(await w.bucket('r')).toMatchObject({ available: 2, capacity: 100 })
    await w.add('b', { limits: ['r'] }, 5)
    expect(await w.start()).toEqual(['b1', 'b2'])
    expect(await w.wake()).toBe(100)
  })

  test('lanes that wait are re-timed at once, to an earlier and to a later instant', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1m' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.start()
    expect(await w.wake()).toBe(60_000)
    await w.define({ r: { rate: 1, per: '2s' } })
    expect(await w.wake()).toBe(2000)
    await w.define({ r: { rate: 1, per: '1h' } })
    expect(await w.wake()).toBe(3_600_000)
  })

  test('a change counts from its own moment, for buckets that no claim has touched since', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r'] }, 10)
    await w.start()
    w.at(1000)
    await w.define({ r: { rate: 10, per: '100s' } })
    w.at(11_000)
    expect(await w.bucket('r')).toMatchObject({ available: 2 })
  })

  test('more permits let waiting jobs go, fewer hold the next until enough have returned', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] }, 6)
    expect(await w.start()).toEqual(['a1'])
    await w.define({ c: { concurrency: 3 } })
    expect(await w.start()).toEqual(['a2', 'a3'])
    await w.define({ c: { concurrency: 1 } })
    await w.complete('a1', 'a2')
    expect(await w.start()).toEqual([])
    await w.complete('a3')
    expect(await w.start()).toEqual(['a4'])
  })

  test('jobs that are active when a limit gets permits hold theirs', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    await w.define({ r: { rate: 9, per: '1s', concurrency: 2 } })
    await w.add('b', { limits: ['r'] }, 2)
    expect(await w.start()).toEqual([])
    await w.complete('a1')
    expect(await w.start()).toEqual(['b1'])
    expect(await w.bucket('r')).toMatchObject({ active: 2 })
  })

  test('permits taken under a limit that has none any more are given back without harm', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s', concurrency: 1 } })
    await w.add('a', { limits: ['r'] }, 3)
    await w.start()
    await w.define({ r: { rate: 9, per: '1s' } })
    expect(await w.start()).toEqual(['a2', 'a3'])
    await w.complete('a1', 'a2', 'a3')
    expect(await w.bucket('r')).toMatchObject({ active: 0 })
  })
}

function corrections(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a penalty closes a bucket, re-times its line, and is not shortened by an earlier one', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.add('a', { limits: ['r:k'] }, 4)
    await w.start()
    expect(await w.wake()).toBe(1000)
    await w.store.penalize('r', 'k', w.us(9000))
    expect(await w.wake()).toBe(9000)
    await w.store.penalize('r', 'k', w.us(4000))
    expect(await w.wake()).toBe(9000)
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 0 })
    w.at(9000)
    expect(await w.start()).toEqual(['a3'])
    expect(await w.wake()).toBe(10_000)
  })

  test('what the other side has left bounds the starts until its reset, and who waits is re-timed', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r:k'] }, 12)
    expect(await w.start()).toHaveLength(10)
    expect(await w.wake()).toBe(1000)
    const told = { remaining: 1, resetUs: w.us(5000), direction: 'down', reset: 'window' } as const
    expect(await w.store.calibrate('r', 'k', told)).toBe(true)
    expect(await w.store.calibrate('r', 'k', told)).toBe(false)
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['a11'])
    expect(await w.wake()).toBe(5000)
    w.at(5000)
    expect(await w.start()).toEqual(['a12'])
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 3 })
  })

  test('the level that the other side tells is taken down, and up only where that is asked for', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    const told = { remaining: 4, resetUs: w.us(5000), direction: 'down', reset: 'refill' } as const
    await w.store.calibrate('r', 'k', told)
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 4 })
    await w.store.calibrate('r', 'k', { ...told, remaining: 8 })
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 4 })
    await w.store.calibrate('r', 'k', { ...told, remaining: 800, direction: 'both' })
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 10, debt: 0 })
    await w.store.calibrate('nowhere', 'k', told)
  })

  test('a penalty on an unused bucket holds its first job', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.store.penalize('r', 'k', w.us(500))
    await w.add('a', { limits: ['r:k'] })
    expect(await w.wake()).toBe(500)
  })

  test('a higher cost than was charged goes into debt, which later starts pay', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r*5'] })
    await w.start()
    await w.store.charge('r', '', 8, w.us(0))
    expect(await w.bucket('r')).toMatchObject({ available: 0, debt: 3 })
    await w.add('b', { limits: ['r'] })
    expect(await w.wake()).toBe(4000)
    w.at(4000)
    expect(await w.start()).toEqual(['b'])
  })

  test('a line is re-timed when its bucket is charged, up and down', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r*10'] }, 2)
    await w.start()
    expect(await w.wake()).toBe(10_000)
    await w.store.charge('r', '', 5, w.us(0))
    expect(await w.wake()).toBe(15_000)
    await w.store.charge('r', '', -7, w.us(0))
    expect(await w.wake()).toBe(8000)
  })

  test('what comes back is at most what was taken, and never more than a full bucket', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r*4'] })
    await w.start()
    await w.store.charge('r', '', -4, w.us(0))
    expect(await w.bucket('r')).toMatchObject({ available: 10 })
    w.at(5000)
    await w.add('b', { limits: ['r'] }, 10)
    expect(await w.start()).toHaveLength(10)
    await w.store.charge('r', '', -4, w.us(0))
    expect(await w.bucket('r')).toMatchObject({ available: 0, debt: 0 })
  })
}

function reports(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a bucket reports what is free, owed, held, waited for, and until when', async () => {
    const w = harness()
    await w.define({ r: { rate: 4, per: '4s', concurrency: 3 } })
    await w.add('a', { limits: ['r:k'] }, 6)
    await w.start()
    expect(await w.store.inspect('r', 'k')).toEqual([
      {
        limit: 'r',
        key: 'k',
        available: 0,
        debt: 0,
        capacity: 4,
        active: 3,
        waiting: 3,
        nextStartUs: null,
        drainedUs: null,
        overrides: [],
      },
    ])
    await w.define({ r: { rate: 4, per: '4s' } })
    expect(await w.start()).toEqual(['a4'])
    expect(await w.bucket('r', 'k')).toMatchObject({
      waiting: 2,
      nextStartUs: w.us(1000),
      drainedUs: w.us(2000),
    })
  })

  test('a read of an unused bucket shows a new one, and stores none', async () => {
    const w = harness()
    await w.define({ r: { rate: 4, per: '4s' } })
    expect(await w.store.inspect('r', 'fresh')).toEqual([
      {
        limit: 'r',
        key: 'fresh',
        available: 4,
        debt: 0,
        capacity: 4,
        active: 0,
        waiting: 0,
        nextStartUs: null,
        drainedUs: null,
        overrides: [],
      },
    ])
    expect(await w.store.inspect('r')).toEqual([])
    expect(await w.store.inspect('unknown')).toEqual([])
    expect(await w.store.inspect('unknown', 'k')).toEqual([])
  })

  test('all buckets of a limit are reported', async () => {
    const w = harness()
    await w.define({ r: { rate: 4, per: '4s' }, s: { rate: 1, per: '1s' } })
    for (const key of ['b', 'a', 'c']) await w.add(key, { limits: [`r:${key}`, 's'] })
    expect((await w.store.inspect('r')).map((bucket) => bucket.key).sort()).toEqual(['a', 'b', 'c'])
  })

  test('a waiting job is explained: why, since when, until when, in which place', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    w.at(10)
    await w.add('a', { limits: ['r:k'] }, 4)
    await w.start()
    w.at(20)
    expect(await w.explain('a4')).toMatchObject({
      job: { task: 'a4', state: 'available' },
      uses: [{ limit: 'r', key: 'k', weight: 1 }],
      waitsOn: { limit: 'r', key: 'k' },
      position: 3,
      sinceUs: w.us(10),
      untilUs: w.us(1010),
      expectedStartUs: w.us(3010),
      exact: true,
    })
  })

  test('a job that waits for its time is explained and exported with its limits, weights and share', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h' }, s: { rate: 9, per: '1h' } })
    const runAtMs = w.clock.now() + 50_000
    await w.add('alone', { limits: ['r:k"', 's*7'], runAtMs })
    await w.add('shared', { limits: ['r:b', 's*2'], share: 3, runAtMs })
    // A claim takes in all that has come. Neither job waits for its limits yet.
    expect(await w.start()).toEqual([])
    const expected = {
      alone: { uses: [use('r', 'k"'), use('s', '', 7)], share: 1 },
      shared: { uses: [use('r', 'b'), use('s', '', 2)], share: 3 },
    }
    for (const [name, needs] of Object.entries(expected)) {
      expect(await w.explain(name)).toMatchObject({ ...needs, job: { state: 'scheduled' } })
      expect(await w.store.storedJobs([w.id(name)])).toMatchObject([needs])
    }
  })

  test('the expected start counts priority, weights, and says when it is no more than likely', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 }, k: { rate: 9, per: '1s' } })
    await w.add('drain', { limits: ['r*5', 'k:a'] })
    await w.start()
    await w.add('a', { limits: ['r*2', 'k:a'] }, 2)
    await w.add('urgent', { limits: ['r*3', 'k:a'], priority: 1 })
    await w.start()
    expect(await w.explain('urgent')).toMatchObject({ position: 1, expectedStartUs: w.us(3000) })
    expect(await w.explain('a2')).toMatchObject({ position: 3, expectedStartUs: w.us(7000), exact: false })
  })

  test('a job that waits for a permit has no instant, one that does not wait has no place', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] }, 2)
    await w.start()
    expect(await w.explain('a2')).toMatchObject({
      waitsOn: { limit: 'c', key: '' },
      position: 1,
      untilUs: null,
      expectedStartUs: null,
      exact: false,
    })
    expect(await w.explain('a1')).toMatchObject({ waitsOn: null, position: null, job: { state: 'active' } })
  })
}

function use(limit: string, key: string, weight = 1): BucketUse {
  return { limit, key, weight }
}
