// Real servers behind a network that loses requests and answers: units that no start used return, once.
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLimiter, limit, type Limiter, RateLimitRejected } from '../../src/exports/limiter.ts'
import { ACQUIRE } from '../../src/limiter/redis/lua/embedded.ts'
import { scriptOf } from '../../src/limiter/redis/client.ts'
import { service } from '../services.ts'
import { LossyProxy } from './lossy-proxy.ts'
import { namespace } from './redis-server.ts'

const NATS = await service('nats', 'lost refunds on NATS')
const REDIS = await service('redis', 'lost refunds on Redis')

const quota = limit('quota', { window: 'sliding', max: 5, per: '1h' })
const total = limit('total', { window: 'sliding', max: 5, per: '1h' })
const { hash } = scriptOf(ACQUIRE)

/** The servers, and whether a writing tells what became of it when its answer was lost. */
const SERVERS = [
  ['NATS', NATS, true, (sent: string) => sent.includes('Nats-Expected-Last-Subject-Sequence')],
  ['Redis', REDIS, false, (sent: string) => sent.includes(hash)],
] as const

describe.each(SERVERS)('a limiter whose way to %s loses answers', (_, server, tells, writes) => {
  async function opened() {
    const proxy = await LossyProxy.before(server!)
    const name = namespace()
    const open = (backend: string): Limiter => {
      const limiter = createLimiter({ backend, namespace: name, limits: [quota, total] })
      onTestFinished(() => limiter.close())
      return limiter
    }
    const [limiter, witness] = [open(proxy.url), open(server!)]
    const left = async (): Promise<number> => (await witness.inspect(quota)).available
    /** All units that are left may be used, and no more. */
    const usable = async (units: number): Promise<void> => {
      for (let n = 0; n < units; n++) await witness.acquire([quota], { wait: false })
      await expect(witness.acquire([quota], { wait: false })).rejects.toThrow(RateLimitRejected)
    }
    await limiter.acquire([quota])
    return { proxy, limiter, witness, left, usable }
  }

  it.skipIf(server === null)('gives back a start whose caller was told that the backend is down', async () => {
    const { proxy, limiter, left, usable } = await opened()
    proxy.holdsAnswersTo = writes
    await expect(limiter.acquire([quota], { wait: false })).rejects.toThrow(RateLimitRejected)
    await expect.poll(left).toBe(3)
    proxy.release()
    await expect.poll(left).toBe(4)
    await usable(4)
  })

  it.skipIf(server === null || !tells)(
    'gives it back also if the answer never comes, and others have started since',
    async () => {
      const { proxy, limiter, witness, left, usable } = await opened()
      proxy.holdsAnswersTo = writes
      await expect(limiter.acquire([quota], { wait: false })).rejects.toThrow(RateLimitRejected)
      await expect.poll(left).toBe(3)
      await witness.acquire([quota])
      proxy.cut()
      await expect.poll(left).toBe(3)
      await usable(3)
    },
  )

  it.skipIf(server === null || !tells)('gives back one of several buckets that was charged alone', async () => {
    const { proxy, limiter, left, usable } = await opened()
    await limiter.acquire([quota, total])
    proxy.holdsAnswersTo = writes
    await expect(limiter.acquire([quota, total], { wait: false })).rejects.toThrow(RateLimitRejected)
    await expect.poll(left).toBe(2)
    proxy.cut()
    await expect.poll(left).toBe(3)
    await usable(3)
  })

  it.skipIf(server === null).each([
    ['answer', 3, (proxy: LossyProxy) => (proxy.holdsAnswersTo = writes)],
    ['request', 2, (proxy: LossyProxy) => (proxy.swallows = writes)],
  ] as const)('gives units back once whose %s is lost', async (_lost, carriedOut, lose) => {
    const { proxy, limiter, left, usable } = await opened()
    const start = await limiter.acquire([quota.weight(3)])
    await limiter.charge(quota, -1, start)
    expect(await left()).toBe(2)
    lose(proxy)
    await expect(limiter.charge(quota, -1, start)).rejects.toMatchObject({ code: 'limiter.backend_down' })
    await expect.poll(left).toBe(carriedOut)
    proxy.watches = writes
    proxy.cut()
    await expect.poll(() => proxy.seen).toBeGreaterThan(0)
    await expect.poll(left).toBe(3)
    await limiter.charge(quota, 1)
    await usable(2)
  })
})
