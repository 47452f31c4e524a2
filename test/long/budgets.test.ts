// Plain code that takes from each of very many keys once.
import { describe, expect, it } from 'vitest'
import { limit, useOf } from '../../src/policy/limits/define.ts'
import { StoreLimiter } from '../../src/store/limiter/store-limiter.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import type { StoreBackend } from '../conformance/store/backend.ts'
import { postgresBackend } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'

const AT_ONCE = 500
const MB = 2 ** 20

function manyKeys(kind: StoreBackend, keys: number): void {
  describe(`plain code on ${kind.name}`, () => {
    it(`takes from ${keys.toLocaleString('en')} keys once each, and forgets them`, async () => {
      const clock = createManualClock()
      const store = await kind.open(clock)
      const limiter = new StoreLimiter({ store, clock, closed: () => store.close() })
      const { policy } = useOf(limit('crm', { rate: 10, per: '1s' }))
      await limiter.define([{ name: 'crm', policy, version: 0 }])
      const take = async (from: number): Promise<number> => {
        const requests = Array.from({ length: AT_ONCE }, (_, i) => ({
          uses: [{ limit: 'crm', key: `tenant ${from + i}`, weight: 1 }],
          priority: 0,
          line: i,
          permit: `${from + i}`,
          leaseUs: 1_000_000,
        }))
        return (await limiter.acquire(requests)).filter(({ kind: answer }) => answer === 'granted').length
      }
      await take(0)
      const before = process.memoryUsage().rss
      let granted = AT_ONCE
      for (let from = AT_ONCE; from < keys; from += AT_ONCE) granted += await take(from)
      expect(granted).toBe(keys)
      expect(process.memoryUsage().rss - before).toBeLessThan(200 * MB)
      expect(await limiter.inspect({ limit: 'crm', key: 'tenant 7' })).toMatchObject({ available: 9 })
      await clock.advance('1m')
      while ((await store.prune(10_000)) > 0);
      expect(await store.limitTotals(['crm'])).toEqual([])
      expect(await limiter.inspect({ limit: 'crm', key: 'tenant 7' })).toMatchObject({ available: 10 })
      await limiter.close()
    })
  })
}

manyKeys(sqliteBackend('SQLite', 'file'), 1_000_000)
withPostgres('many keys on PostgreSQL', () => manyKeys(postgresBackend('PostgreSQL'), 200_000))
