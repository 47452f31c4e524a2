import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { type BucketState, charge, debit, deniedUntil, newBucket, penalize } from '../../src/policy/limits/bucket.ts'
import { calibrate } from '../../src/policy/limits/calibrate.ts'
import { expectedStartUs, loadStartUs } from '../../src/policy/limits/start-time.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { EPOCH_US, play, policyOf, rate, rules, SECOND, steps } from './histories.ts'

/** The real course: each job starts at the first instant at which the bucket admits it. */
function replay(policy: LimitPolicy, state: BucketState, nowUs: number, line: readonly number[]): number {
  const copy = structuredClone(state)
  let atUs = nowUs
  for (const weight of line) {
    atUs = deniedUntil(policy, copy, 0, atUs, weight) ?? atUs
    charge(policy, copy, atUs, weight)
  }
  return atUs
}

describe('the forecast is what happens', () => {
  const situation = [
    rules,
    steps(12),
    fc.integer({ min: 0, max: 300 }),
    fc.integer({ min: 0, max: 30 }),
    fc.integer({ min: 0, max: 500 }),
  ] as const

  test('for backlogs of one weight, above the bound too, with debts and penalties', () => {
    fc.assert(
      fc.property(
        ...situation,
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        (rule, history, laterUs, debt, closedUs, count, weight) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, history)
          if (debt > 20) debit(policy, state, nowUs, debt)
          if (closedUs > 400) penalize(policy, state, nowUs + closedUs, nowUs)
          const atUs = nowUs + laterUs
          const line = Array.from({ length: count }, () => weight)
          expect(expectedStartUs(policy, state, 0, atUs, { count, weight })).toBe(replay(policy, state, atUs, line))
        },
      ),
      { numRuns: 3000 },
    )
  })

  test('for lines of different weights', () => {
    fc.assert(
      fc.property(
        ...situation,
        fc.array(fc.integer({ min: 1, max: 15 }), { minLength: 1, maxLength: 30 }),
        (rule, history, laterUs, debt, closedUs, line) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, history)
          if (debt > 20) debit(policy, state, nowUs, debt)
          if (closedUs > 400) penalize(policy, state, nowUs + closedUs, nowUs)
          const before = structuredClone(state)
          expect(expectedStartUs(policy, state, 0, nowUs + laterUs, line)).toBe(
            replay(policy, state, nowUs + laterUs, line),
          )
          expect(state).toEqual(before)
        },
      ),
      { numRuns: 2000 },
    )
  })
})

describe('from sums alone', () => {
  const line = fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 1, maxLength: 30 })

  test('a job of weight 0 starts with the one before it', () => {
    fc.assert(
      fc.property(rules, steps(12), line, (rule, history, weights) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        expect(expectedStartUs(policy, state, 0, nowUs, weights)).toBe(replay(policy, state, nowUs, weights))
      }),
      { numRuns: 1000 },
    )
  })

  test('it is exact for a rate and a spacing, and never late for a window', () => {
    fc.assert(
      fc.property(rules, steps(12), line, fc.integer({ min: 1, max: 15 }), (rule, history, before, last) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        const weights = [...before.filter((weight) => weight > 0), last]
        const units = weights.reduce((sum, weight) => sum + weight, 0)
        const reckoned = loadStartUs(policy, state, nowUs, { starts: weights.length, units, last })
        const real = replay(policy, state, nowUs, weights)
        if (rule.kind === 'rate' || rule.kind === 'spacing') expect(reckoned).toBe(real)
        else expect(reckoned).toBeLessThanOrEqual(real)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('under a budget that the API has reported', () => {
  const reported = [
    rules,
    steps(8),
    fc.integer({ min: 0, max: 40 }),
    fc.integer({ min: 1, max: 3000 }),
    fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 1, maxLength: 20 }),
  ] as const

  test('jobs of different weights start when it says', () => {
    fc.assert(
      fc.property(...reported, (rule, history, remaining, resetUs, line) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        calibrate(policy, state, { remaining, resetUs: nowUs + resetUs }, nowUs)
        expect(expectedStartUs(policy, state, 0, nowUs, line)).toBe(replay(policy, state, nowUs, line))
      }),
      { numRuns: 3000 },
    )
  })

  test('backlogs of one weight do, and sums alone are never late', () => {
    fc.assert(
      fc.property(...reported, (rule, history, remaining, resetUs, { length: count }) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        calibrate(policy, state, { remaining, resetUs: nowUs + resetUs }, nowUs)
        for (const weight of [1, 3, 7]) {
          const real = replay(policy, state, nowUs, Array<number>(count).fill(weight))
          expect(expectedStartUs(policy, state, 0, nowUs, { count, weight })).toBe(real)
          const load = { starts: count, units: count * weight, last: weight }
          expect(loadStartUs(policy, state, nowUs, load)).toBeLessThanOrEqual(real)
        }
      }),
      { numRuns: 2000 },
    )
  })
})

test('of thousands under a reported budget none is told a start too late', () => {
  const rules: LimitPolicy['rule'][] = [
    rate(1000, 60 * SECOND, 10),
    { kind: 'spacing', everyUs: SECOND },
    { kind: 'sliding', max: 10, periodUs: SECOND },
    { kind: 'fixed', max: 10, window: { align: 'epoch', periodUs: SECOND }, guardUs: 0 },
  ]
  for (const rule of rules)
    for (const resetUs of [SECOND, 900 * SECOND]) {
      const policy = policyOf(rule)
      const state = newBucket(policy, EPOCH_US)
      calibrate(policy, state, { remaining: 4001, resetUs: EPOCH_US + resetUs }, EPOCH_US)
      const real = replay(policy, state, EPOCH_US, Array<number>(3000).fill(2)) - EPOCH_US
      const told = (expectedStartUs(policy, state, 0, EPOCH_US, { count: 3000, weight: 2 }) ?? 0) - EPOCH_US
      expect(told).toBe(real)
    }
})

test('a million waiting jobs are as quick to forecast as one', () => {
  const million = { count: 1_000_000, weight: 1 }
  const minute = 60 * SECOND
  const policies = [
    policyOf(rate(1000, minute, 1)),
    policyOf({ kind: 'spacing', everyUs: minute / 1000 }),
    policyOf({ kind: 'sliding', max: 1000, periodUs: minute }),
    policyOf({ kind: 'fixed', max: 1000, window: { align: 'epoch', periodUs: minute }, guardUs: 0 }),
  ]
  const seconds = policies.map(
    (policy) => ((expectedStartUs(policy, newBucket(policy, EPOCH_US), 0, EPOCH_US, million) ?? 0) - EPOCH_US) / SECOND,
  )
  expect(seconds).toEqual([59_999.94, 59_999.94, 59_940, 59_940])
})

test('what depends on a permit is not foretold', () => {
  const policy = policyOf(rate(1, SECOND), { concurrency: 3 })
  const state = newBucket(policy, EPOCH_US)
  expect(expectedStartUs(policy, state, 1, EPOCH_US, { count: 2, weight: 1 })).toBe(EPOCH_US + SECOND)
  expect(expectedStartUs(policy, state, 1, EPOCH_US, { count: 3, weight: 1 })).toBeNull()
})

test('no line, no wait; no rule, no wait', () => {
  const free = newBucket(policyOf(null), EPOCH_US)
  expect(expectedStartUs(policyOf(null), free, 0, EPOCH_US, { count: 9, weight: 1 })).toBe(EPOCH_US)
  expect(
    expectedStartUs(policyOf(rate(1, SECOND)), newBucket(policyOf(rate(1, SECOND)), EPOCH_US), 0, EPOCH_US, []),
  ).toBe(EPOCH_US)
})
