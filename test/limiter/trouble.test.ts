// Plain code at a Redis or a NATS server of the test's own in every kind of trouble, under load, in real time.
import { describe, it, type TestContext, vi } from 'vitest'
import { createLimiter, limit, type LimiterOptions } from '../../src/exports/limiter.ts'
import { HAS_NATS_SERVER, OwnNats } from './own-nats.ts'
import { HAS_REDIS_SERVER, OwnRedis } from './own-redis.ts'
import { NATS_TROUBLES, REDIS_TROUBLES, sleep, type Trouble, Troubled } from './troubles.ts'

const RATE = 200
const BURST = 20
/** Calls of each process at a time. */
const CALLS = 20
const api = limit('api', { rate: RATE, per: '1s', burst: BURST })

// Each has a server of its own, and mostly waits.
vi.setConfig({ maxConcurrency: 3 })

/** Calls that never end; the times of their starts. */
function load(
  { expect, onTestFinished }: TestContext,
  options: Pick<LimiterOptions, 'backend'> & Partial<LimiterOptions>,
) {
  const limiter = createLimiter({ limits: [api], ...options })
  const starts: number[] = []
  const told: string[] = []
  const counts = { granted: 0 }
  const state = { ends: false }
  onTestFinished(() => limiter.close())
  limiter.on('rate_limit.backend_down', () => told.push('down'))
  limiter.on('rate_limit.backend_up', ({ granted }) => {
    told.push('up')
    counts.granted += granted
  })
  limiter.on('rate_limit.backend_reset', () => told.push('reset'))
  const work = async (): Promise<void> => {
    while (!state.ends) {
      const permit = await limiter.acquire([api])
      starts.push(Date.now())
      await permit.release()
      // Calls that no budget holds need some other bound.
      if (options.failMode === 'open') await sleep(10)
    }
  }
  const calls = Array.from({ length: CALLS }, work)
  const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
  return {
    limiter,
    starts,
    told,
    counts,
    between,
    /** It has connected, and used up its burst. */
    ready: () => expect.poll(() => starts.length).toBeGreaterThan(3 * BURST),
    /** Every call has its start; an error rejects. */
    end: () => {
      state.ends = true
      return Promise.all(calls)
    },
  }
}

async function survives<Server extends OwnRedis | OwnNats>(
  context: TestContext,
  server: Server,
  { isAway, happen }: Trouble<Server>,
) {
  const { expect } = context
  const troubled = new Troubled(server)
  context.onTestFinished(() => troubled.end())
  const closed = load(context, { backend: server.url })
  const open = load(context, { backend: server.url, namespace: 'open', failMode: 'open' })
  const both = [closed, open]
  await Promise.all(both.map((each) => each.ready()))
  const { lasts } = troubled
  // While the server is away, calls that need not ask it go on.
  troubled.lasts = async () => {
    await lasts()
    await expect.poll(() => open.between(troubled.awayMs, Infinity)).toBeGreaterThan(50 + CALLS)
    await expect.poll(() => both.map(({ told }) => told.includes('down'))).toEqual([true, true])
  }
  await happen(troubled)
  // Those that were granted before may begin later.
  expect(closed.between(troubled.awayMs, troubled.backMs)).toBeLessThanOrEqual(CALLS)
  const backMs = Date.now()
  for (const { between, told } of both) {
    await expect.poll(() => between(backMs, Infinity), { interval: 10 }).toBeGreaterThan(0)
    await expect.poll(() => told.at(-1)).not.toBe('down')
  }
  const upMs = Date.now()
  for (const { between } of both) {
    await expect.poll(() => between(upMs, Infinity)).toBeGreaterThan(RATE)
    // A server that has lost its buckets lets one burst more start.
    const most = 2 * BURST + CALLS
    const count = between(upMs, Infinity)
    expect(count).toBeLessThanOrEqual(most + Math.ceil((RATE * (Date.now() - upMs + 1)) / 1000))
  }
  await Promise.all(both.map((each) => each.end()))
  expect(closed.counts.granted).toBe(0)
  if (isAway) expect(open.counts.granted).toBeGreaterThan(50)
  expect((await open.limiter.inspect(api)).grantedBlindly).toBe(open.counts.granted)
  return both.map(({ told }) => told.join())
}

/**
 * A limiter tells each change once: the server went, it lost the limits, it came back. To a process on a busy machine it
 * may seem to go again.
 */
function tellings({ isAway, forgets = false }: Pick<Trouble<never>, 'isAway' | 'forgets'>): RegExp {
  const reset = forgets ? '(reset,)' : ''
  return new RegExp(
    isAway ? `^(down,up,)*down,${reset}up,(down,up,)*$` : `^(down,up,)*(${reset}|down,${reset}up,)(down,up,)*$`,
  )
}

describe.skipIf(!HAS_REDIS_SERVER).concurrent('calls whose Redis', () => {
  it.for(REDIS_TROUBLES)('$name: closed holds, open goes on and counts, both come back', async (trouble, context) => {
    const { expect } = context
    for (const told of await survives(context, await OwnRedis.start(), trouble))
      expect(`${told},`.replace(/^,$/, '')).toMatch(tellings(trouble))
  })
})

describe.skipIf(!HAS_NATS_SERVER).concurrent('calls whose NATS server', () => {
  it.for(NATS_TROUBLES)('$name: closed holds, open goes on and counts, both come back', async (trouble, context) => {
    const { expect } = context
    for (const told of await survives(context, await OwnNats.start(), trouble))
      expect(`${told},`.replace(/^,$/, '')).toMatch(tellings(trouble))
  })
})
