import { afterEach, describe, expect, it } from 'vitest'
import {
  createLimiter,
  defineBackend,
  limit,
  type LimitBackend,
  type Limiter,
  type LimiterOptions,
  RateLimited,
  RateLimitRejected,
} from '../../src/exports/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { createManualClock, type ManualClock } from '../../src/testing/manual-clock.ts'

const crm = limit('crm', { rate: 10, per: '1s', burst: 1 })
const outbound = limit('outbound', { rate: 100, per: '1s' })
const slots = limit('slots', { concurrency: 1 })
const pool = limit('pool', { concurrency: 9 })
const limiters: Limiter[] = []

function harness({ clock = createManualClock(), ...options }: Partial<LimiterOptions> & { clock?: ManualClock } = {}) {
  const limiter = createLimiter({ backend: 'memory:', limits: [crm, outbound, slots], clock, ...options })
  limiters.push(limiter)
  const startMs = clock.now()
  return { clock, limiter, ms: () => clock.now() - startMs }
}

/** A backend that counts its calls, and can be made unreachable. */
function watched(clock: ReturnType<typeof createManualClock>) {
  const memory = new MemoryBackend(clock)
  const seen = { acquires: 0, requests: 0, releases: 0, isDown: false, losesAnswers: false }
  const verbs = ['define', 'reserve', 'confirm', 'cancel', 'release', 'extend', 'charge', 'penalize'] as const
  const rest = ['calibrate', 'change', 'inspect', 'forget', 'close'] as const
  const reach = async (verb: string, ...args: unknown[]): Promise<unknown> => {
    if (seen.isDown || (seen.losesAnswers && verb !== 'acquire')) throw new Error('connection refused')
    if (verb === 'release') seen.releases++
    const answer = await (memory[verb as 'define'] as (...given: unknown[]) => Promise<unknown>).apply(memory, args)
    if (seen.losesAnswers) throw new Error('connection reset')
    return answer
  }
  const backend = Object.fromEntries([...verbs, ...rest].map((verb) => [verb, reach.bind(null, verb)]))
  return {
    seen,
    memory,
    backend: defineBackend({
      ...(backend as unknown as LimitBackend),
      isLocal: false,
      acquire: async (requests) => {
        seen.acquires++
        seen.requests += requests.length
        return reach('acquire', requests) as ReturnType<LimitBackend['acquire']>
      },
    }),
  }
}

afterEach(async () => {
  await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
})

describe('acquire', () => {
  it('takes from the bucket of each call, whichever key and weight the calls before it named', async () => {
    const { limiter } = harness()
    const api = limit('api', { rate: 10, per: '1s' })
    limiter.define([api])
    for (const use of [api.key('a'), api.key('a'), api.key('b'), api.key('a', { weight: 3 }), api.key('a'), api])
      await limiter.acquire([use])
    const left = await Promise.all([api.key('a'), api.key('b'), api].map((use) => limiter.inspect(use)))
    expect(left.map(({ available }) => available)).toEqual([4, 9, 9])
  })

  it('waits no longer than a limit says, also where a call gives no options', async () => {
    const { clock, limiter } = harness()
    const drops = limit('drops', { rate: 1, per: '1s', burst: 1, onLimit: 'drop' })
    const soon = limit('soon', { rate: 1, per: '1s', burst: 1, maxWait: '20ms' })
    limiter.define([drops, soon])
    for (const each of [drops, soon]) {
      await limiter.acquire([each])
      const second = limiter.acquire([each]).catch((error: unknown) => error)
      await clock.advance('2s')
      expect(await second).toBeInstanceOf(RateLimitRejected)
    }
  })

  it('rejects what is no use, and never throws', async () => {
    const { limiter } = harness()
    await limiter.acquire([outbound])
    for (const uses of [[null], [undefined], [], null])
      await expect(limiter.acquire(uses as never)).rejects.toMatchObject({ code: 'option.invalid' })
    await expect(limiter.acquire([outbound], { priority: 1000 })).rejects.toMatchObject({ code: 'priority.invalid' })
    await expect(limiter.acquire([outbound], { wiat: false } as never)).rejects.toMatchObject({
      code: 'option.invalid',
    })
    await expect(limiter.acquire([limit('other', '1/s')])).rejects.toMatchObject({ code: 'limit.unknown' })
  })

  it('waits until the exact instant of its start', async () => {
    const { clock, limiter, ms } = harness()
    const starts: number[] = []
    for (let i = 0; i < 4; i++) void limiter.acquire([crm.key('a')]).then(() => starts.push(ms()))
    await clock.advance('1s')
    expect(starts).toEqual([0, 100, 200, 300])
  })

  it('answers at once with wait: false, and names the bucket and the time', async () => {
    const { limiter, clock } = harness()
    await limiter.acquire([crm.key('a')])
    const error = await limiter.acquire([crm.key('a')], { wait: false }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RateLimitRejected)
    expect(error).toMatchObject({ limit: 'crm', key: 'a', expectedStart: new Date(clock.now() + 100) })
  })

  it('is rejected as soon as its wait will not do', async () => {
    const { limiter, ms } = harness()
    await limiter.acquire([crm])
    await expect(limiter.acquire([crm], { wait: '99ms' })).rejects.toMatchObject({ code: 'limit.rejected' })
    expect(ms()).toBe(0)
  })

  it('is rejected when its wait is over', async () => {
    const { clock, limiter, ms } = harness()
    const held = await limiter.acquire([slots])
    const late: number[] = []
    void limiter.acquire([slots], { wait: '3s' }).catch(() => late.push(ms()))
    await clock.advance('10s')
    expect(late).toEqual([3000])
    await held.release()
  })

  it('starts calls by priority, then in the order of their arrival', async () => {
    const { clock, limiter } = harness()
    await limiter.acquire([crm])
    const order: string[] = []
    for (const [name, priority] of [
      ['a', 0],
      ['b', 0],
      ['c', 5],
      ['d', -1],
    ] as const)
      void limiter.acquire([crm], { priority }).then(() => order.push(name))
    await clock.advance('1s')
    expect(order).toEqual(['c', 'a', 'b', 'd'])
  })

  it('lets no light call pass a heavy head', async () => {
    const heavy = limit('heavy', { rate: 10, per: '1s' })
    const { clock, limiter } = harness({ limits: [heavy] })
    await limiter.acquire([heavy.weight(10)])
    const order: string[] = []
    void limiter.acquire([heavy.weight(10)]).then(() => order.push('heavy'))
    void limiter.acquire([heavy]).then(() => order.push('light'))
    await clock.advance('900ms')
    expect(order).toEqual([])
    await clock.advance('200ms')
    expect(order).toEqual(['heavy', 'light'])
  })

  it('gives up with the reason of its signal, and takes nothing', async () => {
    const { clock, limiter } = harness()
    await expect(limiter.acquire([crm], { signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
    await limiter.acquire([crm])
    const controller = new AbortController()
    const waiting = limiter.acquire([crm], { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    await clock.advance('100ms')
    await limiter.acquire([crm], { wait: false })
    expect(limiter.waiting).toBe(0)
  })

  it('refuses more than maxWaiting', async () => {
    const { limiter } = harness({ maxWaiting: 2 })
    await limiter.acquire([crm])
    const waiting = [limiter.acquire([crm]), limiter.acquire([crm])]
    await expect(limiter.acquire([crm])).rejects.toMatchObject({ code: 'limiter.full' })
    const ended = Promise.allSettled(waiting)
    await limiter.close()
    expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await expect(limiter.acquire([crm])).rejects.toMatchObject({ code: 'limiter.closed' })
  })

  it('leaves work that runs at its close to its own end, and tells it that its permit has returned', async () => {
    const { limiter } = harness({ limits: [pool] })
    const open = Promise.withResolvers<void>()
    const reasons: unknown[] = []
    const works = async ({ signal }: { signal: AbortSignal }): Promise<string> => {
      await open.promise
      reasons.push((signal.reason as { code?: string } | undefined)?.code)
      return 'paid'
    }
    const refused = async (): Promise<never> => {
      await open.promise
      throw new RateLimited({ retryAfter: '1s' })
    }
    const runs = Promise.allSettled([limiter.run([pool], works), limiter.run([pool], refused)])
    const permit = await limiter.acquire([pool])
    await limiter.close()
    open.resolve()
    const [done, failed] = await runs
    expect(done).toEqual({ status: 'fulfilled', value: 'paid' })
    expect(failed).toMatchObject({ status: 'rejected', reason: expect.any(RateLimited) as unknown })
    expect(reasons).toEqual(['limiter.closed'])
    expect(permit.signal.reason).toMatchObject({ code: 'limiter.closed' })
    await expect(permit.release()).resolves.toBeUndefined()
  })

  it.each([
    ['a limit that is not listed', [limit('other', { rate: 1, per: '1s' })], 'limit.unknown'],
    ['another policy under the same name', [limit('crm', { rate: 1, per: '1s' })], 'limit.conflict'],
    ['a weight above the burst', [crm.weight(2)], 'limit.weight.above_burst'],
    ['a key of a job', [crm.by(() => 'a')], 'option.invalid'],
    ['no uses', [], 'option.invalid'],
  ])('refuses %s, and writes nothing', async (_, uses, code) => {
    const { limiter } = harness()
    await expect(limiter.acquire(uses)).rejects.toMatchObject({ code })
  })

  it('takes a key over 1 KiB by its hash', async () => {
    const { limiter } = harness()
    await limiter.acquire([crm.key('x'.repeat(2000))])
    await expect(limiter.acquire([crm.key('x'.repeat(2000))], { wait: false })).rejects.toMatchObject({
      code: 'limit.rejected',
    })
    await limiter.acquire([crm.key(`${'x'.repeat(1999)}y`)], { wait: false })
  })
})

describe('a line', () => {
  it('asks once for all that wait, and then at the instant that it was told', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock })
    for (let i = 0; i < 10; i++) void limiter.acquire([outbound.weight(50)])
    await clock.advance('1s')
    expect(seen.acquires).toBe(3)
    await clock.advance('5s')
    expect(limiter.waiting).toBe(0)
  })

  it('remembers a denial: a closed bucket costs no call', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock })
    await limiter.acquire([crm])
    for (let i = 0; i < 50; i++) await limiter.acquire([crm], { wait: false }).catch(() => undefined)
    expect(seen.acquires).toBe(2)
    await clock.advance('100ms')
    await limiter.acquire([crm], { wait: false })
    expect(seen.acquires).toBe(3)
  })

  it('of another set of buckets asks in the same call', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock })
    await Promise.all(['a', 'b', 'c'].map((key) => limiter.acquire([crm.key(key), outbound])))
    expect(seen).toMatchObject({ acquires: 1, requests: 3 })
  })

  it('of one among many that wait asks for those that its pace lets start, and all start when it is raised', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const api = limit('api', { rate: 100, per: '1s', burst: 5 })
    const { limiter } = harness({ backend, clock, limits: [api] })
    const startsMs: number[] = []
    const calls = Array.from({ length: 300 }, async () => {
      await limiter.acquire([api])
      startsMs.push(clock.now())
    })
    await clock.advance('1s')
    expect(startsMs).toHaveLength(105)
    // The first question knows nothing of the pace.
    expect(seen.requests).toBeLessThanOrEqual(100 + 3 * 105)
    await limiter.override(api, { rate: 10_000 })
    await clock.advance('20ms')
    await Promise.all(calls)
    expect(startsMs).toHaveLength(300)
  })

  it('wakes when a permit returns in this process, and asks again for those of others', async () => {
    const clock = createManualClock()
    const { backend } = watched(clock)
    const one = harness({ backend, clock })
    const other = harness({ backend, clock })
    const held = await one.limiter.acquire([slots])
    const got: string[] = []
    void other.limiter.acquire([slots]).then((permit) => {
      got.push('other')
      return permit.release()
    })
    await clock.advance('1s')
    expect(got).toEqual([])
    await held.release()
    await clock.advance('250ms')
    expect(got).toEqual(['other'])
  })

  it('waits for a start after the end of an override, and is refused at once if that is too late', async () => {
    const { clock, limiter, ms } = harness()
    const until = new Date(clock.now() + 60_000)
    await limiter.override(crm, { rate: 1, per: '1h' }, { until })
    await limiter.acquire([crm])
    const late = limiter.acquire([crm], { wait: '60s' })
    await expect(late).rejects.toMatchObject({ expectedStart: new Date(clock.now() + 60_098) })
    const starts = (['2m', '60200ms', '1h'] as const).map(async (wait) => {
      await limiter.acquire([crm], { wait })
      return ms()
    })
    await clock.advance('61s')
    expect((await Promise.all(starts)).map(Math.round)).toEqual([60_098, 60_198, 60_298])
  })

  it('asks at once after this process lifted the limit', async () => {
    const { clock, limiter, ms } = harness()
    await limiter.pause(crm)
    const got: number[] = []
    void limiter.acquire([crm]).then(() => got.push(ms()))
    await clock.advance('10ms')
    await limiter.resume(crm)
    await clock.advance('1ms')
    expect(got).toEqual([10])
  })
})

describe('an override as text', () => {
  it('changes the numbers of a rate or a window, and is refused with the place that does not fit', async () => {
    const window = limit('window', '10 in any 1 min')
    const { limiter } = harness({ limits: [crm, window] })
    await limiter.override(crm, '20/s burst 4')
    await limiter.override('window', '30/min')
    expect((await limiter.inspect(crm)).policy.rule).toMatchObject({ kind: 'rate', rate: 20, burst: 4 })
    expect((await limiter.inspect(window)).policy.rule).toMatchObject({ kind: 'sliding', max: 30 })
    await expect(limiter.override(crm, '20/x')).rejects.toThrow('at character 4')
    await expect(limiter.override(null as never, '20/s')).rejects.toMatchObject({ code: 'option.invalid' })
    const until = new Date('2300-01-01')
    await expect(limiter.override(crm, '20/s', { until })).rejects.toThrow('Expected a time before 2200-01-01.')
  })
})

describe('permits', () => {
  it('are held by heartbeats for as long as the work lasts', async () => {
    const { clock, limiter } = harness({ lease: '3s' })
    const permit = await limiter.acquire([slots])
    await clock.advance('1m')
    await expect(limiter.acquire([slots], { wait: false })).rejects.toMatchObject({ limit: 'slots' })
    expect(permit.signal.aborted).toBe(false)
    await permit.release()
    await permit.release()
    await limiter.acquire([slots], { wait: false })
  })

  it('return after an outage in which they were released, or in which the answer was lost', async () => {
    const clock = createManualClock()
    const { backend, memory, seen } = watched(clock)
    const { limiter } = harness({ backend, clock, lease: '1m' })
    const permit = await limiter.acquire([slots])
    seen.isDown = true
    const released = permit.release()
    await clock.advance('1s')
    await released
    const isFree = async (): Promise<boolean> => {
      const { active } = (await memory.inspect({ limit: 'slots', key: '' })) as { active: number }
      return active === 0
    }
    expect(await isFree()).toBe(false)
    seen.isDown = false
    // No other call finds out that it answers again.
    await clock.advance('3s')
    expect(await isFree()).toBe(true)
    seen.losesAnswers = true
    const lost = limiter.acquire([slots], { wait: false }).catch((error: unknown) => error)
    await clock.advance('500ms')
    expect(await lost).toMatchObject({ limit: 'slots' })
    expect(await isFree()).toBe(false)
    seen.losesAnswers = false
    await clock.advance('3s')
    expect(await isFree()).toBe(true)
  })

  it('return after a failover that lost their release', async () => {
    const clock = createManualClock()
    const { backend, seen, memory } = watched(clock)
    const lost = { isAhead: true }
    const release: LimitBackend['release'] = async (permits) => {
      if (!lost.isAhead) await memory.release(permits)
    }
    const { limiter } = harness({ backend: { ...backend, release }, clock })
    await (await limiter.acquire([slots])).release()
    seen.isDown = true
    const waits = limiter.acquire([slots])
    await clock.advance('1s')
    lost.isAhead = false
    seen.isDown = false
    await clock.advance('2s')
    await (await waits).release()
    expect(await memory.inspect({ limit: 'slots', key: '' })).toMatchObject({ active: 0 })
  })

  it('return if an answer was lost and the next try is denied what the first one took', async () => {
    const clock = createManualClock()
    const { backend, memory } = watched(clock)
    let tries = 0
    const acquire: LimitBackend['acquire'] = async (requests) => {
      const answers = await memory.acquire(requests)
      if (++tries === 1) throw new Error('connection reset')
      return answers
    }
    const { limiter } = harness({ backend: { ...backend, acquire }, clock, lease: '30s' })
    const got = limiter.acquire([slots]).then(() => clock.now())
    const startMs = clock.now()
    await clock.advance('40s')
    expect((await got) - startMs).toBeLessThan(2000)
    expect(tries).toBeGreaterThan(2)
  })

  it('leave a call its outcome, though its refusal cannot be told to the backend', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock })
    await limiter.acquire([outbound])
    const refuse = async (): Promise<Response> => {
      seen.isDown = true
      return new Response('', { status: 429, headers: { 'retry-after': '9' } })
    }
    const sent = limiter.fetch({ uses: () => [outbound, slots], fetch: refuse })('https://example.com')
    await clock.advance('1s')
    expect((await sent).status).toBe(429)
    seen.isDown = false
    await clock.advance('3s')
    const work = async (): Promise<never> => {
      seen.isDown = true
      throw new RateLimited({ retryAfter: '9s' })
    }
    const run = limiter.run([slots], work).catch((error: unknown) => error)
    await clock.advance('1s')
    expect(await run).toBeInstanceOf(RateLimited)
    seen.isDown = false
  })

  it('are not returned after their lease has ended', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock, lease: '3s' })
    const permit = await limiter.acquire([slots])
    seen.isDown = true
    void permit.release()
    await clock.advance('10s')
    seen.isDown = false
    await clock.advance('10s')
    expect(seen.releases).toBe(0)
  })

  it('abort their signal when the lease ended all the same', async () => {
    const clock = createManualClock()
    const { backend, memory } = watched(clock)
    const { limiter } = harness({ backend, clock, lease: '3s' })
    const permit = await limiter.acquire([slots])
    const { signal } = permit
    await memory.close()
    await clock.advance('2s')
    expect(signal.reason).toMatchObject({ code: 'lease.lost' })
  })
})

describe('run', () => {
  it('releases when the work ends or fails', async () => {
    const { limiter } = harness()
    expect(await limiter.run([slots], () => 5)).toBe(5)
    await expect(limiter.run([slots], () => Promise.reject(new Error('boom')))).rejects.toThrow('boom')
    await limiter.run([slots], () => undefined, { wait: false })
  })

  it('closes the bucket for a RateLimited', async () => {
    const { clock, limiter } = harness()
    const told: unknown[] = []
    limiter.on('rate_limit.dynamic_adjusted', (event) => told.push(event))
    const work = () => Promise.reject(new RateLimited({ retryAfter: '30s' }))
    await expect(limiter.run([crm.key('a'), outbound], work)).rejects.toBeInstanceOf(RateLimited)
    const { closedUntil } = await limiter.inspect(crm.key('a'))
    expect(closedUntil).toEqual(new Date(clock.now() + 30_000))
    expect(told).toEqual([{ limit: 'crm', key: 'a', until: closedUntil, remaining: null }])
  })

  it('corrects a cost', async () => {
    const tokens = limit('tokens', { rate: 100, per: '1m' })
    const { limiter } = harness({ limits: [tokens] })
    await limiter.run([tokens.weight(50)], (ctx) => ctx.charge(tokens, -30))
    expect(await limiter.inspect(tokens)).toMatchObject({ available: 80 })
    await limiter.charge(tokens, 90)
    expect(await limiter.inspect(tokens)).toMatchObject({ available: 0, debt: 10 })
    await expect(limiter.charge(tokens, -1)).rejects.toMatchObject({ code: 'option.invalid' })
  })

  it('gives back no more than was taken, where a correction was not charged', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const tokens = limit('tokens', { rate: 20, per: '1h' })
    const { limiter } = harness({ clock, backend, limits: [tokens] })
    await limiter.acquire([tokens.weight(10)])
    const permit = await limiter.acquire([tokens.weight(2)])
    seen.isDown = true
    const failed = limiter.charge(tokens, 8, permit).catch((error: unknown) => error)
    await clock.advance('10s')
    expect(await failed).toMatchObject({ code: 'limiter.backend_down' })
    seen.isDown = false
    await clock.advance('10s')
    await limiter.charge(tokens, -10, permit)
    expect((await limiter.inspect(tokens)).available).toBe(10)
  })

  it('gives back no more than the start took, however often its cost is corrected', async () => {
    const tokens = limit('tokens', { rate: 100, per: '1m' })
    const { limiter } = harness({ limits: [tokens] })
    await limiter.acquire([tokens.weight(60)])
    await limiter.run([tokens.weight(10)], async (ctx) => {
      for (let n = 0; n < 5; n++) await ctx.charge(tokens, -10)
      await ctx.charge(tokens.key('other'), -10)
    })
    expect(await limiter.inspect(tokens)).toMatchObject({ available: 40 })
    const permit = await limiter.acquire([tokens.weight(10)])
    await limiter.charge(tokens, 5, permit)
    await limiter.charge(tokens, -100, permit)
    await limiter.charge(tokens, -1, permit)
    expect(await limiter.inspect(tokens)).toMatchObject({ available: 40 })
  })
})

describe('fetch', () => {
  const api = limit('api', { rate: 100, per: '1s', calibrate: 'headers' })
  const uses = (request: Request) => [api.key(new URL(request.url).hostname)]

  it('waits for its budget, and learns from the headers', async () => {
    const { clock, limiter } = harness({ limits: [api] })
    const answer = () => new Response('ok', { headers: { RateLimit: '"default";r=3;t=60' } })
    const get = limiter.fetch({ uses, fetch: async () => answer() })
    expect(await (await get('https://api.example/a')).text()).toBe('ok')
    expect(await limiter.inspect(api.key('api.example'))).toMatchObject({ available: 3 })
    await clock.advance('1m')
    expect(await limiter.inspect(api.key('api.example'))).toMatchObject({ available: 100 })
  })

  it('sends a refused request again, after its budget', async () => {
    const { clock, limiter, ms } = harness({ limits: [api] })
    const sent: [number, string][] = []
    const get = limiter.fetch({
      uses,
      retries: 1,
      fetch: async (input) => {
        sent.push([ms(), await (input as Request).text()])
        return sent.length === 1 ? new Response('', { status: 429, headers: { 'Retry-After': '7' } }) : new Response('')
      },
    })
    const answer = get('https://api.example/a', { method: 'POST', body: 'hello' })
    await clock.advance('10s')
    expect((await answer).status).toBe(200)
    expect(sent).toEqual([
      [0, 'hello'],
      [7000, 'hello'],
    ])
  })
})

describe('listeners', () => {
  it('that throw reach no call, and others still hear', async () => {
    const { limiter } = harness()
    const heard: string[] = []
    limiter.on('rate_limit.dynamic_adjusted', () => {
      throw new Error('of a listener')
    })
    const rejects: unknown = async () => Promise.reject(new Error('of a listener'))
    limiter.on('rate_limit.dynamic_adjusted', rejects as () => void)
    limiter.on('rate_limit.dynamic_adjusted', ({ limit: name }) => heard.push(name))
    await limiter.penalize(crm, '1s')
    const refusal = new RateLimited({ retryAfter: '2s' })
    const run = limiter.run([outbound], () => {
      throw refusal
    })
    await expect(run).rejects.toBe(refusal)
    expect(heard).toEqual(['crm', 'outbound'])
  })

  it('end apart, and once', async () => {
    const { limiter } = harness()
    let heard = 0
    const listener = (): unknown => heard++
    const ends = [1, 2].map(() => limiter.on('rate_limit.dynamic_adjusted', listener))
    ends[0]?.()
    ends[0]?.()
    await limiter.penalize(crm, '1s')
    expect(heard).toBe(1)
  })

  it('of an unknown event, or that are none, are refused', () => {
    const { limiter } = harness()
    const on = limiter.on.bind(limiter) as (...args: unknown[]) => unknown
    const refused: unknown = expect.objectContaining({ code: 'option.invalid' })
    expect(() => on('rate_limit.backend_donw', () => 0)).toThrow(refused)
    expect(() => on('toString', () => 0)).toThrow(refused)
    expect(() => on('rate_limit.backend_down')).toThrow(refused)
  })
})

describe('a wrong argument', () => {
  it('is refused, and takes nothing', async () => {
    const { limiter } = harness()
    const any = limiter as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>
    const refused = { code: 'option.invalid' }
    await expect(any['acquire']?.([crm], { signal: 'now' })).rejects.toMatchObject(refused)
    await expect(any['run']?.([slots], 'work')).rejects.toMatchObject(refused)
    await expect(any['confirm']?.(undefined)).rejects.toMatchObject(refused)
    await expect(any['cancel']?.(7)).rejects.toMatchObject(refused)
    expect(await limiter.confirm('a\0b')).toEqual({ kind: 'gone' })
    expect(await limiter.cancel('\ud800')).toBe(false)
    expect(() => limiter.fetch({ uses: () => [], fetch: 'x' as never })).toThrow(expect.objectContaining(refused))
    const unlisted = limiter.fetch({ uses: (() => undefined) as never, fetch: async () => new Response() })
    await expect(unlisted('http://localhost/')).rejects.toMatchObject(refused)
    await expect(limiter.run([crm], (ctx) => ctx.observe(null as never))).rejects.toMatchObject(refused)
    expect(() => harness({ failMode: [] as never })).toThrow(expect.objectContaining(refused))
    expect(await limiter.inspect(slots)).toMatchObject({ active: 0 })
  })

  it('is told from a backend that cannot be reached', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock })
    await limiter.acquire([outbound])
    await limiter.override(outbound, { rate: 50 })
    for (const change of [undefined, null, 5])
      await expect(limiter.override(outbound, change as never)).rejects.toMatchObject({ code: 'policy.invalid' })
    const until = { until: '1s' } as never
    for (const end of [limiter.resume(outbound, until), limiter.removeOverride(outbound, until)])
      await expect(end).rejects.toMatchObject({ code: 'option.invalid' })
    expect((await limiter.inspect(outbound)).policy.rule).toMatchObject({ rate: 50 })
    seen.isDown = true
    for (const id of ['', 'x'.repeat(256)]) {
      expect(await limiter.confirm(id)).toEqual({ kind: 'gone' })
      expect(await limiter.cancel(id)).toBe(false)
    }
    seen.isDown = false
  })

  it('a permit of other limits or keys starts no run, and can still be used for its own', async () => {
    const { clock, limiter } = harness()
    const permit = await limiter.acquire([outbound, crm.key('acme')])
    for (const uses of [[crm.key('birch')], [outbound, crm.key('acme'), slots], [outbound.weight(2)]]) {
      const run = limiter.run(uses, () => 'ran', { permit })
      await expect(run).rejects.toThrow(expect.objectContaining({ code: 'option.invalid' }))
      await expect(run).rejects.toThrow(/it is of crm acme, outbound/)
    }
    expect(await limiter.run([crm.key('acme'), outbound], () => 'ran', { permit })).toBe('ran')
    await limiter.reserve([crm.key('acme')], { atMost: '1h', id: 'named' })
    await clock.advance('1h')
    const confirmed = await limiter.confirm('named')
    expect(confirmed.kind).toBe('go')
    // Only the backend knows its units.
    if (confirmed.kind === 'go')
      expect(await limiter.run([crm.key('acme')], () => 'ran', { permit: confirmed.permit })).toBe('ran')
    const named = await limiter.acquire([outbound])
    expect(await limiter.run([], () => 'ran', { permit: named })).toBe('ran')
  })

  it('a permit of another limiter starts no run, and brings no units back', async () => {
    const other = harness()
    const { limiter } = harness()
    const permit = await other.limiter.acquire([crm])
    const foreign = /it is of another limiter/
    await expect(limiter.run([crm], () => 'ran', { permit })).rejects.toThrow(foreign)
    for (const units of [-1, 1]) await expect(limiter.charge(crm, units, permit)).rejects.toThrow(foreign)
    for (const none of [{}, null, 'permit'])
      await expect(limiter.charge(crm, -1, none as never)).rejects.toMatchObject({ code: 'option.invalid' })
    await other.limiter.charge(crm, -1, permit)
    expect(await other.limiter.run([crm], () => 'ran', { permit })).toBe('ran')
  })

  it('a permit starts one run: released or used, it is refused', async () => {
    const { limiter } = harness()
    const permit = await limiter.acquire([crm])
    expect(await limiter.run([crm], () => 'ran', { permit })).toBe('ran')
    const again = (): Promise<string> => limiter.run([crm], () => 'ran', { permit })
    await expect(again()).rejects.toMatchObject({ code: 'option.invalid' })
    const released = await limiter.acquire([outbound])
    await released.release()
    const late = limiter.run([outbound], () => 'ran', { permit: released })
    await expect(late).rejects.toMatchObject({ code: 'option.invalid' })
  })
})

describe('a refusal', () => {
  it('closes the bucket that the caller lists first, whatever the names', async () => {
    const { limiter } = harness()
    const work = (): never => {
      throw new RateLimited({ retryAfter: '5s' })
    }
    await limiter.run([outbound, crm.key('acme'), crm.key('birch')], work).catch(() => undefined)
    expect((await limiter.inspect(outbound)).closedUntil).not.toBeNull()
    expect((await limiter.inspect(crm.key('acme'))).closedUntil).toBeNull()
    await limiter.run([slots, crm.key('c'), crm.key('d')].reverse(), work).catch(() => undefined)
    expect((await limiter.inspect(crm.key('c'))).closedUntil).toBeNull()
    expect((await limiter.inspect(crm.key('d'))).closedUntil).not.toBeNull()
  })

  it('closes the bucket of its key, whatever text or value that is', async () => {
    const { limiter } = harness()
    const refuse = (key: unknown): Promise<unknown> =>
      limiter
        .run([outbound, crm.key('own')], () => {
          throw new RateLimited({ retryAfter: '5s', limit: crm, key: key as string })
        })
        .catch((error: unknown) => error)
    for (const key of ['k'.repeat(1025), 'a\0b', '\ud800', -0, 4.5]) {
      await limiter.forget(crm.key('own'))
      expect(await refuse(key)).toBeInstanceOf(RateLimited)
      expect((await limiter.inspect(crm.key(key))).closedUntil).not.toBeNull()
    }
    expect((await limiter.inspect(crm.key('own'))).closedUntil).toBeNull()
    await limiter.forget(crm.key('own'))
    await refuse({})
    expect((await limiter.inspect(crm.key('own'))).closedUntil).not.toBeNull()
  })

  it('gets to the caller although the backend cannot be reached', async () => {
    const clock = createManualClock()
    const { seen, backend } = watched(clock)
    const { limiter } = harness({ backend, clock, failMode: 'open' })
    const permit = await limiter.acquire([outbound])
    seen.isDown = true
    const refusal = new RateLimited({ retryAfter: '5s' })
    const told = limiter.run([outbound], () => Promise.reject(refusal), { permit }).catch((error: unknown) => error)
    await clock.advance('1s')
    expect(await told).toBe(refusal)
    const sent = limiter.fetch({ uses: () => [outbound], fetch: async () => new Response('', { status: 429 }) })
    const answer = sent('http://localhost/')
    await clock.advance('1s')
    expect((await answer).status).toBe(429)
    seen.isDown = false
  })
})

describe('a backend that cannot be reached', () => {
  it.each([
    ['no answers', undefined],
    ['too few answers', []],
    ['answers of no kind', [{}]],
    ['a wait that is no number', [{ kind: 'denied', by: { limit: 'crm', key: '' }, retryAfterUs: Number.NaN }]],
  ])('gives %s: it counts as down, and calls wait without asking again at once', async (_, nonsense) => {
    const clock = createManualClock()
    const { seen, memory, backend } = watched(clock)
    let asked = 0
    let isWell = false
    const acquire: LimitBackend['acquire'] = async (requests) => {
      asked++
      return isWell ? memory.acquire(requests) : (nonsense as never)
    }
    const { limiter } = harness({ backend: { ...backend, acquire }, clock })
    const call = limiter.acquire([crm])
    await clock.advance('1s')
    expect(asked).toBeLessThan(20)
    isWell = true
    await clock.advance('1s')
    await (await call).release()
    expect(seen.isDown).toBe(false)
  })

  it.each(['is late is used: nothing is asked twice', 'finds no caller any more goes back'])(
    'an answer that %s',
    async (which) => {
      const isUsed = which.startsWith('is late')
      const { seen, memory, backend } = watched(createManualClock())
      const common = limit('common', { rate: 20, per: '365d', burst: 20 })
      const isDown = Promise.withResolvers<void>()
      const acquire: LimitBackend['acquire'] = async (requests) => {
        seen.acquires++
        const answers = await memory.acquire(requests)
        await (isUsed ? new Promise((resolve) => setTimeout(resolve, 300)) : isDown.promise)
        return answers
      }
      const limiter = createLimiter({ backend: { ...backend, acquire }, limits: [common, slots] })
      limiters.push(limiter)
      limiter.on('rate_limit.backend_down', () => isDown.resolve())
      const call = limiter.acquire([common, slots], { wait: false })
      if (isUsed) await call
      else await expect(call).rejects.toBeInstanceOf(RateLimitRejected)
      expect(seen.acquires).toBe(1)
      await expect.poll(() => limiter.inspect(common)).toMatchObject({ available: isUsed ? 19 : 20 })
      await expect.poll(() => limiter.inspect(slots)).toMatchObject({ active: isUsed ? 1 : 0 })
    },
  )

  it('closed: calls wait, and go on when it is back; both are told once', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter, ms } = harness({ backend, clock })
    const told: string[] = []
    limiter.on('rate_limit.backend_down', () => told.push(`down ${ms()}`))
    limiter.on('rate_limit.backend_up', ({ granted }) => told.push(`up ${granted}`))
    await limiter.acquire([outbound])
    seen.isDown = true
    const got: number[] = []
    for (let i = 0; i < 5; i++) void limiter.acquire([outbound]).then(() => got.push(ms()))
    await clock.advance('3s')
    await expect(limiter.acquire([crm], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
    await expect(limiter.inspect(crm)).rejects.toMatchObject({ code: 'limiter.backend_down', lasts: 'passes' })
    expect(got).toEqual([])
    seen.isDown = false
    const backMs = ms()
    await clock.advance('500ms')
    expect(got).toHaveLength(5)
    expect(Math.max(...got) - backMs).toBeLessThanOrEqual(500)
    expect(told).toEqual(['down 50', 'up 0'])
  })

  it('is down until it grants again, whatever else it answers', async () => {
    const clock = createManualClock()
    const { backend, memory } = watched(clock)
    let isFull = false
    const acquire: LimitBackend['acquire'] = async (requests) => {
      if (isFull) throw new Error('OOM')
      return memory.acquire(requests)
    }
    const { limiter } = harness({ backend: { ...backend, acquire }, clock })
    const told: string[] = []
    limiter.on('rate_limit.backend_down', () => told.push('down'))
    limiter.on('rate_limit.backend_up', () => told.push('up'))
    const held = await limiter.acquire([slots])
    isFull = true
    const waits = limiter.acquire([outbound])
    for (let n = 0; n < 5; n++) {
      await clock.advance('1s')
      expect(await limiter.inspect(slots)).toMatchObject({ active: 1 })
    }
    await held.release()
    expect(told).toEqual(['down'])
    isFull = false
    await clock.advance('1s')
    await waits
    expect(told).toEqual(['down', 'up'])
  })

  it('open: callers that do nothing else leave the process to others', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock, failMode: 'open' })
    seen.isDown = true
    const first = limiter.acquire([crm])
    await clock.advance('100ms')
    await first
    const others: string[] = []
    setImmediate(() => others.push('ran'))
    let calls = 0
    for (; others.length === 0 && calls < 10_000; calls++) await limiter.acquire([crm])
    expect(calls).toBeLessThan(10_000)
    seen.isDown = false
  })

  it('open: calls go on, and are counted', async () => {
    const clock = createManualClock()
    const { backend, seen } = watched(clock)
    const { limiter } = harness({ backend, clock, failMode: { crm: 'open' } })
    const blind: number[] = []
    limiter.on('rate_limit.backend_up', ({ granted }) => blind.push(granted))
    seen.isDown = true
    const started = Promise.all([1, 2, 3].map(() => limiter.acquire([crm])))
    await clock.advance('100ms')
    await started
    const both = limiter.acquire([crm, outbound], { wait: '10ms' }).catch((error: unknown) => error)
    await clock.advance('100ms')
    expect(await both).toBeInstanceOf(RateLimitRejected)
    seen.isDown = false
    await clock.advance('1s')
    await limiter.acquire([crm])
    expect(blind).toEqual([3])
    expect((await limiter.inspect(crm)).grantedBlindly).toBe(3)
  })
})

describe('reservations', () => {
  it('give the exact start, and go at it', async () => {
    const { clock, limiter } = harness()
    await limiter.acquire([crm])
    const { id, startAfterMs } = await limiter.reserve([crm], { atMost: '1s' })
    expect(startAfterMs).toBe(100)
    expect(await limiter.confirm(id)).toEqual({ kind: 'wait', startAfterMs: 100 })
    await clock.advance('100ms')
    expect(await limiter.confirm(id)).toMatchObject({ kind: 'go' })
    expect(await limiter.confirm(id)).toEqual({ kind: 'gone' })
    await expect(limiter.reserve([crm], { atMost: '99ms' })).rejects.toBeInstanceOf(RateLimitRejected)
  })
})

describe('many keys', () => {
  it('leave only those buckets that still count', async () => {
    const clock = createManualClock()
    const memory = new MemoryBackend(clock)
    const { limiter } = harness({ backend: memory, clock })
    for (let i = 0; i < 5000; i++) {
      await limiter.acquire([crm.key(i)])
      if (i % 100 === 0) await clock.advance('100ms')
    }
    expect(memory.size).toBeLessThan(500)
    expect(await limiter.inspect(crm.key(0))).toMatchObject({ available: 1, active: 0 })
  })

  it('keep their state while others are in use', async () => {
    const slow = limit('slow', { rate: 2, per: '1h' })
    const clock = createManualClock()
    const memory = new MemoryBackend(clock)
    const { limiter } = harness({ backend: memory, clock, limits: [slow] })
    for (let i = 0; i < 40_000; i++) await limiter.acquire([slow.key(i)])
    expect(memory.size).toBe(40_000)
    await clock.advance('10m')
    for (const i of [0, 1, 20_000]) {
      await limiter.acquire([slow.key(i)], { wait: false })
      const error = await limiter.acquire([slow.key(i)], { wait: false }).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ expectedStart: new Date(clock.now() + 20 * 60_000) })
    }
    await limiter.override(slow, { rate: 4 })
    expect(await limiter.inspect(slow.key(5))).toMatchObject({ available: 1 })
  })
})

describe('createLimiter', () => {
  it.each([
    [{ backend: 'redi://x' }, 'limiter.url.invalid'],
    [{ backend: 'redis://h/abc' }, 'limiter.url.invalid'],
    [{ backend: 'redis://h?db=3' }, 'limiter.url.invalid'],
    [{ backend: 'redis+cluster://h/1' }, 'limiter.url.invalid'],
    [{ backend: 'redis://:100%@h' }, 'limiter.url.invalid'],
    [{ backend: 'nats://h/stream' }, 'limiter.url.invalid'],
    [{ backend: {} }, 'option.invalid'],
    [{ limits: crm }, 'option.invalid'],
    [{ maxWaiting: 0 }, 'option.invalid'],
    [{ lease: '1ms' }, 'option.invalid'],
    [{ failMode: 'ajar' }, 'option.invalid'],
    [{ failMode: { crn: 'open' } }, 'limit.unknown'],
    [{ namespace: '' }, 'option.invalid'],
    [{ prefix: 'x' }, 'option.invalid'],
  ])('refuses %j', (options, code) => {
    const all = { backend: 'memory:', limits: [crm], ...options } as unknown as LimiterOptions
    expect(() => createLimiter(all)).toThrow(expect.objectContaining({ code }))
  })
})
