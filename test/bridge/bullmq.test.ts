// BullMQ on a real Redis, in real time: its jobs start within the budgets of a limiter on the same server.
import { type Job, Queue, Worker } from 'bullmq'
import { afterEach, describe, expect, it } from 'vitest'
import { type BudgetedProcessor, type BudgetOptions, withBudgets } from '../../src/exports/bullmq.ts'
import {
  createLimiter,
  type Limit,
  limit,
  type Limiter,
  type LimiterOptions,
  RateLimited,
} from '../../src/exports/limiter.ts'
import type { GrantedStart } from '../../src/limiter/client/permit.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { clear, connect, namespace, REDIS } from '../limiter/redis-server.ts'

const crm = limit('crm', { rate: 10, per: '1s', burst: 1 })
const slow = limit('slow', { rate: 1, per: '1s', burst: 1 })
const wide = limit('wide', { rate: 100, per: '1s' })
const rare = limit('rare', { rate: 1, per: '4s', burst: 1 })
const yearly = limit('yearly', { rate: 1, per: '365d', burst: 1 })
const client = REDIS === null ? null : await connect()
/** A start is seen a little later than it was decided. */
const SEEN_LATE_MS = 25

interface Data {
  readonly tenant: string
}
/** When a start was seen, and when the backend had decided it, on its clock; 0: it had not. */
interface Start {
  readonly tenant: string
  readonly atMs: number
  readonly decidedUs: number
  readonly id: string
}

/** Starts of one budget keep their distance, as they were decided: a busy machine may see each late. */
function expectApart(starts: readonly Start[], everyMs: number): void {
  const times = starts.map(({ decidedUs }) => decidedUs).sort((a, b) => a - b)
  for (let i = 1; i < times.length; i++)
    expect((times[i] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(i * everyMs * 1000 - 1)
}
type Options = Partial<BudgetOptions<Job<Data>>>

describe.skipIf(client === null)('BullMQ with budgets', () => {
  const ending: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of ending.splice(0).reverse()) await end()
  })

  function fleet(
    processor: BudgetedProcessor<Job<Data>, unknown>,
    options: Options = {},
    concurrency = 20,
    of: Partial<LimiterOptions> = {},
  ) {
    const name = namespace()
    const url = new URL(REDIS ?? '')
    const connection = { host: url.hostname, port: Number(url.port) || 6379, maxRetriesPerRequest: null }
    const limiter = createLimiter({
      backend: REDIS ?? '',
      namespace: name,
      limits: [crm, wide, slow, rare, yearly],
      ...of,
    })
    const decidedUs = new Map<unknown, number>()
    const run = limiter.run.bind(limiter)
    limiter.run = (uses, work, given) => {
      const noted: typeof work = (ctx) => {
        decidedUs.set(ctx, (given?.permit as GrantedStart | undefined)?.atUs ?? 0)
        return work(ctx)
      }
      return run(uses, noted, given)
    }
    const queue = new Queue<Data>('calls', { connection, prefix: name })
    const starts: Start[] = []
    const counted: BudgetedProcessor<Job<Data>, unknown> = (job, token, signal, ctx) => {
      const { data, id = '' } = job
      starts.push({ tenant: data.tenant, atMs: performance.now(), decidedUs: decidedUs.get(ctx) ?? 0, id })
      return processor(job, token, signal, ctx)
    }
    const uses = (job: Job<Data>) => [crm.key(job.data.tenant)]
    const worker = new Worker<Data>('calls', withBudgets(limiter, { uses, ...options }, counted), {
      connection,
      prefix: name,
      concurrency,
    })
    worker.on('error', () => undefined)
    ending.push(
      async () => client && clear(client, name),
      () => limiter.close(),
      async () => {
        await queue.obliterate({ force: true })
        await queue.close()
      },
      () => worker.close(true),
    )
    const done = async (count: number): Promise<Job<Data>[]> => {
      await expect
        .poll(() => queue.getJobCountByTypes('completed', 'failed'), { interval: 20 })
        .toBeGreaterThanOrEqual(count)
      return queue.getJobs(['completed', 'failed'])
    }
    return { queue, limiter, starts, done }
  }

  const add = (queue: Queue<Data>, tenant: string, count: number, options = {}) =>
    queue.addBulk(Array.from({ length: count }, () => ({ name: 'call', data: { tenant }, opts: options })))

  it('starts each job at its booked instant, fetches it twice, and counts one attempt', async () => {
    const { queue, starts, done } = fleet(async () => 'ok')
    await add(queue, 'acme', 8)
    const jobs = await done(8)
    expectApart(starts, 100)
    expect(jobs.map((job) => job.attemptsMade)).toEqual(jobs.map(() => 1))
    expect(Math.max(...jobs.map((job) => job.attemptsStarted))).toBeLessThanOrEqual(3)
    expect(jobs.filter((job) => job.attemptsStarted > 2).length).toBeLessThanOrEqual(2)
    expect(new Set(starts.map(({ id }) => id)).size).toBe(8)
  })

  it('fetches each of many jobs of many tenants twice, and uses their budgets while others wait for a first fetch', async () => {
    const { queue, starts, done } = fleet(async () => 'ok', {}, 20)
    for (let i = 0; i < 6; i++)
      await queue.addBulk(
        Array.from({ length: 30 }, (_, n) => ({ name: 'call', data: { tenant: `t${n}` }, opts: { priority: 1 } })),
      )
    const fetches = (await done(180)).map((job) => job.attemptsStarted)
    // Every start is one of 2.0 fetches; a first one of a tenant has one.
    expect(fetches.reduce((sum, count) => sum + count, 0) / fetches.length).toBeLessThan(2.2)
    expect(Math.max(...fetches)).toBeLessThanOrEqual(3)
    for (let n = 0; n < 30; n++) {
      const own = starts.filter(({ tenant }) => tenant === `t${n}`)
      expect(own).toHaveLength(6)
      expectApart(own, 100)
    }
  })

  it('starts at once within an open budget, and fetches once; a job without uses is not limited', async () => {
    const { queue, starts, done } = fleet(async (_job, _token, _signal, ctx) => ctx === null, {
      uses: ({ data }) => (data.tenant === 'none' ? [] : [crm.key(data.tenant)]),
    })
    await queue.addBulk(['a', 'b', 'c', 'none', 'none'].map((tenant) => ({ name: 'call', data: { tenant } })))
    const jobs = await done(5)
    expect(jobs.map((job) => job.attemptsStarted)).toEqual([1, 1, 1, 1, 1])
    // Without a budget there is no context.
    for (const { data, returnvalue } of jobs)
      expect([data.tenant, returnvalue]).toEqual([data.tenant, data.tenant === 'none'])
    expect(starts).toHaveLength(5)
  })

  it.each([
    ['RateLimited', 1000, () => new RateLimited({ retryAfter: '1s' })],
    ["BullMQ's own RateLimitError", 1000, () => Worker.RateLimitError()],
  ])('a %s closes the bucket for all its jobs; none loses an attempt', async (_, closedMs, refusal) => {
    let refused = -1
    const { queue, starts, limiter, done } = fleet(async (job) => {
      if (job.data.tenant !== 'acme' || refused >= 0) return
      refused = performance.now()
      throw refusal()
    })
    await add(queue, 'acme', 1, { attempts: 1 })
    await expect.poll(() => refused).toBeGreaterThan(0)
    await expect.poll(async () => (await limiter.inspect(crm.key('acme'))).closedUntil, { interval: 5 }).not.toBeNull()
    await add(queue, 'acme', 2, { attempts: 1 })
    await add(queue, 'birch', 2)
    const jobs = await done(5)
    expect(jobs.map((job) => [job.failedReason, job.attemptsMade])).toEqual(jobs.map(() => [undefined, 1]))
    const acme = starts.filter(({ tenant, atMs }) => tenant === 'acme' && atMs > refused)
    expect(acme).toHaveLength(3)
    for (const { atMs } of acme) expect(atMs).toBeGreaterThanOrEqual(refused + closedMs - SEEN_LATE_MS)
    const birch = starts.filter(({ tenant }) => tenant === 'birch')
    // The other tenant's bucket stays open.
    expect(Math.min(...birch.map(({ decidedUs }) => decidedUs))).toBeLessThan(
      Math.min(...acme.map(({ decidedUs }) => decidedUs)),
    )
  })

  it('leaves other errors to BullMQ, which counts them as attempts', async () => {
    const { queue, starts, done } = fleet(() => Promise.reject(new Error('boom')))
    await add(queue, 'acme', 1, { attempts: 2 })
    const [job] = await done(1)
    expect([job?.failedReason, job?.attemptsMade, starts.length]).toEqual(['boom', 2, 2])
  })

  it('moves a booked job again when a penalty came meanwhile', async () => {
    const { queue, starts, limiter, done } = fleet(async () => 'ok', { uses: ({ data }) => [rare.key(data.tenant)] })
    await add(queue, 'acme', 2)
    await expect.poll(() => queue.getDelayedCount(), { interval: 10 }).toBe(1)
    const closedMs = performance.now()
    await limiter.penalize(rare.key('acme'), '5s')
    const jobs = await done(2)
    expect(starts).toHaveLength(2)
    expect(starts[1]!.atMs).toBeGreaterThanOrEqual(closedMs + 5000 - SEEN_LATE_MS)
    expect(jobs.map((job) => job.attemptsMade)).toEqual([1, 1])
    expect(jobs.map((job) => job.attemptsStarted).toSorted((a, b) => a - b)).toEqual([1, 3])
  })

  it('fetches a job again then whose start is further away than it books', async () => {
    const { queue, done } = fleet(async () => 'ok', { atMost: '250ms' })
    await add(queue, 'acme', 6)
    expect((await done(6)).map((job) => job.failedReason)).toEqual(Array.from({ length: 6 }, () => undefined))
  })

  /** When BullMQ brings each delayed job back, by its id. */
  async function bookedMs(queue: Queue): Promise<Map<string, number>> {
    const args = ['ZRANGE', queue.toKey('delayed'), '0', '-1', 'WITHSCORES']
    const list = (await client!.sendCommand(args)) as [id: string, score: number][]
    // The lowest 12 bits order jobs of the same instant.
    return new Map(list.map(([id, score]) => [id, score / 4096]))
  }

  describe.skipIf(!HAS_REDIS_SERVER)('whose backend goes away', () => {
    const away = async (processor: BudgetedProcessor<Job<Data>, unknown>, failMode: 'open' | 'closed') => {
      const redis = await OwnRedis.start()
      ending.push(() => redis.kill())
      const uses = ({ data }: Job<Data>) => [slow.key(data.tenant)]
      return { redis, ...fleet(processor, { uses }, 20, { backend: redis.url, failMode }) }
    }

    it('starts its booked jobs at their times where failMode is open, and fetches them twice', async () => {
      const { redis, queue, starts, done } = await away(async () => 'ok', 'open')
      await add(queue, 'acme', 4)
      await expect.poll(() => queue.getDelayedCount(), { interval: 10 }).toBe(3)
      await expect.poll(() => starts.length, { interval: 10 }).toBe(1)
      const booked = await bookedMs(queue)
      await redis.kill()
      const jobs = await done(4)
      expect(jobs.map((job) => job.attemptsStarted).toSorted((a, b) => a - b)).toEqual([1, 2, 2, 2])
      const [first, ...later] = starts
      const instants = [first!.decidedUs / 1000, ...later.map(({ id }) => booked.get(id) ?? NaN)]
      for (let i = 1; i < 4; i++) expect(instants[i]! - instants[0]!).toBeGreaterThanOrEqual(i * 1000 - SEEN_LATE_MS)
      for (const { id, atMs } of later)
        expect(performance.timeOrigin + atMs).toBeGreaterThanOrEqual(booked.get(id)! - SEEN_LATE_MS)
    })

    it('starts none where it is closed, asks each second, and goes on when it is back', async () => {
      const { redis, queue, starts, done } = await away(async () => 'ok', 'closed')
      await add(queue, 'acme', 3)
      await expect.poll(() => queue.getDelayedCount(), { interval: 10 }).toBe(2)
      await expect.poll(() => starts.length, { interval: 10 }).toBe(1)
      await redis.kill()
      const [first] = starts
      await expect.poll(() => performance.now() - first!.atMs).toBeGreaterThan(4500)
      expect(starts).toHaveLength(1)
      for (const job of await queue.getDelayed()) expect(job.attemptsStarted).toBeLessThanOrEqual(5)
      await redis.start()
      expect((await done(3)).map((job) => job.attemptsMade)).toEqual([1, 1, 1])
    })

    it('starts a refused job no sooner than the refusal says', async () => {
      const refusedMs: number[] = []
      const { redis, queue, starts, done } = await away(async () => {
        if (refusedMs.push(performance.now()) === 1) await redis.kill()
        if (refusedMs.length < 3) throw new RateLimited({ retryAfter: '2s' })
      }, 'open')
      await add(queue, 'acme', 1)
      await done(1)
      expect(starts).toHaveLength(3)
      for (const [i, { atMs }] of starts.slice(1).entries()) expect(atMs - refusedMs[i]!).toBeGreaterThanOrEqual(1990)
    })
  })

  it('lets a tenant with a budget of its own pass the backlogs of others', async () => {
    const limits: Readonly<Record<string, Limit>> = { b: wide, t: crm, u: yearly }
    const { queue, starts, done } = fleet(
      async () => 'ok',
      { uses: ({ data: { tenant } }) => [(limits[tenant[0] ?? ''] ?? crm).key(tenant)] },
      50,
    )
    await Promise.all(Array.from({ length: 20 }, (_, i) => add(queue, `t${i}`, 5)))
    await Promise.all(Array.from({ length: 20 }, (_, i) => add(queue, `u${i}`, 5)))
    await expect.poll(() => queue.getWaitingCount()).toBe(0)
    for (let i = 0; i < 5; i++) {
      const [job] = await add(queue, 'b', 1)
      await expect.poll(() => starts.some(({ id }) => id === job?.id), { interval: 2 }).toBe(true)
    }
    const jobs = await done(20 * 5 + 20 + 5)
    // Four jobs of each u wait for years: b passed these, however busy the machine was.
    expect(starts.filter(({ tenant }) => tenant.startsWith('u'))).toHaveLength(20)
    expect(Math.max(...jobs.map((job) => job.attemptsMade))).toBe(1)
    for (let i = 0; i < 20; i++)
      expectApart(
        starts.filter(({ tenant }) => tenant === `t${i}`),
        100,
      )
  })

  it('refuses options that it does not know', () => {
    const limiter = createLimiter({ backend: 'memory:', limits: [crm] })
    const processor = async (): Promise<void> => undefined
    const uses = () => [crm]
    const made =
      (options: unknown, own: unknown = limiter, work: unknown = processor) =>
      () =>
        withBudgets(own as Limiter, options as BudgetOptions<Job>, work as typeof processor)
    expect(made({ uses, atmost: '1s' })).toThrow(/atMost/)
    expect(made({ uses: [crm] })).toThrow(/uses/)
    expect(made({ uses, atMost: 'soon' })).toThrow(/atMost/)
    expect(made({ uses, clock: {} })).toThrow(/clock/)
    expect(made({ uses }, {})).toThrow(/limiter/)
    expect(made({ uses }, limiter, 5)).toThrow(/processor/)
  })
})
