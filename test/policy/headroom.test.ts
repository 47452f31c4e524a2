import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { charge, couldGrant, deniedUntil, newBucket } from '../../src/policy/limits/bucket.ts'
import { expectedStartUs } from '../../src/policy/limits/start-time.ts'
import { keptBack, belowHeadroom } from '../../src/policy/limits/headroom.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { capacity, EPOCH_US, fixedRules, policyOf, rate, slidingRules } from './histories.ts'

const rateRules: fc.Arbitrary<Rule> = fc
  .record({
    rate: fc.integer({ min: 1, max: 12 }),
    burst: fc.integer({ min: 2, max: 12 }),
    periodUs: fc.integer({ min: 100, max: 9_000_000 }),
  })
  .map((each) => rate(each.rate, each.periodUs, each.burst))
const rules = fc.oneof(rateRules, slidingRules, fixedRules).filter((rule) => capacity(rule) >= 2)

/** A limit that keeps units back below priority 5, and a history of starts at their instants, urgent ones among them. */
const histories = rules.chain((rule) =>
  fc.record({
    policy: fc
      .integer({ min: 1, max: capacity(rule) - 1 })
      .map((units) => policyOf(rule, { headroom: { units, priority: 5 } })),
    steps: fc.array(
      fc.record({
        gapUs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 4_000_000 })),
        priority: fc.constantFrom(0, 4, 5, 9),
        weight: fc.integer({ min: 1, max: 4 }),
      }),
      { minLength: 1, maxLength: 30 },
    ),
  }),
)

function most(policy: LimitPolicy, priority: number): number {
  return capacity(policy.rule!) - keptBack(policy, priority)
}

describe('headroom', () => {
  test('a job below it leaves so many units behind, starts as soon as that is so, and not a microsecond before', () => {
    fc.assert(
      fc.property(histories, ({ policy, steps }) => {
        const state = newBucket(policy, EPOCH_US)
        let nowUs = EPOCH_US
        for (const { gapUs, priority, weight } of steps) {
          nowUs += gapUs
          const kept = keptBack(policy, priority)
          const units = Math.min(weight, most(policy, priority))
          const untilUs = deniedUntil(policy, state, 0, nowUs, units, kept)
          if (untilUs !== null) {
            expect(couldGrant(policy, state, 0, untilUs - 1) - units).toBeLessThan(kept)
            nowUs = untilUs
          }
          expect(couldGrant(policy, state, 0, nowUs) - units).toBeGreaterThanOrEqual(kept)
          charge(policy, state, nowUs, units)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('what waits below it starts when a line of its kind is said to', () => {
    fc.assert(
      fc.property(histories, fc.integer({ min: 1, max: 20 }), fc.boolean(), ({ policy, steps }, count, urgent) => {
        const state = newBucket(policy, EPOCH_US)
        let nowUs = EPOCH_US
        for (const { gapUs, priority } of steps) {
          nowUs += gapUs
          if (deniedUntil(policy, state, 0, nowUs, 1, keptBack(policy, priority)) === null)
            charge(policy, state, nowUs, 1)
        }
        const met = belowHeadroom({ policy, state }, 0, urgent ? 9 : 0)
        const told = expectedStartUs(met.policy, met.state, 0, nowUs, { count, weight: 1 })
        let startUs = nowUs
        for (let i = 0; i < count; i++) {
          const kept = keptBack(policy, urgent && i < count - 1 ? 9 : 0)
          startUs = deniedUntil(policy, state, 0, startUs, 1, kept) ?? startUs
          charge(policy, state, startUs, 1)
        }
        if (urgent && policy.rule?.kind !== 'rate') expect(told).toBeLessThanOrEqual(startUs)
        else expect(told).toBe(startUs)
      }),
      { numRuns: 500 },
    )
  })

  test('permits are kept back likewise, and return for those below only beyond them', () => {
    const policy = policyOf(null, { concurrency: 3, headroom: { units: 1, priority: 5 } })
    const state = newBucket(policy, EPOCH_US)
    expect(deniedUntil(policy, state, 1, EPOCH_US, 1, keptBack(policy, 4))).toBeNull()
    expect(deniedUntil(policy, state, 2, EPOCH_US, 1, keptBack(policy, 4))).toBe(Infinity)
    expect(deniedUntil(policy, state, 2, EPOCH_US, 1, keptBack(policy, 5))).toBeNull()
    expect(deniedUntil(policy, state, 3, EPOCH_US, 1, keptBack(policy, 5))).toBe(Infinity)
  })

  test('a job that became too heavy for what is left starts when the bucket is full', () => {
    const policy = policyOf(rate(1, 1_000_000, 10), { headroom: { units: 8, priority: 5 } })
    const state = newBucket(policy, EPOCH_US)
    charge(policy, state, EPOCH_US, 4)
    expect(deniedUntil(policy, state, 0, EPOCH_US, 3, 8)).toBe(EPOCH_US + 4_000_000)
    expect(deniedUntil(policy, state, 0, EPOCH_US + 4_000_000, 3, 8)).toBeNull()
  })

  test.each([
    [{ every: '1s', headroom: { units: 1, priority: 5 } }, /a spacing has none/],
    [{ rate: 5, per: '1s', headroom: { units: 5, priority: 5 } }, /5 units\. Expected fewer than 5/],
    [{ rate: 5, per: '1s', concurrency: 2, headroom: { units: 2, priority: 5 } }, /2 units\. Expected fewer than 2/],
    [{ window: 'sliding', max: 1, per: '1s', headroom: { units: 1, priority: 5 } }, /1 units\. Expected fewer than 1/],
    [{ concurrency: 5, headroom: { units: 0, priority: 5 } }, /units is invalid: 0/],
    [{ concurrency: 5, headroom: { units: 1, priority: 101 } }, /priority is invalid: 101/],
    [{ concurrency: 5, headroom: { units: 1 } }, /priority is invalid: undefined/],
    [{ concurrency: 5, headroom: { units: 1, priority: 1, more: 1 } }, /no option "more"/],
    [{ concurrency: 5, headroom: 2 }, /Expected an object of units, priority/],
  ])('%o is refused', (policy, why) => {
    expect(() => normalisePolicy(policy as never, 'limit a')).toThrow(why)
  })

  test('it stands beside every rule that counts units or permits', () => {
    const headroom = { units: 1, priority: 5 }
    for (const policy of [
      { rate: 5, per: '1s' },
      { window: 'fixed', max: 5, per: '1s' },
      { concurrency: 2 },
      { every: '1s', concurrency: 2 },
    ] as const)
      expect(normalisePolicy({ ...policy, headroom }, 'limit a').headroom).toEqual(headroom)
  })
})
