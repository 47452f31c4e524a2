// Jobs whose budget is on a Redis or a NATS server of the test's own, in every kind of trouble, in real time.
import { describe, it, type TestContext, vi } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { HAS_NATS_SERVER, OwnNats } from '../limiter/own-nats.ts'
import { HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { NATS_TROUBLES, REDIS_TROUBLES, sleep, type Trouble, Troubled } from '../limiter/troubles.ts'

const RATE = 200
const BURST = 20
/** More than those that go on blindly can run, 500 a second, in the longest trouble. */
const JOBS = 4000
const api = limit('api', { rate: RATE, per: '1s', burst: BURST, backend: 'shared' })
const SLOTS = 3
const slots = limit('slots', { concurrency: SLOTS, backend: 'shared' })
/** As many jobs as a process runs at once, also those that go on blindly. */
const AT_ONCE = 10

// Each has a server of its own, and waits half of its time.
vi.setConfig({ maxConcurrency: 2, testTimeout: 300_000 })
/** Only what hangs is given up. */
const PATIENT = { timeout: 100_000 }

const RUNS = { queues: { default: { concurrency: AT_ONCE } }, logger: silentLogger }

/** Jobs for a long time, and others without a limit; the times of their starts. */
async function load({ expect, onTestFinished }: TestContext, backend: string, failMode: 'closed' | 'open') {
  const starts: number[] = []
  const others: number[] = []
  const ran: string[] = []
  const call = task('call', input<null>(), {
    limits: [api, slots],
    run: async (_, ctx) => {
      starts.push(Date.now())
      await sleep(20)
      ran.push(ctx.job.id)
    },
  })
  const other = task('other', input<null>(), { run: () => void others.push(Date.now()) })
  const budgets = { shared: { backend, failMode, namespace: failMode } }
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [call, other], budgets, ...RUNS })
  onTestFinished(() => engine.stop({ within: 0 }))
  const told: string[] = []
  const counts = { granted: 0 }
  engine.on('rate_limit.backend_down', () => told.push('down'))
  engine.on('rate_limit.backend_up', ({ granted }) => {
    told.push('up')
    counts.granted += granted
  })
  for (let n = 0; n < JOBS; n += 1000) await call.enqueueMany(Array.from({ length: 1000 }, () => null))
  await engine.start()
  const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
  return {
    engine,
    other,
    others,
    told,
    counts,
    between,
    ready: () => expect.poll(() => starts.length, PATIENT).toBeGreaterThan(3 * BURST),
    /** Each job has run once, or waits for its start. */
    async end(): Promise<void> {
      await engine.queues.pause('default')
      const jobs = async () => (await engine.queues.get('default'))!.jobs
      await expect.poll(async () => (await jobs()).active).toBe(0)
      expect(new Set(ran).size).toBe(ran.length)
      const { completed, available, discarded, cancelled } = await jobs()
      expect(ran.length).toBe(starts.length)
      expect({ completed, left: available, discarded, cancelled }).toEqual({
        completed: ran.length + others.length,
        left: JOBS - ran.length,
        discarded: 0,
        cancelled: 0,
      })
    },
  }
}

async function survive<Server extends OwnRedis | OwnNats>(
  context: TestContext,
  server: Server,
  { isAway, happen }: Trouble<Server>,
) {
  const { expect } = context
  const troubled = new Troubled(server)
  context.onTestFinished(() => troubled.end())
  const [closed, open] = [await load(context, server.url, 'closed'), await load(context, server.url, 'open')]
  const both = [closed, open]
  await Promise.all(both.map((each) => each.ready()))
  let sent = 0
  const timer = setInterval(() => void closed.engine.enqueue(closed.other, null).then(() => sent++), 50)
  const othersRun = async (): Promise<void> => {
    const due = sent
    await expect.poll(() => closed.others.length).toBeGreaterThanOrEqual(due)
  }
  const { lasts } = troubled
  // While the server is away, jobs without a limit run, and those that need not ask it.
  troubled.lasts = async () => {
    await lasts()
    await othersRun()
    await expect.poll(() => open.between(troubled.awayMs, Infinity)).toBeGreaterThan(50 + AT_ONCE)
    await expect.poll(() => both.map(({ told }) => told.includes('down'))).toEqual([true, true])
  }
  await happen(troubled).finally(() => clearInterval(timer))
  await othersRun()
  // Those that had their permit may begin later; a server that is being stopped may give each back once more.
  expect(closed.between(troubled.awayMs, troubled.backMs)).toBeLessThanOrEqual(2 * SLOTS)
  const backMs = Date.now()
  for (const { between, told } of both) {
    await expect.poll(() => between(backMs, Infinity), { interval: 10 }).toBeGreaterThan(0)
    await expect.poll(() => told.at(-1)).not.toBe('down')
  }
  const upMs = Date.now()
  for (const { between, engine } of both) {
    await expect.poll(() => between(upMs, Infinity), PATIENT).toBeGreaterThan(100)
    const most = 2 * BURST + AT_ONCE
    const count = between(upMs, Infinity)
    expect(count).toBeLessThanOrEqual(most + Math.ceil((RATE * (Date.now() - upMs + 1)) / 1000))
    await expect.poll(async () => (await engine.limits.inspect('slots'))[0]!.active).toBeLessThanOrEqual(SLOTS)
  }
  await Promise.all(both.map((each) => each.end()))
  expect(closed.counts.granted).toBe(0)
  if (isAway) expect(open.counts.granted).toBeGreaterThan(50)
  return both.map(({ told }) => told.join())
}

// A server may be too slow for a moment on a busy machine, too: then a process tells that once more.
describe.skipIf(!HAS_REDIS_SERVER).concurrent('jobs whose Redis', () => {
  it.for(REDIS_TROUBLES)('$name: closed holds, open goes on and counts, none is lost', async (trouble, context) => {
    const { expect } = context
    for (const told of await survive(context, await OwnRedis.start(), trouble))
      expect(told).toMatch(trouble.isAway ? /^(down,up,?)+$/ : /^(down,up,?)*$/)
  })
})

describe.skipIf(!HAS_NATS_SERVER).concurrent('jobs whose NATS server', () => {
  it.for(NATS_TROUBLES)('$name: closed holds, open goes on and counts, none is lost', async (trouble, context) => {
    const { expect } = context
    for (const told of await survive(context, await OwnNats.start(), trouble))
      expect(told).toMatch(trouble.isAway ? /^(down,up,?)+$/ : /^(down,up,?)*$/)
  })
})
