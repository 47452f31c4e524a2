// A real NATS server of the test's own: contention, restarts, and a stream that is gone, in real time.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { connect } from '@nats-io/transport-node'
import { createLimiter, limit, type Limiter, RateLimitRejected } from '../../src/exports/limiter.ts'
import { NatsBackend } from '../../src/limiter/nats/backend.ts'
import { Entries } from '../../src/limiter/nats/kv.ts'
import { HAS_NATS_SERVER, OwnNats } from './own-nats.ts'

const api = limit('api', { rate: 200, per: '1s', burst: 20 })
const tenant = limit('tenant', { rate: 150, per: '1s', burst: 20 })
/** Calls of each process at a time. */
const CALLS = 10
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(!HAS_NATS_SERVER)('a limiter on NATS', () => {
  let nats: OwnNats
  const limiters: Limiter[] = []

  beforeEach(async () => {
    nats = await OwnNats.start()
  })
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
    await nats.end()
  })

  function load(uses: (i: number) => Parameters<Limiter['acquire']>[0]) {
    const limiter = createLimiter({ backend: nats.url, limits: [api, tenant] })
    limiters.push(limiter)
    const state = { ends: false }
    const starts: number[] = []
    const told: string[] = []
    const errors: unknown[] = []
    limiter.on('rate_limit.backend_down', () => told.push('down'))
    limiter.on('rate_limit.backend_up', () => told.push('up'))
    const work = async (i: number): Promise<void> => {
      while (!state.ends) {
        try {
          await (await limiter.acquire(uses(i))).release()
          starts.push(Date.now())
        } catch (error) {
          if (!state.ends) errors.push(error)
          return
        }
      }
    }
    for (let i = 0; i < CALLS; i++) void work(i)
    const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
    const ready = (): Promise<unknown> => expect.poll(() => starts.length).toBeGreaterThan(30)
    return { ready, told, errors, between, end: () => (state.ends = true) }
  }

  it('shares two buckets with others: no error surfaces, and no budget is exceeded', async () => {
    const loads = [0, 1, 2].map((each) => load((i) => [api, tenant.key((each + i) % 2)]))
    await Promise.all(loads.map(({ ready }) => ready()))
    const fromMs = Date.now()
    await sleep(3000)
    const started = (): number => loads.reduce((sum, { between }) => sum + between(fromMs, Infinity), 0)
    await expect.poll(started).toBeGreaterThan(200)
    // A burst may be left, and each call may have had its start before.
    const most = 20 + loads.length * CALLS + Math.ceil(((Date.now() - fromMs + 1) * 200) / 1000)
    const count = started()
    for (const { end } of loads) end()
    expect(loads.flatMap(({ errors }) => errors)).toEqual([])
    expect(count).toBeLessThanOrEqual(most)
  })

  it('gives back what the server wrote after the caller was told that it is down', async () => {
    const connection = await connect({ port: nats.port })
    const stops = { next: false }
    class StoppingEntries extends Entries {
      override update(...args: Parameters<Entries['update']>): Promise<number> {
        if (stops.next) nats.signal('SIGSTOP')
        stops.next = false
        return super.update(...args)
      }
    }
    const entries = new StoppingEntries(async () => connection, 'stopped', 1)
    const quota = limit('quota', { rate: 1, per: '1h', burst: 5 })
    const slots = limit('slots', { concurrency: 2 })
    const backend = new NatsBackend(entries, { close: async () => undefined })
    const limiter = createLimiter({ backend, limits: [quota, slots] })
    limiters.push(limiter)
    const first = await limiter.acquire([quota, slots])
    stops.next = true
    await expect(limiter.acquire([quota, slots], { wait: false })).rejects.toThrow(RateLimitRejected)
    nats.signal('SIGCONT')
    await expect.poll(async () => (await limiter.inspect(slots)).active).toBe(1)
    await expect.poll(async () => (await limiter.inspect(quota)).available).toBe(4)
    // A correction whose answer is late is written once.
    stops.next = true
    await expect(limiter.charge(quota, 2)).rejects.toThrow('cannot be reached')
    nats.signal('SIGCONT')
    await expect.poll(async () => (await limiter.inspect(quota)).available).toBe(2)
    await first.release()
    await limiter.close()
    await connection.close()
  })
})
