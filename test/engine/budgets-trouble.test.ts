// Jobs whose budget is on a Redis or a NATS server of the test's own, in trouble, in real time.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { HAS_NATS_SERVER, OwnNats } from '../limiter/own-nats.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { type Client, connect } from '../limiter/redis-server.ts'

const api = limit('api', { rate: 200, per: '1s', burst: 20, backend: 'shared' })
const slots = limit('slots', { concurrency: 3, backend: 'shared' })
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const engines: Sluice[] = []
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.stop({ within: 0 })))
})

/** Jobs that never end, and others without a limit; the times of their starts. */
async function loadAt(backend: string, failMode: 'closed' | 'open' = 'closed') {
  const starts: number[] = []
  const ended = new Set<string>()
  const others: number[] = []
  const call = task('call', input<null>(), {
    limits: [api, slots],
    run: async (_, ctx) => {
      starts.push(Date.now())
      await sleep(20)
      expect(ended.has(ctx.job.id)).toBe(false)
      ended.add(ctx.job.id)
    },
  })
  const other = task('other', input<null>(), { run: () => void others.push(Date.now()) })
  const budgets = { shared: { backend, failMode } }
  const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [call, other], budgets, logger })
  engines.push(engine)
  const told: string[] = []
  engine.on('rate_limit.backend_down', () => told.push('down'))
  engine.on('rate_limit.backend_up', () => told.push('up'))
  for (let n = 0; n < 3; n++) await call.enqueueMany(Array.from({ length: 1000 }, () => null))
  await engine.start()
  await expect.poll(() => starts.length, { timeout: 60_000 }).toBeGreaterThan(60)
  const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
  return { starts, ended, others, other, told, between, engine }
}

describe.skipIf(!HAS_REDIS_SERVER)('jobs whose Redis', () => {
  let redis: OwnRedis
  let admin: Client

  beforeEach(async () => {
    redis = await OwnRedis.start()
    admin = await connect(redis.url)
  })
  afterEach(async () => {
    redis.signal('SIGCONT')
    await Promise.all(engines.splice(0).map((engine) => engine.stop({ within: 0 })))
    await admin.close()
    await redis.kill()
  })
  const load = (failMode: 'closed' | 'open' = 'closed'): ReturnType<typeof loadAt> => loadAt(redis.url, failMode)

  it.each(['closed', 'open'] as const)('is stopped for 3 s: %s holds, others go on, all come back', async (mode) => {
    const jobs = await load(mode)
    const stopped = Date.now()
    redis.signal('SIGSTOP')
    let sent = 0
    const timer = setInterval(() => void jobs.other.enqueue(null).then(() => sent++), 50)
    await sleep(3000)
    clearInterval(timer)
    const othersStopped = jobs.others.length
    const back = Date.now()
    redis.signal('SIGCONT')
    const during = jobs.between(stopped + 300, back)
    if (mode === 'closed') expect(during).toBe(0)
    else expect(during).toBeGreaterThan(100)
    expect(sent).toBeGreaterThan(10)
    expect(othersStopped).toBeGreaterThan(sent * 0.8)
    await expect.poll(() => jobs.told).toEqual(['down', 'up'])
    await expect.poll(() => jobs.between(back, Infinity)).toBeGreaterThan(20)
    expect(jobs.starts.find((at) => at >= back)! - back).toBeLessThan(mode === 'closed' ? 1500 : 100)
  })

  it.each([
    ['forgets its scripts', async () => void (await admin.sendCommand(['SCRIPT', 'FLUSH']))],
    ['forgets all', async () => void (await admin.sendCommand(['FLUSHALL']))],
    [
      'is full for a while',
      async () => {
        await admin.sendCommand(['CONFIG', 'SET', 'maxmemory', '1'])
        await sleep(500)
        await admin.sendCommand(['CONFIG', 'SET', 'maxmemory', '0'])
      },
    ],
    [
      'is paused for 2 s by CLIENT PAUSE',
      async () => {
        await admin.sendCommand(['CLIENT', 'PAUSE', '2000', 'ALL'])
        await sleep(2000)
      },
    ],
    [
      'dies, and a replica is promoted in its place',
      async () => {
        const replica = await OwnRedis.start(['--replicaof', '127.0.0.1', String(redis.port)])
        const promoted = await connect(replica.url)
        const isIn = async (): Promise<string> => String(await promoted.sendCommand(['INFO', 'replication']))
        await expect.poll(isIn).toContain('master_link_status:up')
        await redis.kill()
        await promoted.sendCommand(['REPLICAOF', 'NO', 'ONE'])
        await promoted.sendCommand(['CONFIG', 'SET', 'port', String(redis.port)])
        await promoted.close()
        redis = replica
      },
    ],
    [
      'restarts, empty, on the same port',
      async () => {
        await redis.kill()
        await sleep(300)
        await redis.start()
      },
    ],
  ])('%s: they go on, and nothing runs twice', async (_, trouble) => {
    const jobs = await load()
    await trouble()
    const back = Date.now()
    await expect.poll(() => jobs.between(back, Infinity), { timeout: 60_000 }).toBeGreaterThan(100)
    // At most a burst more than the rate.
    const lastMs = Math.max(...jobs.starts)
    expect(jobs.between(lastMs - 1000, lastMs)).toBeLessThanOrEqual(200 + 2 * 20 + 1)
    const { active } = (await jobs.engine.limits.inspect('slots'))[0]!
    expect(active).toBeLessThanOrEqual(3)
  })
})

describe.skipIf(!HAS_NATS_SERVER)('jobs whose NATS server', () => {
  let nats: OwnNats

  beforeEach(async () => {
    nats = await OwnNats.start()
  })
  afterEach(async () => {
    nats.signal('SIGCONT')
    await Promise.all(engines.splice(0).map((engine) => engine.stop({ within: 0 })))
    await nats.end()
  })

  it.each(['closed', 'open'] as const)('is stopped for 3 s: %s holds, others go on, all come back', async (mode) => {
    const jobs = await loadAt(nats.url, mode)
    const stopped = Date.now()
    nats.signal('SIGSTOP')
    let sent = 0
    const timer = setInterval(() => void jobs.other.enqueue(null).then(() => sent++), 50)
    await sleep(3000)
    clearInterval(timer)
    const othersStopped = jobs.others.length
    const back = Date.now()
    nats.signal('SIGCONT')
    const during = jobs.between(stopped + 500, back)
    if (mode === 'closed') expect(during).toBe(0)
    else expect(during).toBeGreaterThan(50)
    expect(sent).toBeGreaterThan(10)
    expect(othersStopped).toBeGreaterThan(sent * 0.8)
    await expect.poll(() => jobs.told).toEqual(['down', 'up'])
    await expect.poll(() => jobs.between(back, Infinity)).toBeGreaterThan(20)
  })

  it.each([
    [
      'restarts on the same port',
      async () => {
        await nats.kill()
        await sleep(300)
        await nats.start()
      },
    ],
    ['loses the stream of all limits', async () => nats.forget()],
  ])('%s: they go on, and nothing runs twice', async (_, trouble) => {
    const jobs = await loadAt(nats.url)
    await trouble()
    const back = Date.now()
    await expect.poll(() => jobs.between(back, Infinity), { timeout: 60_000 }).toBeGreaterThan(100)
    const lastMs = Math.max(...jobs.starts)
    expect(jobs.between(lastMs - 1000, lastMs)).toBeLessThanOrEqual(200 + 2 * 20 + 1)
    const { active } = (await jobs.engine.limits.inspect('slots'))[0]!
    expect(active).toBeLessThanOrEqual(3)
  })
})
