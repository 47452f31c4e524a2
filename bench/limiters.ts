// Limiters of plain code beside each other: how many starts a second each decides with 100 calls in flight, on one hot
// key and on 100,000 keys, where no budget ever runs out. Run it with: npx node bench/limiters.ts
import Bottleneck from 'bottleneck'
import { Pool } from 'pg'
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRedis } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { createLimiter, limit, type LimiterOptions } from '../src/exports/limiter.ts'
import { measure, nowMs, type Numbers } from './measure.ts'
import { dropSchema } from './postgres-statistics.ts'

const IN_FLIGHT = 100
const KEYS = 100_000
const SECONDS = Number(process.env['SECONDS'] ?? 2)
const POSTGRES = process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://root@127.0.0.1/test'
const REDIS = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'
const SPACE = `bench_limiters_${process.pid}`
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
  // The first call opens what it needs, a whole schema on PostgreSQL.
  await call('first')
  const hot = await pace(call, () => 'hot')
  return { [`${name}, hot key`]: hot, [`${name}, ${KEYS} keys`]: await pace(call, (i) => keys[i % KEYS] ?? '') }
}

async function sluice(name: string, backend: LimiterOptions['backend']): Promise<Numbers> {
  const api = limit('api', { rate: 100_000_000, per: '1s' })
  const limiter = createLimiter({ backend, namespace: SPACE, limits: [api] })
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

/** A table of its own in a schema that goes with the bench. */
async function postgresPeer(pool: Pool): Promise<Numbers> {
  await pool.query(`CREATE SCHEMA "${SPACE}"`)
  const peer = await new Promise<RateLimiterPostgres>((resolve, reject) => {
    const terms = {
      points: 1e9,
      duration: 1,
      storeClient: pool,
      storeType: 'pool',
      schemaName: SPACE,
      tableName: 'rlf',
    }
    const made = new RateLimiterPostgres(terms, (error?: Error) => (error ? reject(error) : resolve(made)))
  })
  return both('rate-limiter-flexible, PostgreSQL', (key) => peer.consume(key))
}

await measure(`Starts per second, ${IN_FLIGHT} in flight`, async () => {
  const client = createClient({ url: REDIS })
  await client.connect()
  const terms = { points: 1e9, duration: 1 }
  const pool = new Pool({ connectionString: POSTGRES, max: 10 })
  const ours = new URL(POSTGRES)
  ours.searchParams.set('schema', `${SPACE}_sluice`)
  const memory = new RateLimiterMemory(terms)
  const redis = new RateLimiterRedis({ ...terms, storeClient: client, useRedisPackage: true, keyPrefix: 'bench-rlf' })
  try {
    return {
      ...(await sluice('Sluice, memory', 'memory:')),
      ...(await both('rate-limiter-flexible, memory', (key) => memory.consume(key))),
      ...(await bottleneck()),
      ...(await sluice('Sluice, Redis', REDIS)),
      ...(await both('rate-limiter-flexible, Redis', (key) => redis.consume(key))),
      ...(await sluice('Sluice, PostgreSQL', ours.toString())),
      ...(await postgresPeer(pool)),
      ...(await sluice('Sluice, NATS', process.env['SLUICE_TEST_NATS'] ?? 'nats://127.0.0.1:4222')),
    }
  } finally {
    client.destroy()
    await pool.query(`DROP SCHEMA IF EXISTS "${SPACE}" CASCADE`)
    await pool.end()
    await dropSchema(ours.toString())
  }
})
process.exit(0)
