// A limiter without jobs that takes from each of very many keys once: its process stays small, and the server forgets.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter } from '../../src/exports/limiter.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { connect } from '../limiter/redis-server.ts'

const KEYS = 1_000_000
const AT_ONCE = 500
const MB = 2 ** 20
const crm = limit('crm', { rate: 10, per: '1s' })

/** Takes once from each key. @returns by how much the process has grown */
async function takeEach(limiter: Limiter): Promise<number> {
  await limiter.acquire([crm.key('first')])
  const before = process.memoryUsage().rss
  for (let from = 0; from < KEYS; from += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => limiter.acquire([crm.key(from + i)], { wait: true })))
  return process.memoryUsage().rss - before
}

describe('1,000,000 keys once each', () => {
  it('at most 150 bytes a key and what the runtime itself takes in memory, and a key that is gone reads as new', async () => {
    const clock = createManualClock()
    const limiter = createLimiter({ backend: 'memory:', limits: [crm], clock })
    expect(await takeEach(limiter)).toBeLessThan(KEYS * 150 + 200 * MB)
    expect(await limiter.inspect(crm.key(7))).toMatchObject({ available: 9 })
    await clock.advance('1m')
    expect(await limiter.inspect(crm.key(7))).toMatchObject({ available: 10, active: 0 })
    await limiter.close()
  })

  describe.skipIf(!HAS_REDIS_SERVER)('on a Redis of the test’s own', () => {
    let redis: OwnRedis
    beforeAll(async () => {
      redis = await OwnRedis.start()
    })
    afterAll(() => redis.kill())

    it('leave the process small and the server empty', async () => {
      const admin = await connect(redis.url)
      const limiter = createLimiter({ backend: redis.url, namespace: 'many', limits: [crm] })
      expect(await takeEach(limiter)).toBeLessThan(200 * MB)
      // Each is gone 100 ms after its start; a server looks for such keys in turns.
      const left = async (): Promise<number> => Number(await admin.sendCommand(['DBSIZE']))
      await expect.poll(left, { timeout: 60_000 }).toBeLessThan(10)
      expect(await limiter.inspect(crm.key(7))).toMatchObject({ available: 10, active: 0 })
      await limiter.close()
      await admin.close()
    })
  })
})
