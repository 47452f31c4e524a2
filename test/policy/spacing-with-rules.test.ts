import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import {
  adopt,
  type BucketState,
  charge,
  couldGrant,
  credit,
  debit,
  deniedUntil,
  isCold,
  newBucket,
  penalize,
  reclock,
  refund,
  view,
} from '../../src/policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import { expectedStartUs, loadStartUs } from '../../src/policy/limits/start-time.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { SpacingRule } from '../../src/policy/rules/rule.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { applyOverride } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { forecast } from '../../src/policy/forecast/what-if.ts'
import {
  capacity,
  EPOCH_US,
  firstExcess,
  fixedRules,
  play,
  policyOf,
  rate,
  rateRules,
  SECOND,
  slidingRules,
  spacingRules,
  steps,
} from './histories.ts'

const NOW = EPOCH_US
const both = fc
  .tuple(fc.oneof(rateRules, slidingRules, fixedRules), spacingRules)
  .map(([rule, spacing]) => policyOf(rule, { spacing: spacing as SpacingRule }))
const policy = normalisePolicy({ rate: 3, per: '10s', every: '1s' }, 'limit crm')

/** The real course: each job starts at the first instant at which the bucket admits it. */
function replay(under: LimitPolicy, state: BucketState, nowUs: number, line: readonly number[]): number[] {
  const copy = structuredClone(state)
  let atUs = nowUs
  return line.map((weight) => {
    atUs = deniedUntil(under, copy, 0, atUs, weight) ?? atUs
    charge(under, copy, atUs, weight)
    return atUs
  })
}

describe('a spacing beside a rate or a window', () => {
  test('holds, and so does the other rule, over every history; denied-until is tight', () => {
    fc.assert(
      fc.property(both, steps(12), fc.integer({ min: 0, max: 100 }), (under, history, late) => {
        const { starts, state, nowUs } = play(under, history)
        expect(firstExcess(under.rule!, starts)).toBeNull()
        expect(firstExcess(under.spacing!, starts)).toBeNull()
        const weight = Math.min(2, capacity(under.rule!))
        const until = deniedUntil(under, state, 0, nowUs + late, weight)
        if (until === null) return
        expect(deniedUntil(under, state, 0, until - 1, weight)).toBe(until)
        expect(deniedUntil(under, state, 0, until, weight)).toBeNull()
      }),
      { numRuns: 2000 },
    )
  })

  test('is written, read back, and forgotten when nothing is left of it', () => {
    fc.assert(
      fc.property(both, steps(12), fc.integer({ min: 0, max: 20_000_000 }), (under, history, quietUs) => {
        const { state, nowUs } = play(under, history)
        expect(decodeBucket(encodeBucket(state))).toEqual(state)
        if (!isCold(under, state, 0, nowUs + quietUs)) return
        const line = [1, 1, 1, 1]
        expect(replay(under, state, nowUs + quietUs, line)).toEqual(
          replay(under, newBucket(under, nowUs + quietUs), nowUs + quietUs, line),
        )
      }),
      { numRuns: 1000 },
    )
  })

  test('is forecast as it happens, for one weight and for several, with debts and penalties', () => {
    fc.assert(
      fc.property(
        both,
        steps(12),
        fc.integer({ min: 0, max: 3_000_000 }),
        fc.integer({ min: 0, max: 10 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 15 }),
        fc.array(fc.integer({ min: 1, max: 15 }), { minLength: 1, maxLength: 20 }),
        (under, history, laterUs, debt, closed, count, weight, line) => {
          const { state, nowUs } = play(under, history)
          if (debt > 5) debit(under, state, nowUs, debt)
          if (closed) penalize(under, state, nowUs + 1_000_000, nowUs)
          const atUs = nowUs + laterUs
          const even = Array.from({ length: count }, () => weight)
          expect(expectedStartUs(under, state, 0, atUs, { count, weight })).toBe(
            replay(under, state, atUs, even).at(-1),
          )
          expect(expectedStartUs(under, state, 0, atUs, line)).toBe(replay(under, state, atUs, line).at(-1))
          const load = { starts: count, units: count * weight, last: weight }
          expect(loadStartUs(under, state, atUs, load)).toBeLessThanOrEqual(
            replay(under, state, atUs, even).at(-1) ?? 0,
          )
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('of a long line is exact for a rate, and no later than the truth for windows', () => {
    const line = Array.from({ length: 3000 }, () => 1)
    for (const given of [
      { rate: 3, per: '10s', every: '1s' },
      { window: 'sliding', max: 7, per: '10s', every: '1s' },
      { window: 'fixed', max: 4, per: '10s', every: '3s' },
    ] as const) {
      const under = normalisePolicy(given, 'limit crm')
      const state = newBucket(under, NOW)
      const truth = replay(under, state, NOW, line).at(-1) ?? 0
      const told = expectedStartUs(under, state, 0, NOW, { count: 3000, weight: 1 }) ?? 0
      if ('rate' in given) expect(told).toBe(truth)
      else expect(told).toBeLessThanOrEqual(truth)
      expect((truth - told) / (truth - NOW)).toBeLessThan(0.001)
    }
    expect(forecast({ rate: 60, per: '1m', every: '2s' }, { backlog: 100 })).toMatchObject({
      drainMs: 198_000,
      exact: true,
      doubled: { drainMs: 99_000 },
    })
  })

  test('lets one start at a time, shows the units that it may take, and counts a free retry as none', () => {
    const state = newBucket(policy, NOW)
    expect([couldGrant(policy, state, 0, NOW), view(policy, state, 0, NOW).available]).toEqual([1, 3])
    charge(policy, state, NOW, 1)
    expect([couldGrant(policy, state, 0, NOW), view(policy, state, 0, NOW).available]).toEqual([0, 0])
    expect(view(policy, state, 0, NOW).nextAtUs).toBe(NOW + SECOND)
    expect(deniedUntil(policy, state, 0, NOW, 0)).toBeNull()
    charge(policy, state, NOW, 0)
    expect([couldGrant(policy, state, 0, NOW + SECOND), view(policy, state, 0, NOW + SECOND).available]).toEqual([1, 2])
  })

  test('is given back by a start that did not happen, not by a weight that was too high nor taken by one too low', () => {
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 2)
    credit(policy, state, NOW, 1, NOW)
    expect(deniedUntil(policy, state, 0, NOW, 1)).toBe(NOW + SECOND)
    debit(policy, state, NOW + 500_000, 1)
    expect(deniedUntil(policy, state, 0, NOW + 500_000, 1)).toBe(NOW + SECOND)
    refund(policy, state, NOW + 500_000, 1, NOW)
    expect(deniedUntil(policy, state, 0, NOW + 500_000, 1)).toBeNull()
  })

  test('goes on when the policy changes, and waits no longer than itself after the clock went back', () => {
    const alone = normalisePolicy({ every: '1s' }, 'limit crm')
    const plain = normalisePolicy({ rate: 3, per: '10s' }, 'limit crm')
    const slower = normalisePolicy({ rate: 3, per: '10s', every: '4s' }, 'limit crm')
    const windowed = normalisePolicy({ window: 'sliding', max: 5, per: '10s', every: '1s' }, 'limit crm')
    const used = (under: LimitPolicy): BucketState => {
      const state = newBucket(under, NOW)
      charge(under, state, NOW, 1)
      return state
    }
    const next = (from: LimitPolicy, to: LimitPolicy): number | null =>
      deniedUntil(to, adopt(from, to, used(from), NOW), 0, NOW, 1)
    expect(next(policy, alone)).toBe(NOW + SECOND)
    expect(next(alone, policy)).toBe(NOW + SECOND)
    expect(next(policy, slower)).toBe(NOW + 4 * SECOND)
    expect(next(slower, policy)).toBe(NOW + SECOND)
    expect(next(policy, windowed)).toBe(NOW + SECOND)
    expect(next(plain, policy)).toBe(NOW + SECOND)
    expect(next(policy, plain)).toBeNull()
    expect(adopt(policy, plain, used(policy), NOW)).not.toHaveProperty('spacing')
    expect(deniedUntil(policy, reclock(policy, used(policy), NOW - 60 * SECOND), 0, NOW - 60 * SECOND, 1)).toBe(
      NOW - 59 * SECOND,
    )
  })
})

describe('a policy with every', () => {
  test.each<[Policy, object]>([
    [
      { rate: 15, per: '1m', every: '1s', guard: '100ms' },
      { rule: rate(15, 60_100_000), spacing: { kind: 'spacing', everyUs: 1_100_000 } },
    ],
    [
      { window: 'sliding', max: 5, per: '1s', every: 100, guard: 0 },
      { rule: { kind: 'sliding', max: 5, periodUs: SECOND }, spacing: { kind: 'spacing', everyUs: 100_000 } },
    ],
    [{ every: '1s' }, { rule: { kind: 'spacing', everyUs: SECOND } }],
  ])('%j is read', (given, expected) => {
    const found = normalisePolicy(given, 'limit crm')
    expect(found).toMatchObject(expected)
    if ('rule' in expected && !('spacing' in expected)) expect(found).not.toHaveProperty('spacing')
  })

  test('is overridden by its number, and keeps it when another changes', () => {
    const guarded = normalisePolicy({ rate: 15, per: '1m', every: '1s', guard: '100ms' }, 'limit crm')
    expect(applyOverride(guarded, { rate: 30 }, 'limit crm')).toMatchObject({
      rule: { rate: 30, burst: 30, periodUs: 60_100_000 },
      spacing: { everyUs: 1_100_000 },
    })
    expect(applyOverride(guarded, { every: '2s' }, 'limit crm').spacing).toEqual({
      kind: 'spacing',
      everyUs: 2_100_000,
    })
    const plain = normalisePolicy({ rate: 15, per: '1m' }, 'limit crm')
    expect(() => applyOverride(plain, { every: '2s' }, 'limit crm')).toThrow('cannot change every')
  })

  test.each([
    [{ rate: 1, per: '1s', every: 0 }, 'every is invalid: 0'],
    [{ concurrency: 1, every: '1x' }, '1x'],
    [{ rate: 1, window: 'sliding', max: 5, per: '1s', every: '1s' }, 'rate and window'],
  ])('%j is refused', (given, part) => {
    expect(() => normalisePolicy(given as Policy, 'limit crm')).toThrow(part)
  })
})
