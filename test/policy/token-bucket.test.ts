import { expect, test } from 'vitest'
import { charge, deniedUntil, newBucket } from '../../src/policy/limits/bucket.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { EPOCH_US, policyOf, rate, SECOND } from './histories.ts'

/** Starts of weight 1 at their exact instants, in µs from the first. */
function starts(rule: Rule, count: number): number[] {
  const policy = policyOf(rule)
  const state = newBucket(policy, EPOCH_US)
  let nowUs = EPOCH_US
  return Array.from({ length: count }, () => {
    nowUs = deniedUntil(policy, state, 0, nowUs, 1) ?? nowUs
    charge(policy, state, nowUs, 1)
    return nowUs - EPOCH_US
  })
}

test('3 per 10 s, one at a time: the 301st start is at exactly 1000 s', () => {
  const all = starts(rate(3, 10 * SECOND, 1), 301)
  expect(all.slice(0, 4)).toEqual([0, 3_333_334, 6_666_667, 10_000_000])
  expect(all[300]).toBe(1000 * SECOND)
})

test.each([
  ['1 per day', 1, 86_400],
  ['3 per hour', 3, 3600],
  ['7 per minute', 7, 60],
])('%s does not drift over 10,000 starts', (_, units, seconds) => {
  for (const burst of [1, units]) {
    const periodUs = seconds * SECOND
    const all = starts(rate(units, periodUs, burst), 10_000)
    for (const [i, us] of all.entries()) {
      const ahead = BigInt(Math.max(0, i - burst + 1)) * BigInt(periodUs)
      expect(us).toBe(Number((ahead + BigInt(units) - 1n) / BigInt(units)))
    }
  }
})

test('a burst, then one per interval', () => {
  expect(starts(rate(15, 60 * SECOND), 20).slice(14)).toEqual([0, 4, 8, 12, 16, 20].map((s) => s * SECOND))
})

test('startEmpty begins with one token', () => {
  expect(starts(rate(10, 100 * SECOND, 10, true), 3)).toEqual([0, 10 * SECOND, 20 * SECOND])
})

test('a start that is late by less than a microsecond’s rounding still counts from its due time, a late one from now', () => {
  const policy = policyOf(rate(3, 10 * SECOND, 1))
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 1)
  charge(policy, state, EPOCH_US + 4 * SECOND, 1)
  expect(deniedUntil(policy, state, 0, EPOCH_US + 4 * SECOND, 1)).toBe(EPOCH_US + 7_333_334)
})

test('the largest limits stay exact', () => {
  const policy = policyOf(rate(1_000_000_000, 86_400 * SECOND, 1_000_000_000))
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 1_000_000_000)
  expect(deniedUntil(policy, state, 0, EPOCH_US, 1_000_000_000)).toBe(EPOCH_US + 86_400 * SECOND)
  expect(deniedUntil(policy, state, 0, EPOCH_US, 10)).toBe(EPOCH_US + 864)
})
