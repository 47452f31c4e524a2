// Limiters of plain code beside each other: how many starts a second each decides with 100 calls in flight, on one hot
// key and on 100,000 keys, where no budget ever runs out. Run it with: npx node bench/limiters.ts
import Bottleneck from 'bottleneck'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { createLimiter, limit, type LimiterOptions } from '../src/exports/limiter.ts'
import { measure, nowMs, type Numbers } from './measure.ts'

const IN_FLIGHT = 100
const KEYS = 100_000
const SECONDS = Number(process.env['SECONDS'] ?? 2)
const REDIS = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'
const keys = Array.from({ length: KEYS }, (_, i) => ['tenant', i].join('-'))

type Call = (key: string) => Promise<unknown>

/** Starts per second. */
async function pace(call: Call, keyOf: (i: number) => string): Promise<number> {
  const beganMs = nowMs()
  const endMs = beganMs + SECONDS * 1000
  let starts = 0
  const work = async (): Promise<void> => {
    while (nowMs() < endMs) await call(keyOf(starts++))
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, work))
  return starts / ((nowMs() - beganMs) / 1000)
}

async function both(name: string, call: Call): Promise<Numbers> {
  const hot = await pace(call, () => 'hot')
  return { [`${name}, hot key`]: hot, [`${name}, ${KEYS} keys`]: await pace(call, (i) => keys[i % KEYS] ?? '') }
}

async function sluice(name: string, backend: LimiterOptions['backend']): Promise<Numbers> {
  const api = limit('api', { rate: 100_000_000, per: '1s' })
  const limiter = createLimiter({ backend, namespace: `bench-${process.pid}`, limits: [api] })
  // A rate has nothing to release. The others' calls release nothing either.
  const numbers = await both(name, (key) => limiter.acquire([api.key(key)]))
  await limiter.close()
  return numbers
}

async function bottleneck(): Promise<Numbers> {
  const terms = { reservoir: 1e9, reservoirRefreshAmount: 1e9, reservoirRefreshInterval: 1000 }
  const group = new Bottleneck.Group(terms)
  const done = Promise.resolve()
  const numbers = await both('Bottleneck, memory', (key) => group.key(key).schedule(() => done))
  await group.disconnect()
  return numbers
}

await measure(`Starts per second, ${IN_FLIGHT} in flight`, async () => {
  const client = createClient({ url: REDIS })
  await client.connect()
  const terms = { points: 1e9, duration: 1 }
  const memory = new RateLimiterMemory(terms)
  const redis = new RateLimiterRedis({ ...terms, storeClient: client, useRedisPackage: true, keyPrefix: 'bench-rlf' })
  try {
    return {
      ...(await sluice('Sluice, memory', 'memory:')),
      ...(await both('rate-limiter-flexible, memory', (key) => memory.consume(key))),
      ...(await bottleneck()),
      ...(await sluice('Sluice, Redis', REDIS)),
      ...(await both('rate-limiter-flexible, Redis', (key) => redis.consume(key))),
      ...(await sluice('Sluice, NATS', process.env['SLUICE_TEST_NATS'] ?? 'nats://127.0.0.1:4222')),
    }
  } finally {
    client.destroy()
  }
})
process.exit(0)
