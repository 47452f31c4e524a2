// Jobs whose budget is on a Redis of the test's own, in trouble, in real time.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { type Client, connect } from '../limiter/redis-server.ts'

const api = limit('api', { rate: 200, per: '1s', burst: 20, backend: 'shared' })
const slots = limit('slots', { concurrency: 3, backend: 'shared' })
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(!HAS_REDIS_SERVER)('jobs whose Redis', () => {
  let redis: OwnRedis
  let admin: Client
  const engines: Sluice[] = []

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

  /** Jobs that never end, and others without a limit; the times of their starts. */
  async function load(failMode: 'closed' | 'open' = 'closed') {
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
    const budgets = { shared: { backend: redis.url, failMode } }
    const logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }
    const engine = new Sluice({ store: 'sqlite::memory:', tasks: [call, other], budgets, logger })
    engines.push(engine)
    const told: string[] = []
    engine.on('rate_limit.backend_down', () => told.push('down'))
    engine.on('rate_limit.backend_up', () => told.push('up'))
    for (let n = 0; n < 3; n++) await call.enqueueMany(Array.from({ length: 1000 }, () => null))
    await engine.start()
    await expect.poll(() => starts.length, { timeout: 10_000 }).toBeGreaterThan(60)
    const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
    return { starts, ended, others, other, told, between, engine }
  }

  it.each(['closed', 'open'] as const)('is stopped for 3 s: %s holds, others go on, all come back', async (mode) => {
    const jobs = await load(mode)
    const stopped = Date.now()
    redis.signal('SIGSTOP')
    const timer = setInterval(() => void jobs.other.enqueue(null), 50)
    await sleep(3000)
    clearInterval(timer)
    const back = Date.now()
    redis.signal('SIGCONT')
    const during = jobs.between(stopped + 300, back)
    if (mode === 'closed') expect(during).toBe(0)
    else expect(during).toBeGreaterThan(100)
    expect(jobs.others.length).toBeGreaterThan(40)
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
    await expect.poll(() => jobs.between(back, Infinity), { timeout: 10_000 }).toBeGreaterThan(100)
    // At most a burst more than the rate.
    const lastMs = Math.max(...jobs.starts)
    expect(jobs.between(lastMs - 1000, lastMs)).toBeLessThanOrEqual(200 + 2 * 20 + 1)
    const { active } = (await jobs.engine.limits.inspect('slots'))[0]!
    expect(active).toBeLessThanOrEqual(3)
  })
})
