// A real Redis of the test's own in every kind of trouble, under load, in real time.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter, type LimiterOptions } from '../../src/exports/limiter.ts'
import { HAS_REDIS_SERVER, OwnRedis } from './own-redis.ts'
import { type Client, connect } from './redis-server.ts'

const api = limit('api', { rate: 500, per: '1s', burst: 50 })
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(!HAS_REDIS_SERVER)('a limiter whose Redis', () => {
  let redis: OwnRedis
  let admin: Client
  const limiters: Limiter[] = []

  beforeEach(async () => {
    redis = await OwnRedis.start()
    admin = await connect(redis.url)
  })
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
    await admin.close()
    redis.signal('SIGCONT')
    await redis.kill()
  })

  /** Calls that never end, 20 at a time; the times of their starts. */
  function load(options: Partial<LimiterOptions> = {}) {
    const limiter = createLimiter({ backend: redis.url, limits: [api], ...options })
    limiters.push(limiter)
    const starts: number[] = []
    const told: string[] = []
    const errors: unknown[] = []
    let granted = 0
    const state = { ends: false }
    limiter.on('rate_limit.backend_down', () => told.push('down'))
    limiter.on('rate_limit.backend_up', (event) => {
      told.push('up')
      granted += event.granted
    })
    const work = async (): Promise<void> => {
      while (!state.ends) {
        try {
          const permit = await limiter.acquire([api])
          starts.push(Date.now())
          await permit.release()
          // Without a bound the blind ones would keep the process from all else.
          if (options.failMode === 'open') await sleep(5)
        } catch (error) {
          if (!state.ends) errors.push(error)
          return
        }
      }
    }
    for (let i = 0; i < 20; i++) void work()
    return {
      /** It has connected, and used up its burst. */
      ready: () => expect.poll(() => starts.length).toBeGreaterThan(60),
      starts,
      told,
      errors,
      limiter,
      granted: () => granted,
      between: (fromMs: number, toMs: number) => starts.filter((at) => at >= fromMs && at < toMs).length,
      end: () => {
        state.ends = true
      },
    }
  }

  it.each([
    ['is paused by CLIENT PAUSE', async () => void (await admin.sendCommand(['CLIENT', 'PAUSE', '3000', 'ALL']))],
    [
      'is stopped',
      async () => {
        redis.signal('SIGSTOP')
        setTimeout(() => redis.signal('SIGCONT'), 3000)
      },
    ],
  ])('%s for 3 s: closed starts nothing, open goes on, and both are back within 500 ms', async (_, pause) => {
    const closed = load()
    const open = load({ failMode: 'open', namespace: 'open' })
    await Promise.all([closed.ready(), open.ready()])
    const pausedMs = Date.now()
    await pause()
    await sleep(5000)
    const backMs = pausedMs + 3000
    expect(closed.between(pausedMs + 100, backMs - 50)).toBe(0)
    expect(open.between(pausedMs + 1200, backMs - 50)).toBeGreaterThan(500)
    expect(closed.starts.find((at) => at >= backMs - 50)).toBeLessThanOrEqual(backMs + 500)
    expect(closed.told).toEqual(['down', 'up'])
    expect(open.told).toEqual(['down', 'up'])
    expect(open.granted()).toBeGreaterThan(500)
    // The budget is used again, and what was asked for in the pause does not use it up.
    expect(closed.between(backMs + 600, backMs + 1600)).toBeGreaterThan(450)
    expect([...closed.errors, ...open.errors]).toEqual([])
    closed.end()
    open.end()
  })

  it('loses its scripts goes on as if nothing was', async () => {
    const calls = load()
    await calls.ready()
    for (let i = 0; i < 5; i++) {
      await sleep(200)
      await admin.sendCommand(['SCRIPT', 'FLUSH'])
    }
    await sleep(500)
    expect(calls.starts.length).toBeGreaterThan(600)
    expect(calls.errors).toEqual([])
    expect(calls.told).toEqual([])
    calls.end()
  })

  it('is flushed gets its limits again; at most one burst more starts', async () => {
    const calls = load()
    await calls.ready()
    const flushedMs = Date.now()
    await admin.sendCommand(['FLUSHALL'])
    await sleep(1000)
    const started = calls.between(flushedMs, flushedMs + 1000)
    expect(started).toBeGreaterThan(450)
    expect(started).toBeLessThanOrEqual(500 + 50 + 50)
    expect(calls.errors).toEqual([])
    calls.end()
  })

  it('is killed and starts again on the same port goes on', async () => {
    const calls = load()
    await calls.ready()
    await redis.kill()
    await sleep(1000)
    const backMs = Date.now()
    await redis.start()
    await sleep(1500)
    expect(calls.between(backMs - 900, backMs)).toBe(0)
    expect(calls.between(backMs, backMs + 1500)).toBeGreaterThan(400)
    expect(calls.told).toEqual(['down', 'up'])
    expect(calls.errors).toEqual([])
    calls.end()
  })

  it('has no memory left counts as one that cannot be reached', async () => {
    const calls = load()
    await calls.ready()
    await admin.sendCommand(['CONFIG', 'SET', 'maxmemory', '1'])
    await sleep(700)
    const fullMs = Date.now()
    await sleep(500)
    expect(calls.between(fullMs, fullMs + 500)).toBe(0)
    await admin.sendCommand(['CONFIG', 'SET', 'maxmemory', '0'])
    await sleep(1000)
    expect(calls.between(fullMs + 1000, fullMs + 1500)).toBeGreaterThan(200)
    expect(calls.told).toEqual(['down', 'up'])
    expect(calls.errors).toEqual([])
    calls.end()
  })

  it('ends the connection every 100 ms goes on', async () => {
    const calls = load()
    await calls.ready()
    for (let i = 0; i < 10; i++) {
      await admin.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
      await sleep(100)
    }
    expect(calls.starts.length).toBeGreaterThan(300)
    await sleep(500)
    expect(calls.errors).toEqual([])
    calls.end()
  })
})
