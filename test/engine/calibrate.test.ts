import { describe, expect, test } from 'vitest'
import { input, limit, type Policy, RateLimited, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

type Headers = Readonly<Record<string, string>>

/** A task that observes an answer with the headers that each call names, and the seconds of its starts. */
async function answered(
  policy: Policy,
  more: { status?: number; takesMs?: number; thrown?: boolean; concurrency?: number } = {},
) {
  const harness = createEngineHarness()
  const { clock, at, start } = harness
  const starts: number[] = []
  const api = limit('api', policy)
  const work = task('work.item', input<{ headers?: Headers }>(), {
    limits: [api],
    run: async ({ headers }, ctx) => {
      starts.push(at())
      if (more.takesMs !== undefined) await clock.sleep(more.takesMs)
      if (!headers) return
      const response = new Response('', { status: more.status ?? 200, headers })
      if (more.thrown && ctx.attempt === 1 && starts.length === 1) throw RateLimited.from(response)
      if (!more.thrown) ctx.observe(response)
    },
  })
  const engine = await start({ tasks: [work], queues: { default: { concurrency: more.concurrency ?? 10 } } })
  const adjusted = record(engine, 'rate_limit.dynamic_adjusted')
  return { ...harness, engine, work, starts, adjusted }
}

const left = (remaining: number | string, reset: number | string): Headers => ({
  'x-ratelimit-remaining': String(remaining),
  'x-ratelimit-reset': String(reset),
})
const MINUTELY: Policy = { rate: 60, per: '1m', calibrate: 'headers' }

describe("the headers of the other side's answers", () => {
  test('hold starts to what it has left until its reset, and are told once', async () => {
    const { clock, work, starts, adjusted, engine } = await answered(MINUTELY)
    const openedMs = clock.now()
    await work.enqueue({ headers: left(3, 20) })
    await clock.advance(0)
    expect(await engine.limits.inspect('api')).toMatchObject([{ available: 3 }])
    await work.enqueueMany(Array.from({ length: 6 }, (_, i) => ({ headers: left(2 - Math.min(2, i), 20) })))
    await clock.advance('1m')
    expect(starts).toEqual([0, 0, 0, 0, 20, 20, 20])
    expect(adjusted.map(({ event }) => event)).toEqual([
      { limit: 'api', key: '', remaining: 3, until: new Date(openedMs + 20_000) },
      { limit: 'api', key: '', remaining: 0, until: new Date(openedMs + 40_000) },
    ])
  })

  test('mean nothing to a limit that does not say so', async () => {
    const { clock, work, starts, adjusted } = await answered({ rate: 60, per: '1m' })
    await work.enqueueMany(Array.from({ length: 5 }, () => ({ headers: left(0, 20) })))
    await clock.advance('1m')
    expect(starts).toEqual([0, 0, 0, 0, 0])
    expect(adjusted).toEqual([])
  })

  test('never allow more than the limit does', async () => {
    const { clock, work, starts } = await answered({
      rate: 2,
      per: '10s',
      calibrate: { from: 'headers', direction: 'both' },
    })
    await work.enqueueMany(Array.from({ length: 3 }, () => ({ headers: left(0, 0) })))
    await clock.advance('4s')
    expect(starts).toEqual([0, 0])
    await clock.advance('10s')
    await work.enqueueMany(Array.from({ length: 5 }, () => ({ headers: left(1000, 1) })))
    await clock.advance(0)
    // The answers refill two units each time, and never more.
    expect(starts.slice(3).every((seconds) => seconds === 14)).toBe(true)
    expect(starts).toHaveLength(8)
  })

  test('with both directions refill what the other side has again', async () => {
    const { clock, work, starts, engine } = await answered({
      window: 'sliding',
      max: 4,
      per: '1h',
      calibrate: { from: 'headers', direction: 'both' },
    })
    await work.enqueueMany([{}, {}, {}, { headers: left(3, 1800) }])
    await clock.advance(0)
    expect(starts).toHaveLength(4)
    expect(await engine.limits.inspect('api')).toMatchObject([{ available: 3 }])
  })

  test('do not count runs that began later: the other side cannot have seen them', async () => {
    const { clock, work, engine } = await answered(MINUTELY, { takesMs: 1000 })
    await work.enqueue({ headers: left(5, 60) })
    await clock.advance('500ms')
    await work.enqueueMany([{}, {}])
    await clock.advance('600ms')
    expect(await engine.limits.inspect('api')).toMatchObject([{ available: 3 }])
  })

  test('that speak of a bucket that refills set its level, and hold nothing', async () => {
    const { clock, work, starts } = await answered({
      rate: 10,
      per: '10s',
      calibrate: { from: 'headers', reset: 'refill' },
    })
    await work.enqueue({ headers: left(2, 8) })
    await clock.advance(0)
    await work.enqueueMany([{}, {}, {}, {}])
    await clock.advance('1m')
    expect(starts).toEqual([0, 0, 0, 1, 2])
  })

  test('that name several budgets are read by the name of one', async () => {
    const { clock, work, engine } = await answered({ ...MINUTELY, calibrate: { from: 'headers', budget: 'tokens' } })
    await work.enqueue({
      headers: {
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': '60s',
        'x-ratelimit-remaining-tokens': '7',
        'x-ratelimit-reset-tokens': '6m0s',
      },
    })
    await clock.advance(0)
    expect(await engine.limits.inspect('api')).toMatchObject([{ available: 7 }])
  })

  test.each([
    ['stale', left(0, 0), 0],
    ['long past', left(0, 1_000_000_000), 0],
    ['absurdly late: an hour at most', left(0, '9'.repeat(15)), 3600],
    ['without a reset: one period', { 'x-ratelimit-remaining': '0' }, 60],
    ['without what is left', { 'x-ratelimit-reset': '50' }, 0],
    ['not numbers', left('-3', 'NaN'), 0],
    ['not numbers either', left('1e9', '__proto__'), 0],
    ['a flood of digits', left('9'.repeat(10_000), '9'.repeat(10_000)), 0],
  ])('are taken with care: %s', async (_, headers, heldS) => {
    const { clock, work, starts, errors } = await answered(MINUTELY)
    await work.enqueue({ headers })
    await clock.advance('1ms')
    await work.enqueue({})
    await clock.advance('2h')
    expect(starts[1]).toBe(Math.max(heldS, 0.001))
    expect(errors).toEqual([])
  })

  test('of a refusal that was thrown count too; nothing left there is what the refusal says already', async () => {
    const some = await answered(MINUTELY, { status: 429, thrown: true })
    await some.work.enqueue({ headers: { ...left(2, 30), 'retry-after': '5' } })
    await some.clock.advance('1ms')
    await some.work.enqueueMany(Array.from({ length: 4 }, () => ({})))
    await some.clock.advance('1m')
    expect(some.starts).toEqual([0, 5, 6, 30, 30, 30])
    const none = await answered(MINUTELY, { status: 429, thrown: true })
    await none.work.enqueue({ headers: { ...left(0, 30), 'retry-after': '5' } })
    await none.clock.advance('1m')
    expect(none.starts).toEqual([0, 5])
  })

  test('count the true cost of a call already, which the correction beside it does not take again', async () => {
    const { clock, start } = createEngineHarness()
    const tokens = limit('tokens', { rate: 100, per: '1m', calibrate: 'headers' })
    const work = task('work.item', input<{ more: number; left: number }>(), {
      limits: [tokens.weight(10)],
      run: (call, ctx) => {
        ctx.charge(tokens, call.more)
        ctx.observe(new Response('', { headers: left(call.left, 60) }))
      },
    })
    const engine = await start({ tasks: [work] })
    await work.enqueue({ more: 5, left: 40 })
    await clock.advance(0)
    expect(await engine.limits.inspect(tokens)).toMatchObject([{ available: 40 }])
    await work.enqueue({ more: -8, left: 38 })
    await clock.advance(0)
    expect(await engine.limits.inspect(tokens)).toMatchObject([{ available: 38 }])
  })

  test('of each key correct that key alone', async () => {
    const { clock, start, at } = createEngineHarness()
    const starts: string[] = []
    const work = task('work.item', input<{ key: string; headers?: Headers }>(), {
      limits: [limit('api', MINUTELY).by((item) => item.key)],
      run: ({ key, headers }, ctx) => {
        starts.push(`${key}@${at()}`)
        if (headers) ctx.observe(new Response('', { headers }))
      },
    })
    await start({ tasks: [work] })
    await work.enqueue({ key: 'A', headers: left(0, 9) })
    await clock.advance(0)
    await work.enqueueMany([{ key: 'A' }, { key: 'B' }])
    await clock.advance('1m')
    expect(starts).toEqual(['A@0', 'B@0', 'A@9'])
  })
})

describe('what a call cost', () => {
  async function charged(policy: Policy, units: readonly number[], weight = 4) {
    const harness = createEngineHarness()
    const tokens = limit('tokens', policy)
    const work = task('work.item', {
      limits: [tokens.weight(weight)],
      run: (_, ctx) => units.forEach((each) => ctx.charge('tokens', each)),
    })
    const engine = await harness.start({ tasks: [work] })
    await work.enqueue()
    await harness.clock.advance(0)
    return { ...harness, engine, left: (await engine.limits.inspect('tokens'))[0] }
  }

  test.each<[string, Policy]>([
    ['rate', { rate: 10, per: '1h' }],
    ['sliding window', { window: 'sliding', max: 10, per: '1h' }],
    ['fixed window', { window: 'fixed', max: 10, per: '1h' }],
  ])('goes out, into debt if need be, or comes back, under a %s', async (_, policy) => {
    expect((await charged(policy, [3])).left).toMatchObject({ available: 3, debt: 0 })
    expect((await charged(policy, [20])).left).toMatchObject({ available: 0, debt: 14 })
    expect((await charged(policy, [-3])).left).toMatchObject({ available: 9, debt: 0 })
  })

  test('never gives back more than was taken, in however many parts', async () => {
    expect((await charged({ rate: 10, per: '1h' }, [-100])).left).toMatchObject({ available: 10 })
    const rest = await charged({ rate: 10, per: '1h' }, [-3, -3, -3])
    expect(rest.left).toMatchObject({ available: 10 })
    // Had more come back than was taken, the bucket would be fuller than full, and this would not show.
    const used = await charged({ rate: 100, per: '1h' }, [5, -100])
    expect(used.left).toMatchObject({ available: 100 })
  })

  test.each<[string, Policy, number]>([
    ['spacing', { every: '1h' }, 3],
    ['permits alone', { concurrency: 3 }, 3],
    ['a fraction', { rate: 10, per: '1h' }, 1.5],
    ['no number', { rate: 10, per: '1h' }, Number.NaN],
  ])('is ignored with a warning for what has no units: %s', async (_, policy, units) => {
    const { warnings, errors } = await charged(policy, [units], 1)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('charge ignored')
    expect(errors).toEqual([])
  })

  test('is ignored with a warning for a limit that the job does not use, and once the run is over', async () => {
    const { clock, start, warnings } = createEngineHarness()
    const tokens = limit('tokens', { rate: 10, per: '1h' })
    let late: (() => void) | undefined
    const work = task('work.item', {
      limits: [tokens],
      run: (_, ctx) => {
        ctx.charge('others', 1)
        late = (): void => ctx.charge(tokens, 5)
      },
    })
    const engine = await start({ tasks: [work] })
    await work.enqueue()
    await clock.advance('1s')
    late?.()
    await clock.advance(0)
    expect(warnings).toEqual(['charge ignored: the job does not use that limit', 'charge ignored: the run is over'])
    expect(await engine.limits.inspect(tokens)).toMatchObject([{ available: 9 }])
  })
})
