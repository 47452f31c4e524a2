// The cost of a call of plain code on PostgreSQL. A bucket's lock is held for one turn of the caller only.
import { beforeEach, expect, test } from 'vitest'
import type { UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { eachWatchedStore } from '../store/postgres-watched.ts'

withPostgres('the round trips of plain code on PostgreSQL', () => {
  const watched = eachWatchedStore('calls')

  beforeEach(async () => {
    const { store } = watched()
    await store.define([{ name: 'r', policy: normalisePolicy({ rate: 3, per: '1h' }, 'r'), version: 0 }])
  })

  const request = (key: string): UnitRequest => ({
    uses: [{ limit: 'r', key, weight: 1 }],
    priority: 0,
    permit: 'none',
    leaseUs: 1e6,
    line: 0,
  })
  const acquire = async (...keys: string[]): Promise<string[]> =>
    (await watched().store.budgets.acquire(keys.map(request))).map(({ kind }) => kind)

  test('are two where budgets are known, however many there are', async () => {
    const { pool } = watched()
    // The first call reads the limits.
    await acquire('c')
    await acquire('a', 'b')
    pool.queries.length = 0
    expect(await acquire('a')).toEqual(['granted'])
    expect(pool.queries).toHaveLength(2)
    pool.queries.length = 0
    expect(await acquire('a', 'b')).toEqual(['granted', 'granted'])
    expect(pool.queries).toHaveLength(2)
    expect(await acquire('a')).toEqual(['denied'])
  })

  test('a bucket that was forgotten in between is made again', async () => {
    expect(await acquire('a', 'a', 'a', 'a')).toEqual(['granted', 'granted', 'granted', 'denied'])
    await watched().sql('DELETE FROM buckets')
    expect(await acquire('a', 'b', 'a')).toEqual(['granted', 'granted', 'granted'])
    expect(await acquire('a', 'a')).toEqual(['granted', 'denied'])
  })

  test('a call that meets a bucket which another is about to make waits for it without a lock', async () => {
    const { store, pool } = watched()
    await acquire('a')
    const uses = ['a', 'new'].map((key) => ({ limit: 'r', key, weight: 1 }))
    const reserve = (permit: string) => store.budgets.reserve({ ...request(''), uses, permit }, 1e12)
    // The first has made the bucket, and has locked nothing when the second looks for it the second time.
    const later: Promise<unknown>[] = []
    pool.before = async (text) => {
      if (!text.includes('lock_buckets') || later.length > 0) return
      const seen = pool.queries.length
      later.push(reserve('second'))
      await expect.poll(() => pool.queries.slice(seen).some((each) => each.includes('own_buckets'))).toBe(true)
    }
    expect(await reserve('first')).toMatchObject({ kind: 'booked' })
    expect(await later[0]).toMatchObject({ kind: 'booked' })
    expect([...pool.errors]).toEqual([])
  })

  test('calls at once outlive that a bucket of theirs is forgotten', async () => {
    const { pool, sql } = watched()
    await acquire('a')
    for (let i = 0; i < 3; i++) {
      await acquire(`kept ${i}`, 'gone')
      await sql("DELETE FROM buckets WHERE key = 'gone'")
      const answers = await Promise.all([acquire('gone'), acquire(`kept ${i}`, `a${i}`), acquire(`kept ${i}`, `b${i}`)])
      expect(answers.flat()).toEqual(Array.from({ length: 5 }, () => 'granted'))
    }
    expect([...pool.errors]).toEqual([])
  })

  test('the end of an override is written without a search for unreadable rows', async () => {
    const { store, pool } = watched()
    const change = { rate: 1_000_000 }
    const untilUs = store.nowUs() + 1000
    await store.override({ limit: 'r', key: null, kind: 'override', change, untilUs, by: null, reason: null })
    while (store.nowUs() <= untilUs) await acquire('b')
    pool.queries.length = 0
    expect(await acquire('a')).toEqual(['granted'])
    expect(pool.queries.filter((text) => text.includes('weights IS NOT NULL'))).toEqual([])
  })
})
