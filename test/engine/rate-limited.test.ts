import { describe, expect, test } from 'vitest'
import { input, limit, RateLimited, type SluiceOptions, task, type TaskOptions } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

interface Item {
  readonly key: string
}

const crm = limit('crm', { rate: 10, per: '10s' })

/** A task whose first run is refused by the other side, and the seconds of its starts. */
async function refused(
  refusal: (nowMs: number) => RateLimited,
  more: { task?: Partial<TaskOptions<Item, unknown>>; engine?: Partial<SluiceOptions>; times?: number } = {},
) {
  const harness = createEngineHarness()
  const { clock, at, start } = harness
  const starts: string[] = []
  let refusals = 0
  const work = task('work.item', input<Item>(), {
    limits: [crm.by((item) => item.key)],
    retry: { attempts: 1 },
    run: ({ key }, ctx) => {
      starts.push(`${key}${ctx.attempt}@${at()}`)
      if (key === 'A' && refusals++ < (more.times ?? 1)) throw refusal(clock.now())
      return 'done'
    },
    ...more.task,
  })
  const engine = await start({ tasks: [work], ...more.engine })
  return { ...harness, engine, work, starts }
}

describe('a refusal by the other side', () => {
  test('closes the bucket until then, charges no attempt, and touches no other key', async () => {
    const { clock, engine, work, starts } = await refused(() => new RateLimited({ retryAfter: '30s' }))
    const adjusted = record(engine, 'rate_limit.dynamic_adjusted')
    const job = await work.enqueue({ key: 'A' })
    await clock.advance('1s')
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'available', attempt: 0 })
    expect(await engine.jobs.explain(job.id)).toMatchObject({ waitsOn: { limit: 'crm', key: 'A' } })
    expect(adjusted.map(({ event }) => [event.key, event.until.getTime() - clock.now()])).toEqual([['A', 29_000]])
    await work.enqueue({ key: 'B' })
    await work.enqueue({ key: 'A' })
    await work.enqueue({ key: 'A' })
    await clock.advance('1m')
    // Exactly one token at the end of the penalty, then the rate: no burst of the backlog.
    expect(starts).toEqual(['A1@0', 'B1@1', 'A1@30', 'A1@31', 'A1@32'])
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
  })

  test('is read from a response: Retry-After in seconds', async () => {
    const response = new Response('', { status: 429, headers: { 'retry-after': '12' } })
    const { clock, work, starts } = await refused(() => RateLimited.from(response))
    await work.enqueue({ key: 'A' })
    await clock.advance('1m')
    expect(starts).toEqual(['A1@0', 'A1@12'])
  })

  test('is read from a response: Retry-After as an HTTP date', async () => {
    const { clock, work, starts } = await refused((nowMs) =>
      RateLimited.from(
        new Response('', { status: 429, headers: { 'retry-after': new Date(nowMs + 25_000).toUTCString() } }),
      ),
    )
    await work.enqueue({ key: 'A' })
    await clock.advance('1m')
    expect(starts).toEqual(['A1@0', 'A1@25'])
  })

  test('that names no time closes for one period', async () => {
    const { clock, work, starts } = await refused(() => RateLimited.from(new Response('', { status: 429 })))
    await work.enqueue({ key: 'A' })
    await clock.advance('1m')
    expect(starts).toEqual(['A1@0', 'A1@10'])
  })

  test('until a time that is past closes for one interval', async () => {
    const { clock, work, starts } = await refused((nowMs) => new RateLimited({ retryAfter: new Date(nowMs - 60_000) }))
    await work.enqueue({ key: 'A' })
    await clock.advance('1m')
    expect(starts).toEqual(['A1@0', 'A1@1'])
  })

  test('closes for an hour at most, or for the longest penalty that was set', async () => {
    const long = () => new RateLimited({ retryAfter: '30d' })
    const first = await refused(long)
    await first.work.enqueue({ key: 'A' })
    await first.clock.advance('2h')
    expect(first.starts).toEqual(['A1@0', 'A1@3600'])
    const second = await refused(long, { engine: { maxPenalty: '1m' } })
    await second.work.enqueue({ key: 'A' })
    await second.clock.advance('2h')
    expect(second.starts).toEqual(['A1@0', 'A1@60'])
  })

  test('closes the limit that it names, and the key that it names', async () => {
    const llm = limit('llm', { rate: 100, per: '1s' })
    const { clock, engine, work, starts } = await refused(
      () => new RateLimited({ retryAfter: '20s', limit: llm, key: 'shared' }),
      { task: { limits: [crm.by((item) => item.key), llm.key('shared')] } },
    )
    await work.enqueue({ key: 'A' })
    await clock.advance('1s')
    expect((await engine.limits.inspect('llm', 'shared'))[0]).toMatchObject({ available: 0 })
    await work.enqueue({ key: 'B' })
    await clock.advance('1m')
    expect(starts[0]).toBe('A1@0')
    expect(starts.slice(1).sort()).toEqual(['A1@20', 'B1@20.01'])
  })

  test('of a job without any limit puts that job off, and charges no attempt', async () => {
    const { clock, engine, work, starts } = await refused(() => new RateLimited({ retryAfter: '15s' }), {
      task: { limits: [] },
    })
    const job = await work.enqueue({ key: 'A' })
    await clock.advance('1s')
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'retryable', attempt: 0 })
    await clock.advance('1m')
    expect(starts).toEqual(['A1@0', 'A1@15'])
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
  })

  describe('that names what the job does not hold is not called again before its time, and is warned of once:', () => {
    const other = limit('other', { rate: 100, per: '1s' })
    test.each([
      ['an unknown limit', { limit: 'crn' }, undefined],
      ['another limit', { limit: other }, 'other'],
      ['another limit of the same name', { limit: 'other', key: 'x' }, 'other'],
    ])('%s', async (_, named, closed) => {
      const { clock, engine, work, starts, warnings } = await refused(
        () => new RateLimited({ retryAfter: '20s', ...named }),
        { engine: { limits: [other] }, times: 3 },
      )
      const job = await work.enqueue({ key: 'A' })
      await clock.advance('1s')
      expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'retryable', attempt: 0 })
      if (closed) expect((await engine.limits.inspect(closed))[0]).toMatchObject({ available: 0 })
      await clock.advance('2m')
      expect(starts).toEqual(['A1@0', 'A1@20', 'A1@40', 'A1@60'])
      expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
      expect(warnings.filter((message) => message.includes('limit.unknown'))).toHaveLength(1)
    })
  })

  test('that names another key than the job’s own closes that one, and the job waits as long', async () => {
    const { clock, work, starts } = await refused(() => new RateLimited({ retryAfter: '20s', limit: 'crm', key: 'B' }))
    await work.enqueue({ key: 'A' })
    await clock.advance('1s')
    await work.enqueue({ key: 'B' })
    await clock.advance('1m')
    expect(starts.toSorted()).toEqual(['A1@0', 'A1@20', 'B1@20'])
  })

  test('that has become an ordinary failure is not repeated before its time either', async () => {
    const { clock, engine, work, starts } = await refused(() => new RateLimited({ retryAfter: '20s', limit: 'crn' }), {
      times: Infinity,
      task: { retry: { attempts: 2, initial: '1ms' } },
    })
    const job = await work.enqueue({ key: 'A' })
    await clock.advance('2h')
    const seconds = starts.map((start) => Number(start.split('@')[1]))
    expect(seconds.length).toBeGreaterThan(100)
    for (const [i, at] of seconds.entries()) expect(at).toBeCloseTo(i * 20, 6)
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', attempt: 2 })
  })

  test('is an ordinary failure once it has come a hundred times in a row', async () => {
    const { clock, engine, work, starts } = await refused(() => new RateLimited({ retryAfter: '1s' }), {
      times: Infinity,
    })
    const job = await work.enqueue({ key: 'A' })
    await clock.advance('10m')
    expect(starts.length).toBe(100)
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', attempt: 1 })
  })
})

describe('a handler tells its limits', () => {
  test('what a call really cost: more is owed, less comes back', async () => {
    const { clock, at, start } = createEngineHarness()
    const tokens = limit('tokens', { rate: 10, per: '10s' })
    const starts: number[] = []
    const work = task('work.item', input<{ more: number }>(), {
      limits: [tokens.weight(4)],
      run: ({ more }, ctx) => {
        starts.push(at())
        ctx.charge(tokens, more)
      },
    })
    const engine = await start({ tasks: [work] })
    await work.enqueue({ more: 20 })
    await clock.advance(0)
    expect(await engine.limits.inspect('tokens')).toMatchObject([{ available: 0, debt: 14 }])
    await work.enqueue({ more: -3 })
    await clock.advance('1m')
    // 14 are owed and 4 are needed: 18 s at one a second.
    expect(starts).toEqual([0, 18])
    expect(await engine.limits.inspect('tokens')).toMatchObject([{ available: 10, debt: 0 }])
  })

  test('of a refusal that it got over itself', async () => {
    const { clock, at, start } = createEngineHarness()
    const starts: number[] = []
    const work = task('work.item', {
      limits: [crm],
      run: (_, ctx) => {
        starts.push(at())
        if (starts.length === 1) ctx.observe(new Response('', { status: 429, headers: { 'retry-after': '20' } }))
      },
    })
    const engine = await start({ tasks: [work] })
    const first = await work.enqueue()
    await clock.advance('1s')
    expect(await engine.jobs.get(first.id)).toMatchObject({ state: 'completed', attempt: 1 })
    await work.enqueue()
    await clock.advance('1m')
    expect(starts).toEqual([0, 20])
  })
})
