import { describe, expect, it, test } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { call, input, limit, type Policy, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, type EngineHarness, record } from './engine-harness.ts'

const STRICT: Policy = { rate: 100, per: '1s', burst: 1 }
const FULL = { default: { concurrency: 100 } }

describe.each(await everyStore('starts granted ahead'))('starts granted ahead, on $name', ({ create }) => {
  /** An engine whose starts of one limit are recorded, in ms since its start. */
  async function begin(
    options: Partial<SluiceOptions> & {
      readonly policy?: Policy
      readonly store?: string
      /** When the event loop fires no timer, in ms. */
      readonly stalls?: readonly (readonly [number, number])[]
    } = {},
  ): Promise<
    EngineHarness & { engine: Sluice; starts: number[]; run: (count: number) => Promise<string[]>; store: string }
  > {
    const harness = createEngineHarness()
    const { policy = STRICT, store = create(), stalls = [], ...given } = options
    const starts: number[] = []
    const beganUs = harness.clock.monotonicUs()
    const work = task('work.item', {
      limits: [limit('r', policy)],
      run: () => void starts.push((harness.clock.monotonicUs() - beganUs) / 1000),
    })
    const clock = stalls.length === 0 ? {} : { clock: stalling(harness.clock, stalls) }
    const engine = await harness.start({ tasks: [work], store, ahead: '20ms', queues: FULL, ...clock, ...given })
    const run = async (count: number): Promise<string[]> => {
      const jobs = await work.enqueueMany(Array.from({ length: count }, () => undefined))
      await harness.clock.advance(0)
      return jobs.map(({ id }) => id)
    }
    return { ...harness, engine, starts, run, store }
  }

  const every10 = (from: number, to: number): number[] =>
    Array.from({ length: (to - from) / 10 + 1 }, (_, i) => from + 10 * i)

  it('begin at their exact instants, and never before', async () => {
    const { clock, run, starts } = await begin()
    await run(20)
    expect(starts).toEqual([0])
    await clock.advance('9ms')
    expect(starts).toEqual([0])
    await clock.advance('181ms')
    expect(starts).toEqual(every10(0, 190))
  })

  it('are the same starts as without', async () => {
    const { clock, run, starts } = await begin({ ahead: 0 })
    await run(20)
    await clock.advance('190ms')
    expect(starts).toEqual(every10(0, 190))
  })

  it.each(['20ms', '50ms', '1s'] as const)('are the same in a queue of several stripes, %s ahead', async (ahead) => {
    const { clock, start } = createEngineHarness()
    const starts = new Map<string, number[]>()
    const beganUs = clock.monotonicUs()
    const work = task('work.key', input<string>(), {
      limits: [limit('r', STRICT).by((key: string) => key)],
      run: (key) => void starts.set(key, [...(starts.get(key) ?? []), (clock.monotonicUs() - beganUs) / 1000]),
    })
    const queues = { default: { concurrency: 40, stripes: 4 } }
    await start({ tasks: [work], store: create(), ahead, queues })
    await work.enqueueMany(Array.from({ length: 100 }, (_, i) => `k${i % 5}`))
    await clock.advance('190ms')
    expect(new Set([...starts.values()].map(String))).toEqual(new Set([String(every10(0, 190))]))
    expect(starts.size).toBe(5)
  })

  it('are shown as active, with the time of their start, and told when they begin', async () => {
    const { clock, engine, run } = await begin()
    const events = record(engine, 'job.started')
    const ids = await run(3)
    const explained = await engine.jobs.explain(ids[2]!)
    expect(explained.job.state).toBe('active')
    expect(explained.words).toContain('starts at 2026-01-01T00:00:00.020Z')
    expect(events).toHaveLength(1)
    await clock.advance('10ms')
    expect(events).toHaveLength(2)
    expect(events[1]!.event).toMatchObject({ id: ids[1], waitedMs: 10 })
  })

  it('take at most half of the slots, and none of a single one', async () => {
    const policy: Policy = { every: '1ms' }
    for (const [concurrency, held] of [
      [1, 0],
      [2, 1],
      [10, 5],
    ] as const) {
      const { clock, engine, run, starts, stop } = await begin({ policy, queues: { default: { concurrency } } })
      await run(30)
      expect(await engine.jobs.list({ states: ['active'] }).then((page) => count(page))).toBe(held)
      await clock.advance('29ms')
      expect(starts).toEqual(Array.from({ length: 30 }, (_, i) => i))
      await stop(engine)
    }
  })

  it.each<[string, (engine: Sluice) => Promise<unknown>]>([
    ['a pause', (engine) => engine.limits.pause('r')],
    ['a penalty', (engine) => engine.limits.penalize('r', undefined, '1h')],
    ['an override without permits', (engine) => engine.limits.override('r', undefined, { rate: 1, per: '1h' })],
  ])('go back at %s, and nothing begins after it', async (_, change) => {
    const { clock, engine, run, starts } = await begin()
    const ids = await run(5)
    await clock.advance('5ms')
    await change(engine)
    expect(await Promise.all(ids.map(async (id) => (await engine.jobs.get(id))?.state))).toEqual([
      'completed',
      ...Array.from({ length: 4 }, () => 'available'),
    ])
    await clock.advance('1s')
    expect(starts).toEqual([0])
  })

  it('keep their pace when 20 of them meet a slower rate, and then a faster one', async () => {
    const { clock, engine, run, starts } = await begin({ policy: { rate: 1000, per: '1s', burst: 1 } })
    await run(200)
    await clock.advance('5ms')
    expect(starts).toEqual([0, 1, 2, 3, 4, 5])
    await engine.limits.override('r', undefined, { rate: 10 })
    await clock.advance('205ms')
    expect(starts.slice(6)).toEqual([105, 205])
    await engine.limits.override('r', undefined, { rate: 1000 })
    await clock.advance('20ms')
    expect(starts.slice(8, 11)).toEqual([210.95, 211.95, 212.95])
  })

  it('end when they are cancelled: their units are free for the next', async () => {
    const { clock, engine, run, starts } = await begin()
    const events = record(engine, 'job.cancelled')
    const [, second] = await run(3)
    await clock.advance('1ms')
    expect(await engine.jobs.cancel(second!)).toBe(true)
    expect(await engine.jobs.get(second!)).toMatchObject({ state: 'cancelled' })
    expect(events.map(({ event }) => event.id)).toEqual([second])
    await clock.advance('1s')
    expect(starts).toHaveLength(2)
  })

  it('of a flow that are cancelled end it, and events tell', async () => {
    const { clock, start } = createEngineHarness()
    let runs = 0
    const step = task('step', { limits: [limit('r', STRICT)], run: () => void runs++ })
    const engine = await start({ tasks: [step], store: create(), ahead: '20ms', queues: FULL })
    const events = record(engine, 'job.cancelled', 'flow.failed')
    await step.enqueue()
    const flow = await engine.flows.start({ kind: 'chain', steps: [call(step), call(step)] })
    await clock.advance('1ms')
    const [first, second] = flow.jobs.map(({ id }) => id)
    expect(await engine.jobs.get(first!)).toMatchObject({ state: 'active' })
    expect(await engine.jobs.cancel(first!)).toBe(true)
    await clock.advance('1s')
    expect(runs).toBe(1)
    expect(events.map(({ name, event }) => [name, event.id])).toEqual([
      ['job.cancelled', first],
      ['job.cancelled', second],
      ['flow.failed', flow.id],
    ])
    await expect(flow.jobs[1]!.result()).rejects.toMatchObject({ code: 'job.cancelled' })
  })

  it('that are cancelled while a change gives them back end once', async () => {
    const { clock, engine, run, starts } = await begin()
    const events = record(engine, 'job.cancelled')
    const ids = await run(3)
    await Promise.all([engine.limits.pause('r'), engine.jobs.cancel(ids[1]!)])
    await clock.advance('1ms')
    expect(events.map(({ event }) => event.id)).toEqual([ids[1]])
    await engine.limits.resume('r')
    await clock.advance('1s')
    expect([starts.length, (await engine.jobs.get(ids[1]!))?.state]).toEqual([2, 'cancelled'])
  })

  it('that the event loop begins too late go back with their units, and none come together', async () => {
    const { clock, engine, run, starts } = await begin({ stalls: [[15, 75]] })
    await run(30)
    await clock.advance('1s')
    const gaps = starts.slice(1).map((at, i) => at - starts[i]!)
    expect(starts).toHaveLength(30)
    expect(starts.filter((at) => at > 15 && at < 75)).toEqual([])
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(9)
    // The stall costs no more than its own time.
    expect(starts.at(-1)).toBeLessThanOrEqual(290 + 60)
    expect(await engine.limits.inspect('r')).toMatchObject([{ debt: 0, available: 1 }])
  })

  it('go back when the engine stops, with their units and their attempt', async () => {
    const { clock, engine, run, starts, store } = await begin()
    const ids = await run(3)
    await clock.advance('1ms')
    await engine.stop()
    expect(starts).toEqual([0])
    const next = await begin({ store })
    // The clock of another harness: only the state counts.
    expect(await next.engine.jobs.get(ids[1]!)).toMatchObject({ attempt: expect.any(Number) as number })
    await next.clock.advance('1m')
    expect(next.starts).toHaveLength(2)
  })

  it('go back at a change by another engine on the same store, within one horizon', async () => {
    const { clock, engine, run, starts, store, create: another } = await begin()
    const other = another({ tasks: [], store, ahead: '20ms', limits: [limit('r', STRICT)] })
    await run(50)
    await clock.advance('95ms')
    const before = starts.length
    await other.limits.pause('r')
    await clock.advance('1m')
    expect(starts.length - before).toBeLessThanOrEqual(2)
    await engine.limits.resume('r')
    await clock.advance('1s')
    expect(starts).toHaveLength(50)
  })

  it('of two engines keep to one budget', async () => {
    const { clock, run, start, starts, store } = await begin()
    const beganUs = clock.monotonicUs()
    const more = task('work.item', {
      limits: [limit('r', STRICT)],
      run: () => void starts.push((clock.monotonicUs() - beganUs) / 1000),
    })
    await start({ tasks: [more], store, ahead: '20ms', queues: FULL })
    await run(50)
    await clock.advance('490ms')
    expect(starts.toSorted((a, b) => a - b)).toEqual(every10(0, 490))
  })
})

/** A clock whose timers are late by stalls of the event loop. */
function stalling(clock: ManualClock, stalls: readonly (readonly [number, number])[]): Clock {
  const beganUs = clock.monotonicUs()
  return {
    now: () => clock.now(),
    monotonicUs: () => clock.monotonicUs(),
    bootId: clock.bootId,
    attach: (activity) => clock.attach!(activity),
    setTimer(run, delayMs) {
      const nowMs = (clock.monotonicUs() - beganUs) / 1000
      const stall = stalls.find(([fromMs, toMs]) => nowMs + delayMs >= fromMs && nowMs + delayMs < toMs)
      return clock.setTimer(run, stall ? stall[1] - nowMs : delayMs)
    },
  }
}

function count(page: unknown): number {
  return (page as readonly unknown[]).length
}

describe('the option ahead', () => {
  const options = { store: 'sqlite::memory:', tasks: [] }

  test.each([
    [{ ahead: '2s' }, 'option.invalid', 'Expected 0 to 1 s'],
    [{ ahead: -1 }, 'duration.invalid', 'ahead'],
    [{ ahead: 'soon' }, 'duration.invalid', 'ahead'],
    [{ aheadd: '1ms' }, 'option.invalid', 'did you mean'],
  ])('%j is refused', (given, code, words) => {
    const refused = (): Sluice => new Sluice({ ...options, ...(given as Partial<SluiceOptions>) })
    expect(refused).toThrow(expect.objectContaining({ code, message: expect.stringContaining(words) as string }))
  })

  test('0 to 1 s is taken', () => {
    for (const ahead of [0, '1ms', '50ms', '1s'] as const)
      expect(new Sluice({ ...options, ahead })).toBeInstanceOf(Sluice)
  })
})
