import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness } from './store-harness.ts'

/** Changes of limits while they run: overrides, pauses, their ends, and the record of all that. */
export function overrides(backend: StoreBackend): void {
  describe('in force', () => inForce(backend))
  describe('ends', () => ends(backend))
  describe('pauses', () => pauses(backend))
  describe('permits', () => permits(backend))
  describe('records', () => records(backend))
}

function inForce(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('lanes that wait are re-timed at once, to an earlier and to a later instant', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1m' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.start()
    expect(await w.wake()).toBe(60_000)
    await w.override('r', { per: '2s' })
    expect(await w.wake()).toBe(2000)
    await w.override('r', { per: '1h' })
    expect(await w.wake()).toBe(3_600_000)
    await w.clear('r')
    expect(await w.wake()).toBe(60_000)
  })

  test('the level carries over, fraction included, and nothing is refilled for free', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '2s' } })
    await w.add('a', { limits: ['r'] }, 4)
    await w.start()
    w.at(1000)
    await w.override('r', { per: '10s' })
    expect(await w.wake()).toBe(6000)
    w.at(3000)
    await w.override('r', { rate: 10, per: '10s' })
    // 0.5 + 2 s of a tenth each: 0.7 of a unit, the rest at one per second.
    expect(await w.wake()).toBe(3300)
  })

  test('a burst that was lowered does not come back with the old one, only its refill does', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r'] })
    await w.start()
    await w.override('r', { burst: 4 })
    expect(await w.bucket('r')).toMatchObject({ available: 4, capacity: 4 })
    await w.clear('r')
    expect(await w.bucket('r')).toMatchObject({ available: 4, capacity: 10 })
    w.at(2000)
    expect(await w.bucket('r')).toMatchObject({ available: 6, capacity: 10 })
  })

  test('a key wins over its limit, that over the definition, each in what it names', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s', burst: 3 } })
    await w.override('r', { burst: 5, per: '20s' })
    await w.override('r:vip', { burst: 8 })
    expect(await w.bucket('r', 'vip')).toMatchObject({ available: 8 })
    expect(await w.bucket('r', 'other')).toMatchObject({ available: 5 })
    await w.add('v', { limits: ['r:vip'] }, 9)
    await w.add('o', { limits: ['r:other'] }, 6)
    expect(await w.start()).toHaveLength(13)
    // The period comes from the limit's override, for both.
    expect(await w.wake()).toBe(2000)
    await w.clear('r')
    expect(await w.bucket('r', 'vip')).toMatchObject({ capacity: 8 })
    expect(await w.bucket('r', 'other')).toMatchObject({ capacity: 3 })
    expect(await w.wake()).toBe(1000)
  })

  test('an override of one key leaves the others as they are', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s' } })
    for (const key of ['a', 'b']) await w.add(key, { limits: [`r:${key}`] }, 2)
    await w.start()
    await w.override('r:b', { per: '40s' })
    expect(await w.wake()).toBe(10_000)
    w.at(10_000)
    expect(await w.start()).toEqual(['a2'])
    expect(await w.wake()).toBe(40_000)
  })

  test('it outlives new definitions, which change only what it does not name', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.override('r', { rate: 5 })
    await w.define({ r: { rate: 1, per: '2s' } })
    await w.add('a', { limits: ['r'] }, 6)
    expect(await w.start()).toHaveLength(5)
    expect(await w.wake()).toBe(400)
    await w.clear('r')
    expect(await w.wake()).toBe(2000)
  })

  test('what no longer fits a limit that was defined as something else is left out', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.override('r', { rate: 5, concurrency: 2 })
    await w.define({ r: { window: 'sliding', max: 9, per: '1s', guard: 0 } })
    await w.add('a', { limits: ['r'] }, 4)
    expect(await w.start()).toEqual(['a1', 'a2'])
    await w.define({ r: { rate: 1, per: '1s' } })
    expect(await w.bucket('r')).toMatchObject({ capacity: 5 })
  })

  test('what does not fit a limit is refused, and changes nothing', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' }, c: { concurrency: 2 } })
    for (const change of [{}, { max: 5 }, { every: '1s' }, { rate: 0 }, { per: '1x' as '1s' }, { rates: 1 } as object])
      await expect(w.override('r', change)).rejects.toMatchObject({ code: 'policy.invalid' })
    await expect(w.override('c', { rate: 1, per: '1s' })).rejects.toMatchObject({ code: 'policy.invalid' })
    await expect(w.override('c', { concurrency: null })).rejects.toMatchObject({ code: 'policy.invalid' })
    await expect(w.override('unknown', { rate: 1 })).rejects.toMatchObject({ code: 'limit.unknown' })
    expect(await w.store.overrides()).toEqual([])
    expect(await w.bucket('r')).toMatchObject({ capacity: 1, overrides: [] })
  })

  test('the longest wait of a job that arrives is that of its key', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', maxWait: '10s' } })
    await w.override('r:k', { maxWait: null })
    await w.add('a', { limits: ['r:k'] }, 2)
    await w.add('b', { limits: ['r:l'] }, 2)
    expect((await w.claim()).rejected.map((job) => job.task)).toEqual(['b2'])
    w.at(20_000)
    expect((await w.claim()).rejected).toEqual([])
  })

  test('a limit that was undefined when a penalty came is used as a new one once it is defined', async () => {
    const w = harness()
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.start()
    await w.store.penalize('r', 'k', w.us(500))
    await w.define({ r: { rate: 2, per: '2s' } })
    expect(await w.start()).toEqual(['a1', 'a2'])
  })
}

function ends(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('the claim says to come when one ends, and that re-times what waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '2s' } })
    await w.add('a', { limits: ['r:k'] }, 4)
    await w.start()
    await w.override('r:k', { per: '1h' }, 7200)
    expect(await w.wake()).toBe(7200)
    w.at(7200)
    // 7.2 s at one per hour have refilled 0.002 of a unit.
    expect(await w.wake()).toBe(7200 + 1996)
    w.at(7200 + 1996)
    expect(await w.start()).toEqual(['a2'])
  })

  test.runIf('reopen' in backend)(
    'calls of plain code see at once what another process changes, and when that ends',
    async () => {
      const w = harness()
      await w.define({ r: { rate: 1, per: '10s', burst: 2 } })
      const other = await w.reopen(backend)
      const call = async (): Promise<unknown[]> => {
        const request = { uses: [{ limit: 'r', key: '', weight: 1 }], priority: 0, line: 0, permit: 'p', leaseUs: 1e6 }
        const [answer] = await w.store.budgets.acquire([request])
        return [answer?.kind, answer?.kind === 'denied' && w.ms(w.startUs + (answer.retryAfterUs ?? Infinity))]
      }
      expect(await call()).toEqual(['granted', false])
      await other.override('r', { rate: 10, burst: 3 }, 2000)
      // 1 of 2 units was left.
      expect(await call()).toEqual(['granted', false])
      expect(await call()).toEqual(['denied', 1000])
      // The override has filled the bucket, and its end leaves a burst of 2.
      w.at(4000)
      expect(await call()).toEqual(['granted', false])
      expect(await call()).toEqual(['granted', false])
      expect(await call()).toEqual(['denied', 10_000])
    },
  )

  test('an end without a claim counts from its own moment', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r'] }, 10)
    await w.start()
    await w.override('r', { per: '1000s' }, 4000)
    w.at(7000)
    expect(await w.bucket('r')).toMatchObject({ available: 3, overrides: [] })
    await w.add('b', { limits: ['r'] }, 5)
    expect(await w.start()).toEqual(['b1', 'b2', 'b3'])
    expect(await w.wake()).toBe(7960)
  })

  test('several ends are met one by one, each in its turn', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '10s' } })
    await w.add('a', { limits: ['r:k'] }, 11)
    await w.start()
    await w.override('r', { per: '100s' }, 5000)
    await w.override('r:k', { per: '20s' }, 2000)
    w.at(9000)
    // 2 s at a half, 3 s at a tenth, 4 s at one per second: 5.3 units.
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 5 })
    expect((await w.store.overrides()).map((each) => w.ms(each.ended?.atUs))).toEqual([5000, 2000])
  })

  test('a new one takes the place of the old one, with its end', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '2s' } })
    await w.override('r', { per: '10s' }, 1000)
    await w.override('r', { per: '20s' })
    w.at(2000)
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    expect(await w.wake()).toBe(22_000)
  })

  test('a limit without waiting jobs is in force again when the time is over', async () => {
    const w = harness()
    await w.define({ w: { window: 'sliding', max: 2, per: '1m', guard: 0 } })
    await w.override('w', { max: 5 }, 1000)
    await w.add('a', { limits: ['w'] }, 4)
    expect(await w.start()).toHaveLength(4)
    w.at(1000)
    await w.add('b', { limits: ['w'] })
    expect(await w.wake()).toBe(60_000)
  })

  test('a bucket that is full under an override is not forgotten: when that ends, it is not full', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', burst: 10 } })
    await w.override('r', { burst: 2 })
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    await w.complete('a1', 'a2')
    w.at(200_000)
    while ((await w.store.prune(100)) > 0);
    await w.clear('r')
    expect(await w.bucket('r')).toMatchObject({ available: 2, capacity: 10 })
  })
}

function pauses(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a pause holds all starts, and a resume lets them go at once', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s' } })
    await w.pause('r')
    await w.add('a', { limits: ['r:k'] }, 2)
    expect(await w.wake()).toBeNull()
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 0, waiting: 2, nextStartUs: null })
    expect(await w.resume('r')).toBe(true)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.resume('r')).toBe(false)
  })

  test('a paused key holds no other', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s' } })
    await w.pause('r:a')
    for (const key of ['a', 'b']) await w.add(key, { limits: [`r:${key}`] })
    expect(await w.start()).toEqual(['b'])
    await w.resume('r:a')
    expect(await w.start()).toEqual(['a'])
  })

  test('a pause ends by itself, at the instant', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s' } })
    await w.pause('r', 1500)
    await w.add('a', { limits: ['r'] })
    expect(await w.wake()).toBe(1500)
    expect(await w.bucket('r')).toMatchObject({ nextStartUs: w.us(1500) })
    const pause = { untilUs: w.us(1500), expectedStartUs: w.us(1500), exact: false, overrides: [{ kind: 'pause' }] }
    expect(await w.explain('a')).toMatchObject(pause)
    w.at(1499.999)
    expect(await w.start()).toEqual([])
    w.at(1500)
    expect(await w.start()).toEqual(['a'])
  })

  test('a job under a pause without an end has no expected start, whichever of its limits is paused', async () => {
    const w = harness()
    const defined = {
      rate: { rate: 5, per: '5s' },
      every: { every: '1s' },
      window: { window: 'fixed', max: 5, per: '5s' },
    }
    await w.define(defined as Parameters<typeof w.define>[0])
    const limits = ['rate', 'every', 'window']
    for (const limit of limits) await w.add(limit, { limits: [limit] })
    await w.add('all', { limits })
    for (const limit of limits) await w.pause(limit)
    expect(await w.start()).toEqual([])
    w.at(1000)
    for (const id of [...limits, 'all']) expect((await w.explain(id)).expectedStartUs).toBe(null)
    for (const limit of ['rate', 'every']) await w.resume(limit)
    expect((await w.explain('rate')).expectedStartUs).not.toBe(null)
    expect((await w.explain('all')).expectedStartUs).toBe(null)
  })

  test('a pause of the limit holds a key beside any override, and leaves that as it was', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.override('c:k', { concurrency: 2 })
    await w.pause('c')
    await w.add('a', { limits: ['c:k'] }, 3)
    expect(await w.start()).toEqual([])
    await w.resume('c')
    expect(await w.start()).toEqual(['a1', 'a2'])
  })

  test('a budget refills while it is paused, to its bound', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.add('a', { limits: ['r'] }, 9)
    await w.start()
    await w.pause('r')
    w.at(60_000)
    await w.resume('r')
    expect(await w.start()).toEqual(['a3', 'a4'])
    expect(await w.wake()).toBe(61_000)
  })

  test('a paused limit of a queue puts it to sleep until it is resumed', async () => {
    const w = harness()
    await w.define({ own: { rate: 9, per: '1s' } })
    await w.pause('own', 800)
    await w.add('a')
    await w.declare('q', ['own'])
    expect(await w.wake()).toBe(800)
    w.at(800)
    expect(await w.start()).toEqual(['a'])
  })
}

function permits(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('jobs that are active when an override brings permits hold theirs, also when one that lifted them ends', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' }, c: { rate: 9, per: '1s', concurrency: 2 } })
    await w.add('a', { limits: ['r:k'] }, 2)
    await w.override('c', { concurrency: null }, 500)
    await w.add('b', { limits: ['c'] }, 3)
    expect(await w.start()).toHaveLength(5)
    await w.override('r:k', { concurrency: 2 })
    await w.add('a3', { limits: ['r:k'] })
    w.at(500)
    await w.add('b4', { limits: ['c'] })
    expect(await w.start()).toEqual([])
    await w.complete('a1', 'b1')
    expect(await w.start()).toEqual(['a3'])
    await w.complete('b2')
    expect(await w.start()).toEqual(['b4'])
    expect(await w.bucket('c')).toMatchObject({ active: 2 })
  })

  test('the same for the limits of a queue, with and without limits of the jobs', async () => {
    const w = harness()
    await w.define({ ql: { rate: 99, per: '1s' }, r: { rate: 99, per: '1s' } })
    await w.add('open', {}, 2)
    await w.add('laned', { limits: ['r'] }, 2)
    await w.declare('q', ['ql'])
    expect(await w.start({ slots: 2 })).toHaveLength(2)
    await w.override('ql', { concurrency: 3 })
    expect(await w.bucket('ql')).toMatchObject({ active: 2 })
    const [third] = await w.start()
    expect(await w.start()).toEqual([])
    await w.complete(third!)
    expect(await w.start()).toHaveLength(1)
    expect(await w.bucket('ql')).toMatchObject({ active: 3 })
    await w.clear('ql')
    await w.complete(...['open1', 'open2', 'laned1', 'laned2'].filter((name) => name !== third))
    expect(await w.bucket('ql')).toMatchObject({ active: 0 })
  })

  test('a job of two keys of one limit holds a permit of each, and gives both back', async () => {
    const w = harness()
    await w.define({ r: { rate: 99, per: '1s' } })
    await w.add('a', { limits: ['r:k', 'r:l'] })
    await w.start()
    await w.override('r', { concurrency: 1 })
    expect(await w.store.inspect('r')).toMatchObject([{ active: 1 }, { active: 1 }])
    await w.complete('a')
    expect(await w.store.inspect('r')).toMatchObject([{ active: 0 }, { active: 0 }])
  })

  test('a permit that was held before a bound was lifted counts once when it is back', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 2 }, d: { rate: 99, per: '1s', concurrency: 2 } })
    await w.add('a', { limits: ['d'] })
    await w.start()
    await w.override('d', { concurrency: null })
    await w.clear('d')
    expect(await w.bucket('d')).toMatchObject({ active: 1 })
    await w.add('b', { limits: ['d'] }, 2)
    expect(await w.start()).toEqual(['b1'])
  })

  test('a pause and a resume leave permits as they are', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 2 } })
    await w.add('a', { limits: ['c'] }, 3)
    await w.start()
    await w.pause('c')
    await w.complete('a1')
    expect(await w.start()).toEqual([])
    await w.resume('c')
    expect(await w.start()).toEqual(['a3'])
    expect(await w.bucket('c')).toMatchObject({ active: 2 })
  })
}

function records(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('who changed what, why and until when is kept, also when it is over', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    const override = { limit: 'r', key: 'k', kind: 'override', change: { rate: 5 }, by: 'ann', reason: 'sale' } as const
    await w.store.override({ ...override, untilUs: w.us(9000) })
    w.at(100)
    await w.store.override({ ...override, change: null, untilUs: null, by: 'bob', reason: 'sold out' })
    w.at(200)
    await w.pause('r', 300)
    w.at(400)
    const of = { limit: 'r', untilUs: null, by: null, reason: null, ended: null }
    expect(await w.store.overrides('r')).toEqual([
      {
        ...override,
        sinceUs: w.us(0),
        untilUs: w.us(9000),
        ended: { atUs: w.us(100), by: 'bob', reason: 'sold out' },
      },
      {
        ...of,
        key: null,
        kind: 'pause',
        change: { concurrency: 0 },
        sinceUs: w.us(200),
        untilUs: w.us(300),
        ended: { atUs: w.us(300), by: null, reason: null },
      },
    ])
    expect(await w.store.overrides('other')).toEqual([])
    expect(await w.clear('r:k')).toBe(false)
  })

  test('the record is bounded, and what it forgets refills no bucket', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10000s', burst: 3000 } })
    await w.add('a', { limits: ['r*500'] })
    await w.start()
    await w.override('r:other', { rate: 2 })
    for (let i = 0; i < 1100; i++) await w.override('r', { burst: 2000 + i })
    await w.pause('r:k', 50)
    w.at(100)
    expect((await w.store.overrides()).length).toBe(1102)
    for (let i = 0; i < 5; i++) await w.store.prune(1000)
    const kept = await w.store.overrides('r')
    expect(kept.length).toBeLessThan(520)
    expect(kept[0]).toMatchObject({ key: 'other', ended: null })
    expect(kept.at(-1)).toMatchObject({ kind: 'pause', key: 'k', ended: { atUs: w.us(50) } })
    expect(kept.filter((each) => each.ended === null).map((each) => each.change)).toEqual([
      { rate: 2 },
      { burst: 3099 },
    ])
    await w.clear('r')
    expect(await w.bucket('r')).toMatchObject({ available: 2000, capacity: 3000 })
  })

  test.runIf('reopen' in backend)(
    'what one process changes holds in all, and after all of them have gone',
    async () => {
      const w = harness()
      await w.define({ r: { rate: 1, per: '1m' } })
      await w.add('a', { limits: ['r'] }, 4)
      await w.start()
      await w.wake()
      const other = await w.reopen(backend)
      await other.override('r', { per: '2s' }, 5000)
      expect(await w.wake()).toBe(2000)
      await other.store.close()
      const third = await w.reopen(backend)
      await third.define({ r: { rate: 1, per: '1m' } })
      expect(await third.wake()).toBe(2000)
      w.at(2000)
      expect(await third.start()).toEqual(['a2'])
      expect(await third.wake()).toBe(4000)
      w.at(4000)
      expect(await third.start()).toEqual(['a3'])
      w.at(6000)
      // Half a unit was left at 5 s; from then on one per minute.
      expect(await third.wake()).toBe(5000 + 30_000)
      await third.store.close()
    },
  )
}
