// The cost of a call of plain code on PostgreSQL. A bucket's lock is held for one turn of the caller only.
import { Pool } from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { dropSchema } from '../drop-schema.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { WatchedPool } from '../store/postgres-watched.ts'

withPostgres('the round trips of plain code on PostgreSQL', () => {
  let count = 0
  let schema: string
  let pool: WatchedPool
  let store: PostgresStore

  beforeEach(async () => {
    schema = `sluice_calls_${process.pid}_${++count}`
    pool = new WatchedPool()
    store = new PostgresStore({ connection: pool, schema, clock: systemClock, retention: RETENTION, notify: false })
    await store.open()
    await store.define([{ name: 'r', policy: normalisePolicy({ rate: 3, per: '1h' }, 'r'), version: 0 }])
  })

  afterEach(async () => {
    await store.close()
    await pool.end()
    const admin = new Pool({ connectionString: POSTGRES_URL, max: 1 })
    await dropSchema(admin, schema)
    await admin.end()
  })

  const request = (key: string): UnitRequest => ({
    uses: [{ limit: 'r', key, weight: 1 }],
    priority: 0,
    permit: 'none',
    leaseUs: 1e6,
    line: 0,
  })
  const acquire = async (...keys: string[]): Promise<string[]> =>
    (await store.budgets.acquire(keys.map(request))).map(({ kind }) => kind)

  test('are two where budgets are known, however many there are', async () => {
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
    const admin = new Pool({ connectionString: POSTGRES_URL, max: 1 })
    await admin.query(`DELETE FROM ${schema}.buckets`)
    await admin.end()
    expect(await acquire('a', 'b', 'a')).toEqual(['granted', 'granted', 'granted'])
    expect(await acquire('a', 'a')).toEqual(['granted', 'denied'])
  })

  test('calls at once with a new bucket each wait for no deadlock', async () => {
    await acquire('a')
    const uses = (i: number): UnitRequest['uses'] => ['a', `new ${i}`].map((key) => ({ limit: 'r', key, weight: 1 }))
    const reserve = (i: number) => store.budgets.reserve({ ...request(''), uses: uses(i), permit: `${i}` }, 1e12)
    for (let i = 0; i < 20; i++) await Promise.all([i, i, i, i, i + 1].map(reserve))
    expect([...pool.errors]).toEqual([])
  })

  test('calls at once outlive that a bucket of theirs is forgotten', async () => {
    const admin = new Pool({ connectionString: POSTGRES_URL, max: 1 })
    for (let i = 0; i < 20; i++) {
      await acquire('kept', 'gone')
      await admin.query(`DELETE FROM ${schema}.buckets WHERE key = 'gone'`)
      await Promise.all([acquire('gone'), acquire('kept', `a${i}`), acquire('kept', `b${i}`)])
    }
    await admin.end()
    expect([...pool.errors]).toEqual([])
  })

  test('the end of an override is written without a search for unreadable rows', async () => {
    const change = { rate: 1_000_000 }
    const untilUs = store.nowUs() + 1000
    await store.override({ limit: 'r', key: null, kind: 'override', change, untilUs, by: null, reason: null })
    while (store.nowUs() <= untilUs) await acquire('b')
    pool.queries.length = 0
    expect(await acquire('a')).toEqual(['granted'])
    expect(pool.queries.filter((text) => text.includes('weights IS NOT NULL'))).toEqual([])
  })
})
