import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import {
  adopt,
  type BucketState,
  charge,
  debit,
  deniedUntil,
  isCold,
  newBucket,
  reclock,
  refund,
  view,
} from '../../src/policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import { calibrate, setLevel } from '../../src/policy/limits/calibrate.ts'
import { expectedStartUs } from '../../src/policy/limits/start-time.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { unitsInUse } from '../../src/policy/rules/rule-state.ts'
import {
  capacity,
  EPOCH_US,
  firstExcess,
  fixedRules,
  play,
  policyOf,
  rate,
  rateRules,
  rules,
  SECOND,
  slidingRules,
  spacingRules,
  type Start,
  steps,
} from './histories.ts'

const NOW = EPOCH_US
const MINUTE = 60 * SECOND
const RULES = [
  ['rate', rateRules],
  ['sliding', slidingRules],
  ['fixed', fixedRules],
  ['spacing', spacingRules],
] as const

/** Starts every unit that is admitted, each as soon as it is, until an instant. */
function startsUntil(policy: LimitPolicy, state: BucketState, fromUs: number, untilUs: number, weight = 1): Start[] {
  const starts: Start[] = []
  for (let nowUs = fromUs; starts.length < 200;) {
    nowUs = deniedUntil(policy, state, 0, nowUs, weight) ?? nowUs
    if (nowUs >= untilUs) break
    charge(policy, state, nowUs, weight)
    starts.push({ atUs: nowUs, weight })
  }
  return starts
}

describe('what the other side says is left', () => {
  test.each(RULES)('no more than that starts before its reset, under a %s', (_, arbitrary) => {
    fc.assert(
      fc.property(
        arbitrary,
        steps(3),
        fc.nat({ max: 15 }),
        fc.integer({ min: 1, max: 20_000_000 }),
        (rule, history, remaining, spanUs) => {
          const policy = policyOf(rule)
          const { starts, state, nowUs } = play(policy, history)
          calibrate(policy, state, { remaining, resetUs: nowUs + spanUs }, nowUs)
          const later = startsUntil(policy, state, nowUs, nowUs + spanUs)
          expect(later.length).toBeLessThanOrEqual(remaining)
          expect(firstExcess(rule, [...starts, ...later])).toBeNull()
        },
      ),
    )
  })

  test('a bucket without such an answer, and one whose answer says no more than its rules, start alike', () => {
    fc.assert(
      fc.property(rules, steps(3), fc.integer({ min: 1, max: 1_000_000 }), (rule, history, spanUs) => {
        const policy = policyOf(rule)
        const one = play(policy, history)
        const other = play(policy, history)
        expect(
          calibrate(policy, one.state, { remaining: Number.MAX_SAFE_INTEGER, resetUs: one.nowUs + spanUs }, one.nowUs),
        ).toBe('no')
        const untilUs = one.nowUs + 2 * spanUs
        expect(startsUntil(policy, one.state, one.nowUs, untilUs)).toEqual(
          startsUntil(policy, other.state, other.nowUs, untilUs),
        )
      }),
    )
  })

  test('of one window the least counts, since answers overtake each other; a later window takes its place', () => {
    const policy = policyOf(rate(100, MINUTE))
    const state = newBucket(policy, NOW)
    expect(calibrate(policy, state, { remaining: 5, resetUs: NOW + 10 * SECOND }, NOW)).toBe('news')
    expect(calibrate(policy, state, { remaining: 9, resetUs: NOW + 11 * SECOND }, NOW)).toBe('no')
    expect(calibrate(policy, state, { remaining: 3, resetUs: NOW + 9 * SECOND }, NOW)).toBe('yes')
    expect(view(policy, state, 0, NOW).available).toBe(3)
    charge(policy, state, NOW, 2)
    expect(view(policy, state, 0, NOW).available).toBe(1)
    expect(deniedUntil(policy, state, 0, NOW, 2)).toBe(NOW + 10 * SECOND)
    expect(calibrate(policy, state, { remaining: 20, resetUs: NOW + 60 * SECOND }, NOW)).toBe('yes')
    expect(view(policy, state, 0, NOW).available).toBe(20)
  })

  test('what is stale means nothing, and after the reset the rules alone count', () => {
    const policy = policyOf(rate(100, MINUTE))
    const state = newBucket(policy, NOW)
    expect(calibrate(policy, state, { remaining: 0, resetUs: NOW }, NOW)).toBe('no')
    expect(calibrate(policy, state, { remaining: 0, resetUs: NOW - 5 }, NOW)).toBe('no')
    calibrate(policy, state, { remaining: 0, resetUs: NOW + SECOND }, NOW)
    expect(view(policy, state, 0, NOW)).toMatchObject({ available: 0, nextAtUs: NOW + SECOND })
    expect(isCold(policy, state, 0, NOW)).toBe(false)
    expect(view(policy, state, 0, NOW + SECOND)).toMatchObject({ available: 100, nextAtUs: NOW + SECOND })
    expect(isCold(policy, state, 0, NOW + SECOND)).toBe(true)
  })

  test('a start that is given back gives its units back to it, one of before does not', () => {
    const policy = policyOf(rate(100, MINUTE))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 7)
    calibrate(policy, state, { remaining: 5, resetUs: NOW + MINUTE }, NOW + 1)
    charge(policy, state, NOW + 2, 4)
    refund(policy, state, NOW + 3, 7, NOW)
    expect(view(policy, state, 0, NOW + 3).available).toBe(1)
    refund(policy, state, NOW + 3, 4, NOW + 2)
    expect(view(policy, state, 0, NOW + 3).available).toBe(5)
  })

  test('is kept as text, under another policy, and over a clock that went back', () => {
    fc.assert(
      fc.property(rules, rules, steps(3), fc.nat({ max: 9 }), (rule, to, history, remaining) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        calibrate(policy, state, { remaining, resetUs: nowUs + 1e9 }, nowUs)
        expect(decodeBucket(encodeBucket(state))).toEqual(state)
        const { allowance } = state
        expect(adopt(policy, policyOf(to), state, nowUs).allowance).toEqual(allowance)
        expect(reclock(policy, state, nowUs - 1000).allowance).toEqual(
          allowance && { ...allowance, untilUs: allowance.untilUs - 1000, sinceUs: allowance.sinceUs - 1000 },
        )
      }),
    )
  })

  test('a forecast reckons with it', () => {
    for (const rule of [rate(10, 10 * SECOND), { kind: 'sliding', max: 10, periodUs: 10 * SECOND } as const])
      for (const line of [{ count: 14, weight: 1 }, Array.from({ length: 14 }, (_, i) => (i % 3) + 1)]) {
        const policy = policyOf(rule)
        const state = newBucket(policy, NOW)
        calibrate(policy, state, { remaining: 3, resetUs: NOW + 30 * SECOND }, NOW)
        const expected = expectedStartUs(policy, structuredClone(state), 0, NOW, line)
        let atUs = NOW
        for (const weight of Array.isArray(line) ? line : Array<number>(14).fill(1)) {
          atUs = deniedUntil(policy, state, 0, atUs, weight) ?? atUs
          charge(policy, state, atUs, weight)
        }
        expect((expected ?? 0) - NOW).toBe(atUs - NOW)
      }
  })
})

describe('how full the other side says that its bucket is', () => {
  test.each(RULES.slice(0, 3))('down to that, never up, and never above the bound, under a %s', (_, arbitrary) => {
    fc.assert(
      fc.property(arbitrary, steps(3), fc.nat({ max: 20 }), fc.boolean(), (rule, history, remaining, up) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        const before = capacity(rule) - unitsInUse(rule, state.rule!, nowUs)
        setLevel(policy, state, remaining, { down: true, up }, nowUs)
        const after = capacity(rule) - unitsInUse(rule, state.rule!, nowUs)
        const told = Math.min(remaining, capacity(rule))
        expect(after).toBe(up ? told : Math.min(before, told))
      }),
    )
  })
})

describe('a cost that is known only after the run', () => {
  test.each(RULES.slice(0, 3))(
    'is conserved: what was taken is the estimate and its corrections, under a %s',
    (_, arbitrary) => {
      fc.assert(
        fc.property(
          arbitrary,
          steps(3),
          fc.integer({ min: 1, max: 12 }),
          fc.integer({ min: -12, max: 40 }),
          (rule, history, estimate, correction) => {
            const policy = policyOf(rule)
            const one = play(policy, history)
            const other = play(policy, history)
            const nowUs = one.nowUs + 1
            const net = Math.max(correction, -estimate)
            charge(policy, one.state, nowUs, estimate)
            if (net > 0) debit(policy, one.state, nowUs, net)
            else refund(policy, one.state, nowUs, -net, nowUs)
            charge(policy, other.state, nowUs, estimate + net)
            expect(unitsInUse(rule, one.state.rule!, nowUs)).toBe(unitsInUse(rule, other.state.rule!, nowUs))
          },
        ),
      )
    },
  )

  test.each(RULES.slice(0, 3))(
    'never leaves more than if it had been known, however late it comes, under a %s',
    (_, arbitrary) => {
      fc.assert(
        fc.property(
          arbitrary,
          steps(3),
          steps(3),
          fc.integer({ min: 1, max: 12 }),
          fc.nat({ max: 12 }),
          (rule, before, after, estimate, back) => {
            const policy = policyOf(rule)
            const one = play(policy, before)
            const other = play(policy, before)
            const startedUs = one.nowUs + 1
            const units = Math.min(back, estimate)
            charge(policy, one.state, startedUs, estimate)
            charge(policy, other.state, startedUs, estimate - units)
            let nowUs = startedUs
            for (const { gapUs, weight } of after) {
              nowUs += gapUs
              if (deniedUntil(policy, one.state, 0, nowUs, weight) !== null) continue
              charge(policy, one.state, nowUs, weight)
              charge(policy, other.state, nowUs, weight)
            }
            refund(policy, one.state, nowUs, units, startedUs)
            expect(unitsInUse(rule, one.state.rule!, nowUs)).toBeGreaterThanOrEqual(
              unitsInUse(rule, other.state.rule!, nowUs),
            )
          },
        ),
      )
    },
  )
})
