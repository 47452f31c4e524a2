// Every backend and every edge refuse by the same codes what no budget can ever grant. Nothing is written.
import { connect } from '@nats-io/transport-node'
import { createClient } from 'redis'
import { afterAll, afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { input, limit, type Limit, Sluice, silentLogger, task } from '../../src/exports/index.ts'
import { type AcquireOptions, createLimiter, type LimitBackend } from '../../src/exports/limiter.ts'
import { natsBackend } from '../../src/exports/nats.ts'
import { redisBackend } from '../../src/exports/redis.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { HttpHarness, type Json } from '../http/http-harness.ts'
import { service } from '../services.ts'
import { everyStore } from '../stores.ts'
import { namespace, REDIS } from './redis-server.ts'

const api = limit('api', { rate: 2, per: '1h' })
const slots = limit('slots', { concurrency: 2 })
const LONG = 'k'.repeat(2000)
const NATS = await service('nats', 'refusals of the limiter on NATS')
const STORES = await everyStore('refusals of limiters')
const redis = REDIS === null ? null : createClient({ url: REDIS, disableOfflineQueue: true })
await redis?.connect()
const nats = NATS === null ? null : await connect({ servers: new URL(NATS).host })
afterAll(async () => {
  redis?.destroy()
  await nats?.close()
})

/** A place of budgets, and what asks there: it answers with a code, or 'granted'. */
interface Edge {
  readonly acquire: (uses: readonly Use[], options?: AcquireOptions) => Promise<string>
  /** Units of this bucket that could start now, and permits held. */
  readonly left: (key: string) => Promise<{ readonly units: number; readonly permits: number }>
  /** Changes the numbers of the limit; the code of the refusal, or 'done'. */
  readonly override: (name: string, change: object) => Promise<string>
  readonly close: () => Promise<unknown>
}
interface Use {
  readonly limit: string
  readonly key?: string
  readonly weight?: number
}
type Open = () => Promise<Edge>

const known: Readonly<Record<string, Limit>> = { api, slots }
const useOf = ({ limit: name, key, weight = 1 }: Use) => {
  const of = known[name] ?? limit(name, { rate: 1, per: '1s' })
  return key === undefined ? of.weight(weight) : of.key(key, { weight })
}
async function coded(work: () => Promise<unknown>, done: string): Promise<string> {
  try {
    await work()
    return done
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    return code ?? message
  }
}

function ofLimiter(backend: () => string, named: boolean): Open {
  return async () => {
    const limiter = createLimiter({
      backend: backend(),
      limits: [api, slots],
      ...(named && { namespace: namespace() }),
    })
    return {
      acquire: (uses, options) => coded(async () => limiter.acquire(uses.map(useOf), options), 'granted'),
      left: async (key) => ({
        units: (await limiter.inspect(api.key(key))).available,
        permits: (await limiter.inspect(slots)).active,
      }),
      override: (name, change) => coded(() => limiter.override(name, change), 'done'),
      close: () => limiter.close(),
    }
  }
}

function ofEngine(store: () => string): Open {
  return async () => {
    const engine = new Sluice({ store: store(), tasks: [], limits: [api, slots], logger: silentLogger })
    await engine.start()
    const { limits } = engine
    return {
      acquire: (uses, options) => coded(async () => limits.acquire(uses.map(useOf), options), 'granted'),
      left: async (key) => ({
        units: (await limits.inspect('api', key))[0]?.available ?? 2,
        permits: (await limits.inspect('slots'))[0]?.active ?? 0,
      }),
      override: (name, change) => coded(() => limits.override(name, undefined, change), 'done'),
      close: () => engine.stop({ within: 0 }),
    }
  }
}

const ADDRESSES: readonly (readonly [string, () => string, boolean])[] = [
  ['memory', () => 'memory:', true],
  ...(REDIS === null ? [] : [['redis', () => REDIS ?? '', true] as const]),
  ...(NATS === null ? [] : [['nats', () => NATS, true] as const]),
  ...STORES.map(({ name, create }) => [name, () => create(), false] as const),
]
const PLACES: readonly (readonly [string, Open])[] = [
  ...ADDRESSES.map(([name, backend, named]) => [`a limiter on ${name}`, ofLimiter(backend, named)] as const),
  ...STORES.map(({ name, create }) => [`sluice.limits on ${name}`, ofEngine(() => create())] as const),
]

/** Budgets of HTTP requests and of jobs, where these are not those of the store. */
const BACKENDS: readonly (readonly [string, () => LimitBackend | undefined, () => string])[] = [
  ['memory', () => new MemoryBackend(createManualClock()), () => 'sqlite::memory:'],
  ...(redis
    ? [['redis', () => redisBackend(redis, { namespace: namespace() }), () => 'sqlite::memory:'] as const]
    : []),
  ...(nats ? [['nats', () => natsBackend(nats, { namespace: namespace() }), () => 'sqlite::memory:'] as const] : []),
  ...STORES.map(({ name, create }) => [name, () => undefined, () => create()] as const),
]

describe.each(PLACES)('%s', (_, open) => {
  let edge: Edge
  afterEach(() => edge.close())

  it.each([
    ['a weight above the burst', [{ limit: 'api', key: 'a', weight: 3 }], 'limit.weight.above_burst'],
    ['a weight of nothing', [{ limit: 'api', key: 'a', weight: 0 }], 'limit.weight.invalid'],
  ] as const)('refuses %s beside a permit, and writes nothing', async (_name, uses, code) => {
    edge = await open()
    expect(await edge.acquire([{ limit: 'slots' }, ...uses])).toBe(code)
    expect(await edge.left('a')).toEqual({ units: 2, permits: 0 })
  })

  it('takes a key over 1 KiB by its hash', async () => {
    edge = await open()
    const uses = [{ limit: 'api', key: LONG, weight: 2 }]
    expect([await edge.acquire(uses), await edge.acquire(uses, { wait: '1s' })]).toEqual(['granted', 'limit.rejected'])
    expect(await edge.left(LONG)).toEqual({ units: 0, permits: 0 })
    expect(await edge.acquire([{ limit: 'api', key: `${LONG}x`, weight: 2 }])).toBe('granted')
  })

  it('refuses a rate of 0 and changes of a limit that is unknown, and changes nothing', async () => {
    edge = await open()
    expect(await edge.override('api', { rate: 0 })).toBe('policy.invalid')
    expect(await edge.override('other', { rate: 1 })).toBe('limit.unknown')
    expect(await edge.acquire([{ limit: 'api', key: 'a', weight: 2 }])).toBe('granted')
  })

  it('rejects with the reason of a signal that aborts before or while it waits, and takes nothing', async () => {
    edge = await open()
    const abort = new AbortController()
    expect(await edge.acquire([{ limit: 'api', key: 'b', weight: 2 }])).toBe('granted')
    const waiting = edge.acquire([{ limit: 'slots' }, { limit: 'api', key: 'b' }], { signal: abort.signal })
    abort.abort(new Error('stopped meanwhile'))
    expect(await waiting).toBe('stopped meanwhile')
    expect(await edge.left('b')).toEqual({ units: 0, permits: 0 })
    const signal = AbortSignal.abort(new Error('stopped before'))
    expect(await edge.acquire([{ limit: 'slots' }, { limit: 'api', key: 'a' }], { signal })).toBe('stopped before')
    expect(await edge.left('a')).toEqual({ units: 2, permits: 0 })
  })
})

describe.each(BACKENDS)('/limiter/v1 on %s', (_, budgets, store) => {
  async function open() {
    const backend = budgets()
    const limits = { api: { rate: 2, per: '1h' }, slots: { concurrency: 2 } } as const
    const d = await HttpHarness.open({
      engine: { store: store() },
      http: { limits: { limits }, ...(backend && { budgets: backend }) },
    })
    const acquire = async (...uses: readonly Use[]): Promise<Json> => {
      const { status, body } = await d.post('/limiter/v1/acquire', { requests: [{ uses }] })
      const { error, answers } = body as { error?: object; answers?: readonly object[] }
      return { status, ...error, ...answers?.[0] }
    }
    const left = async (key: string): Promise<unknown[]> => {
      const [one, two] = [await d.get(`/limiter/v1/limits/api?key=${key}`), await d.get('/limiter/v1/limits/slots')]
      return [one.body['available'] as unknown, two.body['active'] as unknown]
    }
    return { d, acquire, left }
  }

  it('refuses by the code of the store, and writes nothing', async () => {
    const { d, acquire, left } = await open()
    const slot = { limit: 'slots' }
    expect(await acquire(slot, { limit: 'api', key: 'a', weight: 3 })).toMatchObject({
      status: 422,
      code: 'invalid_request',
      details: { reason: 'limit.weight.above_burst' },
    })
    expect(await acquire(slot, { limit: 'other' })).toMatchObject({ status: 404, code: 'not_found' })
    expect(await left('a')).toEqual([2, 0])
    const gone = new AbortController()
    await acquire(slot, slot)
    await acquire(slot)
    const body = { requests: [{ uses: [slot, { limit: 'api', key: 'a' }] }], wait_ms: 10_000 }
    const waiting = d.post('/limiter/v1/acquire', body, { signal: gone.signal })
    gone.abort()
    await waiting.catch(() => undefined)
    expect(await left('a')).toEqual([2, 2])
  })

  it('takes a key over 1 KiB by its hash', async () => {
    const { acquire } = await open()
    const use = { limit: 'api', key: LONG, weight: 2 }
    expect(await acquire(use)).toMatchObject({ granted: true })
    expect(await acquire(use)).toMatchObject({ granted: false, key: expect.stringMatching(/^sha256:/) as string })
    expect(await acquire({ ...use, key: `${LONG}x` })).toMatchObject({ granted: true })
  })

  it('refuses a rate of 0 where the server is made', async () => {
    const made = HttpHarness.open({ http: { limits: { limits: { api: { rate: 0, per: '1s' } } } } })
    await expect(made).rejects.toMatchObject({ code: 'policy.invalid' })
  })
})

describe.each(BACKENDS)('jobs whose budget is on %s', (_, budgets, store) => {
  async function open() {
    const backend = budgets()
    const own = limit('api', { rate: 2, per: '1h', ...(backend && { backend: 'shared' }) })
    const starts: string[] = []
    const call = task('call', input<{ key: string; weight?: number }>(), {
      limits: [own.by(({ key }) => key, { weight: ({ weight = 1 }) => weight })],
      run: ({ key }) => void starts.push(key),
    })
    const engine = new Sluice({
      store: store(),
      tasks: [call],
      logger: silentLogger,
      ...(backend && { budgets: { shared: backend } }),
    })
    onTestFinished(() => engine.stop({ within: 0 }))
    await engine.start()
    const left = async (key: string): Promise<number> => (await engine.limits.inspect('api', key))[0]?.available ?? 2
    return { engine, call, starts, left }
  }

  it('are refused a weight above the burst, a rate of 0 and an unknown limit, and nothing is written', async () => {
    const { engine, call, left } = await open()
    await expect(call.enqueue({ key: 'a', weight: 3 })).rejects.toMatchObject({ code: 'limit.weight.above_burst' })
    const change = engine.limits.override('api', undefined, { rate: 0 })
    await expect(change).rejects.toMatchObject({ code: 'policy.invalid' })
    const other = engine.limits.override('other', undefined, { rate: 1 })
    await expect(other).rejects.toMatchObject({ code: 'limit.unknown' })
    expect(await engine.jobs.list()).toEqual([])
    expect(await left('a')).toBe(2)
  })

  it('take a key over 1 KiB by its hash', async () => {
    const { call, starts, left } = await open()
    const jobs = await call.enqueueMany([LONG, LONG, LONG, `${LONG}x`].map((key) => ({ key })))
    await Promise.all([0, 1, 3].map((i) => jobs[i]!.result()))
    expect(starts.toSorted()).toEqual([LONG, LONG, `${LONG}x`])
    expect([await left(LONG), await left(`${LONG}x`)]).toEqual([0, 1])
  })
})
