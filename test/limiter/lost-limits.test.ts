// Each call of a process gives its limits to a Redis that has lost them.
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter, RateLimited } from '../../src/exports/limiter.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()
const api = limit('api', { rate: 100, per: '1h', burst: 50 })
const later = limit('later', { rate: 100, per: '1h', burst: 50 })

describe.skipIf(client === null)('limits on Redis', () => {
  const limiters: Limiter[] = []
  const names: string[] = []
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
    for (const name of names.splice(0)) await clear(client!, name)
  })
  afterAll(async () => client?.close())

  function open() {
    const name = namespace()
    const limiter = createLimiter({ backend: REDIS ?? '', namespace: name, limits: [api] })
    const told: string[] = []
    limiter.on('rate_limit.backend_reset', () => told.push('reset'))
    limiters.push(limiter)
    names.push(name)
    return { limiter, name, told }
  }

  const VERBS: readonly (readonly [string, (limiter: Limiter) => Promise<unknown>])[] = [
    ['acquire', (limiter) => limiter.acquire([api])],
    ['run', (limiter) => limiter.run([api], () => true)],
    ['reserve', (limiter) => limiter.reserve([api], { atMost: '1s' })],
    ['inspect', (limiter) => limiter.inspect(api)],
    ['override', (limiter) => limiter.override(api, { rate: 50 })],
    ['pause', (limiter) => limiter.pause(api)],
    ['penalize', (limiter) => limiter.penalize(api, '1s')],
    ['charge', (limiter) => limiter.charge(api, 3)],
  ]

  it.each(VERBS)('that are lost are there again for %s, and that is told once', async (_, verb) => {
    const { limiter, name, told } = open()
    await limiter.acquire([api])
    await clear(client!, name)
    await verb(limiter)
    expect(await limiter.inspect(api)).toMatchObject({ limit: 'api' })
    expect(told).toEqual(['reset'])
  })

  it('that are lost while a call runs still close for as long as its answer asks', async () => {
    const { limiter, name } = open()
    let calls = 0
    const run = limiter.run([api], async () => {
      if (calls++ > 0) return 'done'
      await clear(client!, name)
      throw new RateLimited({ retryAfter: '1h' })
    })
    run.catch(() => undefined)
    await expect.poll(async () => (await limiter.inspect(api)).available).toBe(0)
    expect(calls).toBe(1)
  })

  it('that are added while the first are defined are defined too, and nothing is told', async () => {
    for (let pauses = 0; pauses < 4; pauses++) {
      const { limiter, told } = open()
      const first = limiter.acquire([api])
      for (let n = 0; n < pauses; n++) await new Promise((resolve) => setImmediate(resolve))
      limiter.define([later])
      await first
      expect(await limiter.inspect(later)).toMatchObject({ limit: 'later' })
      await limiter.acquire([later])
      expect(told).toEqual([])
    }
  })
})
