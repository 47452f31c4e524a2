import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import {
  adopt,
  type BucketState,
  charge,
  debit,
  deniedUntil,
  newBucket,
  refund,
  view,
} from '../../src/policy/limits/bucket.ts'
import { encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import type { SlidingRule } from '../../src/policy/rules/rule.ts'
import {
  EXACT_ENTRIES,
  expire,
  slidingGrantUs,
  type SlidingState,
  SUB_SLOTS,
} from '../../src/policy/rules/sliding-window.ts'
import { EPOCH_US, policyOf, SECOND, type Start } from './histories.ts'

function sliding(max: number, periodUs: number): SlidingRule {
  return { kind: 'sliding', max, periodUs }
}

function windowOf(state: BucketState): SlidingState {
  if (state.rule?.kind !== 'sliding') throw new Error('not a window')
  return state.rule
}

/** Whether any half-open interval of the window's length holds more than its bound; starts are in order. */
function exceeds(rule: SlidingRule, starts: readonly Start[]): boolean {
  let units = 0
  let first = 0
  for (const { atUs, weight } of starts) {
    units += weight
    for (; atUs - starts[first]!.atUs >= rule.periodUs; first++) units -= starts[first]!.weight
    if (units > rule.max) return true
  }
  return false
}

test('32 starts at once under 15 per minute: 0 × 15, 60 × 15, 120 × 2', () => {
  const policy = policyOf(sliding(15, 60 * SECOND))
  const state = newBucket(policy, EPOCH_US)
  let nowUs = EPOCH_US
  const seconds = Array.from({ length: 32 }, () => {
    nowUs = deniedUntil(policy, state, 0, nowUs, 1) ?? nowUs
    charge(policy, state, nowUs, 1)
    return (nowUs - EPOCH_US) / SECOND
  })
  expect(seconds).toEqual(Array.from({ length: 32 }, (_, i) => 60 * Math.floor(i / 15)))
})

describe('beyond the exact log', () => {
  const rule = sliding(3000, 10 * SECOND)
  const policy = policyOf(rule)

  test('the bound holds at every instant, the state stays small, and no unit is lost on the way there and back', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            count: fc.integer({ min: 1, max: 2500 }),
            gapUs: fc.integer({ min: 0, max: 9000 }),
            quietUs: fc.integer({ min: 0, max: 12_000_000 }),
          }),
          {
            minLength: 1,
            maxLength: 6,
          },
        ),
        fc.integer({ min: 1, max: 3 }),
        (phases, weight) => {
          const state = newBucket(policy, EPOCH_US)
          const starts: Start[] = []
          let nowUs = EPOCH_US
          for (const { count, gapUs, quietUs } of phases) {
            for (let i = 0; i < count; i++) {
              nowUs += gapUs
              if (deniedUntil(policy, state, 0, nowUs, weight) !== null) continue
              charge(policy, state, nowUs, weight)
              starts.push({ atUs: nowUs, weight })
            }
            expect(windowOf(state).log.length).toBeLessThanOrEqual(2 * EXACT_ENTRIES)
            nowUs += quietUs
          }
          expect(exceeds(rule, starts)).toBe(false)
        },
      ),
      { numRuns: 60 },
    )
  })

  test.each([1, 7, 1000, 3333])(
    'with a backlog and starts every %i µs at most, at least 98 % of the budget is used',
    (gapUs) => {
      const state = newBucket(policy, EPOCH_US)
      const starts: Start[] = []
      const endUs = EPOCH_US + 20 * rule.periodUs
      for (let nowUs = EPOCH_US; nowUs < endUs;) {
        const until = deniedUntil(policy, state, 0, nowUs, 1)
        if (until === null) {
          charge(policy, state, nowUs, 1)
          starts.push({ atUs: nowUs, weight: 1 })
          nowUs += gapUs
        } else nowUs = until
      }
      expect(exceeds(rule, starts)).toBe(false)
      expect(starts.length).toBeGreaterThanOrEqual(0.98 * 20 * Math.min(rule.max, rule.periodUs / gapUs))
      if (gapUs > 1) expect(windowOf(state).coarse).toBe(true)
      if (windowOf(state).coarse) expect(windowOf(state).log.length).toBeLessThanOrEqual(2 * (SUB_SLOTS + 2))
    },
  )

  test('a start handed back from a sub-slot frees its units, and a quiet window is exact again', () => {
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 2000; i++) charge(policy, state, EPOCH_US + i * 1000, 1)
    expect(windowOf(state).coarse).toBe(true)
    const nowUs = EPOCH_US + 2 * SECOND
    refund(policy, state, nowUs, 5, EPOCH_US + 500_000)
    expect(view(policy, state, 0, nowUs).available).toBe(1005)
    charge(policy, state, nowUs + 20 * SECOND, 1)
    expect(windowOf(state)).toMatchObject({ coarse: false, used: 1 })
  })

  test('the written state of a busy window is a few hundred characters', () => {
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 2500; i++) charge(policy, state, EPOCH_US + i * 1000, 1)
    expect(encodeBucket(state).length).toBeLessThan(1500)
  })
})

describe('debt', () => {
  test('paying it by and by and paying it in one look come to the same', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.record({ gapUs: fc.integer({ min: 0, max: 30 }), units: fc.integer({ min: 1, max: 4 }) }), {
          minLength: 1,
          maxLength: 8,
        }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 250 }),
        (max, uses, debt, weight, stepUs) => {
          const rule = sliding(max, 100)
          const policy = policyOf(rule)
          const state = newBucket(policy, EPOCH_US)
          let nowUs = EPOCH_US
          for (const { gapUs, units } of uses) {
            nowUs += gapUs
            if (deniedUntil(policy, state, 0, nowUs, units) === null) charge(policy, state, nowUs, units)
          }
          debit(policy, state, nowUs, debt)
          const oneLook = deniedUntil(policy, state, 0, nowUs, weight)
          const often = windowOf(structuredClone(state))
          let us = nowUs
          while (us < (oneLook ?? nowUs)) {
            us = Math.min(us + stepUs, oneLook ?? nowUs)
            expire(rule, often, us)
            expect(Math.max(us, slidingGrantUs(rule, often, weight))).toBe(oneLook)
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a start that has left the window pays no debt of later ones when it is handed back', () => {
    const policy = policyOf(sliding(2, SECOND))
    const state = newBucket(policy, EPOCH_US)
    charge(policy, state, EPOCH_US, 2)
    debit(policy, state, EPOCH_US + SECOND, 5)
    refund(policy, state, EPOCH_US + SECOND, 2, EPOCH_US)
    expect(view(policy, state, 0, EPOCH_US + SECOND).debt).toBe(3)
    refund(policy, state, EPOCH_US + SECOND, 2, EPOCH_US + SECOND)
    expect(view(policy, state, 0, EPOCH_US + SECOND).debt).toBe(1)
  })

  test('a large debt is paid one bound per window, and read in one step', () => {
    const policy = policyOf(sliding(10, SECOND))
    const state = newBucket(policy, EPOCH_US)
    debit(policy, state, EPOCH_US, 1_000_000)
    expect(deniedUntil(policy, state, 0, EPOCH_US, 1)).toBe(EPOCH_US + 100_000 * SECOND)
    expect(view(policy, state, 0, EPOCH_US + 50_000 * SECOND)).toMatchObject({ available: 0, debt: 499_990 })
    const grown = adopt(policy, policyOf(sliding(20, SECOND)), state, EPOCH_US + 50_000 * SECOND)
    expect(deniedUntil(policyOf(sliding(20, SECOND)), grown, 0, EPOCH_US + 50_000 * SECOND, 1)).toBe(
      EPOCH_US + 75_000 * SECOND,
    )
  })
})
