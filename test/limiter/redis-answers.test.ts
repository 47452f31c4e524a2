// A real Redis, or the client of it, that answers a script in another shape than its own grants nothing.
import { Redis } from 'ioredis'
import { createClient, RESP_TYPES } from 'redis'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter, type LimiterOptions } from '../../src/exports/limiter.ts'
import { redisBackend } from '../../src/exports/redis.ts'
import { ACQUIRE, CHANGE, PERMITS, READ, SWAP } from '../../src/limiter/redis/lua/embedded.ts'
import { scriptOf } from '../../src/limiter/redis/client.ts'
import { request } from '../../src/testing/limiter-suite/subject.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()
const api = limit('api', { rate: 10, per: '1h', concurrency: 5 })
const NOW = "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] "

describe.skipIf(client === null)('a Redis that answers in another shape', () => {
  const name = namespace()
  const limiters: Limiter[] = []
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
    await clear(client!, name)
  })
  afterAll(async () => client?.close())

  /** The server as it is, but with another text in place of one of its scripts. */
  function replaced(script: string, text: () => string | null) {
    const { hash } = scriptOf(script)
    return {
      sendCommand: (args: string[]): Promise<unknown> => {
        const instead = args[0] === 'EVALSHA' && args[1] === hash ? text() : null
        return client!.sendCommand(instead === null ? args : ['EVAL', instead, ...args.slice(2)])
      },
    }
  }

  function limiterOn(backend: LimiterOptions['backend'], more: Partial<LimiterOptions> = {}) {
    const limiter = createLimiter({ backend, limits: [api], ...more })
    limiters.push(limiter)
    const told: string[] = []
    limiter.on('rate_limit.backend_down', ({ error }) => told.push(((error as Error).cause as Error).message))
    return { limiter, told }
  }

  it.each([
    ['no list', 'return 1'],
    ['null', 'return false'],
    ['a text', "return 'OK'"],
    ['an empty list', 'return {}'],
    ['no answer', 'return {now}'],
    ['an answer too much', 'return {now, 0, 0}'],
    ['an answer of null', 'return {now, false}'],
    ['an answer that is a text', "return {now, '0'}"],
    ['a clock that is a text', "return {'5', 0}"],
    ['a list of texts', "return {now, {'0', '1', '500', '0'}}"],
    ['a list of numbers and texts', "return {now, {0, 1, '500', 0}}"],
    ['an empty answer', 'return {now, {}}'],
    ['an answer of another kind', 'return {now, {7, 1, 2}}'],
    ['a grant without a bucket of its permit', 'return {now, {1, 0}}'],
    ['a grant of a bucket that was not asked for', 'return {now, {1, 0, 2}}'],
    ['a denial that ends early', 'return {now, {0, 1}}'],
    ['a denial by a bucket that was not asked for', 'return {now, {0, 2, 500, 0}}'],
    ['an unknown limit without its bucket', 'return {now, {2}}'],
  ])('grants nothing for %s, unless failMode is open', async (_, text) => {
    let isBroken = false
    const backend = redisBackend(
      replaced(ACQUIRE, () => (isBroken ? NOW + text : null)),
      { namespace: name },
    )
    const { limiter, told } = limiterOn(backend)
    const open = limiterOn(backend, { failMode: 'open' })
    for (const each of [limiter, open.limiter]) await (await each.acquire([api])).release()
    isBroken = true
    await expect(limiter.acquire([api], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
    await open.limiter.acquire([api], { wait: false })
    isBroken = false
    expect(await open.limiter.inspect(api)).toMatchObject({ grantedBlindly: 1, available: 5 })
    for (const each of [told, open.told]) expect(each).toEqual([expect.stringMatching(/^Redis answer/)])
  })

  it.each([
    ['no list', "return 'OK'"],
    ['an empty list', 'return {}'],
    ['no permits of the bucket', "return {now, redis.call('HGET', KEYS[1], ''), false}"],
    ['permits that are a text', "return {now, redis.call('HGET', KEYS[1], ''), false, '0'}"],
    ['a state that is a number', "return {now, redis.call('HGET', KEYS[1], ''), 5, 0}"],
    ['a clock that is a text', "return {'5', redis.call('HGET', KEYS[1], ''), false, 0}"],
  ])('decides nothing here by a reading of %s', async (_, text) => {
    let isBroken = false
    const backend = redisBackend(
      replaced(READ, () => (isBroken ? NOW + text : null)),
      { namespace: name },
    )
    await limiterOn(backend).limiter.acquire([api])
    isBroken = true
    await expect(backend.reserve(request('api', { permit: 'booked' }), 1e9)).rejects.toThrow(/^Redis answer/)
    await expect(backend.inspect({ limit: 'api', key: '' })).rejects.toThrow(/^Redis answer/)
    isBroken = false
    expect(await backend.cancel('booked')).toBe(false)
    expect(await backend.inspect({ limit: 'api', key: '' })).toMatchObject({ active: 1 })
  })

  it.each([
    [SWAP, "return '1'"],
    [CHANGE, "return '1'"],
    [PERMITS, "return {'1'}"],
    [PERMITS, 'return {}'],
  ])('takes no other answer for a write', async (script, text) => {
    const backend = redisBackend(
      replaced(script, () => text),
      { namespace: name },
    )
    const other = redisBackend(client!, { namespace: name })
    await limiterOn(other).limiter.acquire([api])
    const permit = { id: 'p', of: [{ limit: 'api', key: '' }] }
    const call =
      script === SWAP
        ? backend.penalize({ limit: 'api', key: '' }, 1000)
        : script === CHANGE
          ? backend.change({ kind: 'pause', limit: 'api', key: null, change: {}, forUs: null, by: null, reason: null })
          : backend.extend([permit], 1000)
    await expect(call).rejects.toThrow(/^Redis answer/)
  })

  it('reads the texts of a client that answers buffers', async () => {
    const buffers = createClient({ url: REDIS ?? '' }).withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    await buffers.connect()
    const backend = redisBackend(buffers, { namespace: name })
    await limiterOn(backend).limiter.acquire([api])
    expect(await backend.reserve(request('api', { permit: 'booked' }), 1e9)).toMatchObject({ kind: 'booked' })
    expect(await backend.confirm('booked')).toMatchObject({ kind: 'granted' })
    expect(await backend.inspect({ limit: 'api', key: '' })).toMatchObject({ active: 2 })
    buffers.destroy()
  })

  it('counts a client that answers numbers as texts as unreachable', async () => {
    const texts = new Redis(REDIS ?? '', { stringNumbers: true })
    const { limiter, told } = limiterOn(redisBackend(texts, { namespace: name }))
    await expect(limiter.acquire([api], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
    expect(told).toEqual([expect.stringMatching(/numbers as texts/)])
    texts.disconnect()
  })
})
