// Backends that carry a call out and whose answer is late or lost.
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { createLimiter, limit, type Limiter } from '../../src/exports/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'

/** A backend that carries some verbs out, and whose answers come late or never. */
class LossyBackend extends MemoryBackend {
  override readonly isLocal = false as never
  isReset = false
  /** Resolves when late answers come. */
  late: Promise<void> | null = null

  async #told<T>(answer: Promise<T>): Promise<T> {
    const known = await answer
    if (this.isReset) throw new Error('connection reset')
    await this.late
    return known
  }

  override charge(...args: Parameters<MemoryBackend['charge']>): Promise<void> {
    return this.#told(super.charge(...args))
  }

  override reserve(...args: Parameters<MemoryBackend['reserve']>): ReturnType<MemoryBackend['reserve']> {
    return this.#told(super.reserve(...args))
  }

  override confirm(...args: Parameters<MemoryBackend['confirm']>): ReturnType<MemoryBackend['confirm']> {
    return this.#told(super.confirm(...args))
  }
}

describe('a backend that carries out what it cannot tell', () => {
  const limiters: Limiter[] = []
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
  })

  const quota = limit('quota', { window: 'sliding', max: 10, per: '1h' })
  const one = limit('one', { concurrency: 1 })

  function lossy() {
    const backend = new LossyBackend(systemClock)
    const limiter = createLimiter({ backend, limits: [quota, one] })
    limiters.push(limiter)
    return { backend, limiter, left: async () => (await limiter.inspect(quota)).available }
  }

  it('returns units once', async () => {
    const { backend, limiter, left } = lossy()
    const permit = await limiter.acquire([quota.weight(5)])
    backend.isReset = true
    await expect(limiter.charge(quota, -1, permit)).rejects.toMatchObject({ code: 'limiter.backend_down' })
    backend.isReset = false
    expect(await left()).toBe(6)
  })

  it('keeps no reservation and no start whose caller was told that it is down', async () => {
    const { backend, limiter, left } = lossy()
    const { id } = await limiter.reserve([quota, one], { atMost: '1s' })
    const { promise, resolve } = Promise.withResolvers<void>()
    backend.late = promise
    const told = await Promise.allSettled([limiter.confirm(id), limiter.reserve([quota], { atMost: '1s' })])
    expect(told.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(await left()).toBe(8)
    backend.late = null
    resolve()
    await expect.poll(left).toBe(10)
    await expect.poll(async () => (await limiter.inspect(one)).active).toBe(0)
  })
})
