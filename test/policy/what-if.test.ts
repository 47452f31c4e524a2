import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { charge, deniedUntil } from '../../src/policy/limits/bucket.ts'
import { drain } from '../../src/policy/forecast/drain.ts'
import { forecast } from '../../src/policy/forecast/what-if.ts'
import { EPOCH_US, play, policyOf, rules, steps } from './histories.ts'

describe('the drain of several backlogs side by side', () => {
  const pile = fc.record({
    rule: rules,
    history: steps(12),
    count: fc.integer({ min: 0, max: 40 }),
    weight: fc.integer({ min: 1, max: 4 }),
    times: fc.integer({ min: 1, max: 3 }),
  })

  test('is what happens: the last start, and the quantiles of all', () => {
    fc.assert(
      fc.property(fc.array(pile, { minLength: 1, maxLength: 4 }), (drafts) => {
        const nowUs = EPOCH_US + 1e12
        const starts: number[] = []
        const piles = drafts.map(({ rule, history, count, weight, times }) => {
          const policy = policyOf(rule)
          const { state } = play(policy, history)
          for (let t = 0; t < times; t++) {
            const copy = structuredClone(state)
            let atUs = nowUs
            for (let i = 0; i < count; i++) {
              atUs = deniedUntil(policy, copy, 0, atUs, weight) ?? atUs
              charge(policy, copy, atUs, weight)
              starts.push(atUs - nowUs)
            }
          }
          return { policy, state, active: 0, backlog: { count, weight }, even: true, jobs: count, times }
        })
        starts.sort((a, b) => a - b)
        const at = (percent: number): number => starts[Math.ceil((starts.length * percent) / 100) - 1] ?? 0
        expect(drain(piles, nowUs, null)).toEqual({ drainUs: starts.at(-1) ?? 0, p50Us: at(50), p99Us: at(99) })
      }),
      { numRuns: 500 },
    )
  })
})

describe('a forecast', () => {
  test('says when a backlog is done with, how long half of it waits, and what twice the rate would change', () => {
    expect(forecast({ rate: 10, per: '1s' }, { backlog: 1010 })).toEqual({
      jobs: 1010,
      keys: 1,
      drainMs: 100_000,
      p50Ms: 49_500,
      p99Ms: 99_000,
      doubled: { drainMs: 49_500, p50Ms: 24_250, p99Ms: 49_000 },
      exact: true,
      caveats: [],
    })
  })

  test('twice the rate is twice the max of a window and half an interval', () => {
    const drained = (policy: Parameters<typeof forecast>[0]): (number | null)[] => {
      const { drainMs, doubled } = forecast(policy, { backlog: 101 })
      return [drainMs, doubled.drainMs]
    }
    expect(drained({ window: 'sliding', max: 10, per: '1s', guard: 0 })).toEqual([10_000, 5000])
    expect(drained({ window: 'fixed', max: 10, per: '1s' })).toEqual([10_000, 5000])
    expect(drained({ every: '100ms' })).toEqual([10_000, 5000])
    expect(drained({ rate: 10, per: '1s', burst: 1 })).toEqual([10_000, 5000])
  })

  test('keys drain side by side, spread evenly or as they are', () => {
    const policy = { rate: 1, per: '1s' } as const
    expect(forecast(policy, { backlog: { count: 100, keys: 40 } })).toMatchObject({
      keys: 40,
      jobs: 100,
      drainMs: 2000,
    })
    expect(forecast(policy, { backlog: { keys: { acme: 61, birch: 1, cedar: 2 } } })).toMatchObject({
      keys: 3,
      jobs: 64,
      drainMs: 60_000,
      exact: true,
    })
    expect(forecast(policy, { backlog: { count: 10, weight: 1, keys: 20 } })).toMatchObject({ keys: 20, drainMs: 0 })
  })

  test('of two limits the later decides, and that is marked as a lower bound', () => {
    const tenant = { rate: 1, per: '1s' } as const
    const found = forecast(tenant, { backlog: { count: 1000, keys: 100 }, shared: { rate: 10, per: '1s' } })
    expect(found).toMatchObject({ drainMs: 99_000, exact: false, doubled: { drainMs: 99_000 } })
    expect(found.caveats.join()).toContain('two limits')
    const wide = forecast(tenant, { backlog: { count: 1000, keys: 100 }, shared: { rate: 1000, per: '1s' } })
    expect(wide).toMatchObject({ drainMs: 9000, exact: false, doubled: { drainMs: 4000 } })
  })

  test('permits are reckoned with when it is known how long a job runs', () => {
    expect(forecast({ concurrency: 4 }, { backlog: 41 })).toMatchObject({ drainMs: null, p50Ms: null, exact: false })
    expect(forecast({ concurrency: 4 }, { backlog: 41, runTime: '2s' })).toMatchObject({
      drainMs: 20_000,
      p50Ms: 10_000,
      doubled: { drainMs: 10_000 },
      exact: true,
    })
    expect(forecast({ rate: 10, per: '1s', concurrency: 4 }, { backlog: 41, runTime: '2s' })).toMatchObject({
      drainMs: 20_000,
      exact: false,
    })
    expect(forecast({ concurrency: 0 }, { backlog: 1, runTime: '1s' }).drainMs).toBeNull()
  })

  test('fixed windows begin where the calendar says', () => {
    const policy = { window: 'fixed', max: 1, per: '1d', timezone: 'Europe/Rome' } as const
    const at = new Date('2026-03-28T12:00:00Z')
    // The night to 29 March is an hour short there.
    expect(forecast(policy, { backlog: 3, at }).drainMs).toBe((11 + 23) * 3_600_000)
  })

  test('refuses what cannot be', () => {
    const policy = { rate: 5, per: '1s' } as const
    const code = (options: Parameters<typeof forecast>[1]): unknown => {
      try {
        return forecast(policy, options)
      } catch (error) {
        return (error as { code: string }).code
      }
    }
    expect(code({ backlog: 1.5 })).toBe('option.invalid')
    expect(code({ backlog: -1 })).toBe('option.invalid')
    expect(code({ backlog: { count: 5, keys: 0 } })).toBe('option.invalid')
    expect(code({ backlog: { keys: { a: Number.NaN } } })).toBe('option.invalid')
    expect(code({ backlog: { count: 5, weight: 0 } })).toBe('limit.weight.invalid')
    expect(code({ backlog: { count: 5, weight: 6 } })).toBe('limit.weight.above_burst')
    expect(code({ backlog: 5, at: new Date(Number.NaN) })).toBe('option.invalid')
  })
})
