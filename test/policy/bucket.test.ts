import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import {
  adopt,
  type BucketState,
  charge,
  couldGrant,
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
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
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
  steps,
  type Start,
} from './histories.ts'

const NOW = EPOCH_US
const MINUTE = 60 * SECOND

/** Starts of weight 1 one after another, each at the exact instant. */
function startsFrom(policy: LimitPolicy, state: BucketState, fromUs: number, count: number): number[] {
  let nowUs = fromUs
  return Array.from({ length: count }, () => {
    nowUs = deniedUntil(policy, state, 0, nowUs, 1) ?? nowUs
    charge(policy, state, nowUs, 1)
    return (nowUs - NOW) / SECOND
  })
}

describe('every rule', () => {
  test.each([
    ['rate', rateRules],
    ['sliding', slidingRules],
    ['fixed', fixedRules],
    ['spacing', spacingRules],
  ])('no half-open interval of any history holds more than a %s allows', (_, arbitrary) => {
    fc.assert(
      fc.property(arbitrary, steps(12), (rule, history) => {
        expect(firstExcess(rule, play(policyOf(rule), history).starts)).toBeNull()
      }),
      { numRuns: 1000 },
    )
  })

  test('one microsecond before denied-until it is denied, and at it granted', () => {
    fc.assert(
      fc.property(
        rules,
        steps(12),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 100 }),
        (rule, history, weight, late) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, history)
          const units = Math.min(weight, capacity(rule))
          const until = deniedUntil(policy, state, 0, nowUs + late, units)
          if (until === null) return
          expect(until).toBeGreaterThan(nowUs + late)
          expect(Number.isInteger(until)).toBe(true)
          expect(deniedUntil(policy, state, 0, until - 1, units)).toBe(until)
          expect(deniedUntil(policy, state, 0, until, units)).toBeNull()
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('questions change nothing', () => {
    fc.assert(
      fc.property(rules, steps(12), fc.integer({ min: 1, max: 20 }), (rule, history, weight) => {
        const policy = policyOf(rule, { concurrency: 3 })
        const { state, nowUs } = play(policyOf(rule), history)
        debit(policy, state, nowUs, weight)
        const before = structuredClone(state)
        for (const atUs of [nowUs, nowUs + 1, nowUs + 5_000_000]) {
          deniedUntil(policy, state, 1, atUs, weight)
          couldGrant(policy, state, 1, atUs)
          view(policy, state, 1, atUs)
          isCold(policy, state, 0, atUs)
          reclock(policy, state, atUs - 10)
          adopt(policy, policyOf(rate(3, 50)), state, atUs)
          adopt(policy, policyOf({ kind: 'sliding', max: 2, periodUs: 90 }), state, atUs)
          encodeBucket(state)
        }
        expect(state).toEqual(before)
      }),
    )
  })

  test('a bucket that is written and read back is the same', () => {
    fc.assert(
      fc.property(rules, steps(30), fc.integer({ min: 0, max: 40 }), fc.boolean(), (rule, history, units, closed) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        if (units > 0) debit(policy, state, nowUs, units)
        if (closed) penalize(policy, state, nowUs + 12_345, nowUs)
        expect(decodeBucket(encodeBucket(state))).toEqual(state)
      }),
      { numRuns: 500 },
    )
  })

  test('a cold bucket behaves as a new one', () => {
    fc.assert(
      fc.property(
        rules,
        steps(12),
        fc.integer({ min: 0, max: 20_000_000 }),
        steps(12),
        (rule, before, quietUs, after) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, before)
          const laterUs = nowUs + quietUs
          if (!isCold(policy, state, 0, laterUs)) return
          const fresh = newBucket(policy, laterUs)
          let atUs = laterUs
          for (const { gapUs, weight } of after) {
            atUs += gapUs
            const units = Math.min(weight, capacity(rule))
            const until = deniedUntil(policy, state, 0, atUs, units)
            expect(until).toBe(deniedUntil(policy, fresh, 0, atUs, units))
            if (until !== null) continue
            charge(policy, state, atUs, units)
            charge(policy, fresh, atUs, units)
          }
        },
      ),
      { numRuns: 1000 },
    )
  })

  test('an unused bucket is cold, and a used one is cold again after its own period', () => {
    const policies: LimitPolicy[] = [
      policyOf(rate(5, SECOND)),
      policyOf({ kind: 'sliding', max: 5, periodUs: SECOND }),
      policyOf({ kind: 'fixed', max: 5, window: { align: 'epoch', periodUs: SECOND }, guardUs: 0 }),
      policyOf({ kind: 'spacing', everyUs: SECOND }),
    ]
    for (const policy of policies) {
      const state = newBucket(policy, NOW)
      expect(isCold(policy, state, 0, NOW)).toBe(true)
      charge(policy, state, NOW, 5)
      expect(isCold(policy, state, 0, NOW)).toBe(false)
      expect(isCold(policy, state, 0, NOW + SECOND)).toBe(true)
      expect(isCold(policy, state, 1, NOW + SECOND)).toBe(false)
    }
    const startEmpty = policyOf(rate(5, SECOND, 5, true))
    expect(isCold(startEmpty, newBucket(startEmpty, NOW), 0, NOW + MINUTE)).toBe(false)
  })

  test('couldGrant is exactly how many single starts follow', () => {
    fc.assert(
      fc.property(rules, steps(12), fc.integer({ min: 0, max: 1000 }), (rule, history, laterUs) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        const atUs = nowUs + laterUs
        const could = couldGrant(policy, state, 0, atUs)
        let granted = 0
        while (granted <= could && deniedUntil(policy, state, 0, atUs, 1) === null) {
          charge(policy, state, atUs, 1)
          granted++
        }
        expect(granted).toBe(could)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('refunds', () => {
  test('what is left of a history after refunds keeps to the bound', () => {
    const arbitrary = fc.array(
      fc.record({
        gapUs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 400 })),
        weight: fc.integer({ min: 1, max: 4 }),
        refunds: fc.option(fc.nat({ max: 6 })),
      }),
      { maxLength: 40 },
    )
    const rule: fc.Arbitrary<Rule> = fc.oneof(
      fc.record({
        kind: fc.constant('rate' as const),
        rate: fc.integer({ min: 1, max: 7 }),
        periodUs: fc.integer({ min: 1, max: 300 }),
        burst: fc.integer({ min: 1, max: 8 }),
        startEmpty: fc.boolean(),
      }),
      fc.record({
        kind: fc.constant('sliding' as const),
        max: fc.integer({ min: 1, max: 8 }),
        periodUs: fc.integer({ min: 1, max: 300 }),
      }),
      fc.integer({ min: 1, max: 100 }).map((everyUs) => ({ kind: 'spacing' as const, everyUs })),
      fc.integer({ min: 1, max: 300 }).map((periodUs) => ({
        kind: 'fixed' as const,
        max: 6,
        window: { align: 'epoch' as const, periodUs },
        guardUs: 0,
      })),
    )
    fc.assert(
      fc.property(rule, arbitrary, (rule, history) => {
        const policy = policyOf(rule)
        const state = newBucket(policy, NOW)
        const starts: Start[] = []
        let nowUs = NOW
        for (const { gapUs, weight, refunds } of history) {
          nowUs += gapUs
          if (refunds !== null && starts.length > 0) {
            const [start] = starts.splice(Math.max(0, starts.length - 1 - refunds), 1)
            refund(policy, state, nowUs, start!.weight, start!.atUs)
          }
          const units = Math.min(weight, capacity(rule))
          nowUs = deniedUntil(policy, state, 0, nowUs, units) ?? nowUs
          charge(policy, state, nowUs, units)
          starts.push({ atUs: nowUs, weight: units })
          expect(firstExcess(rule, starts)).toBeNull()
        }
      }),
      { numRuns: 3000 },
    )
  })

  test('a start handed back at once leaves no trace', () => {
    fc.assert(
      fc.property(rules, steps(6), fc.integer({ min: 1, max: 6 }), (rule, history, weight) => {
        const policy = policyOf(rule)
        const { state, nowUs } = play(policy, history)
        const units = Math.min(weight, capacity(rule))
        const atUs = deniedUntil(policy, state, 0, nowUs, units) ?? nowUs
        const before = deniedUntil(policy, state, 0, atUs, 1)
        charge(policy, state, atUs, units)
        refund(policy, state, atUs, units, atUs)
        expect(deniedUntil(policy, state, 0, atUs, 1)).toBe(before)
        expect(deniedUntil(policy, state, 0, atUs, units)).toBeNull()
      }),
      { numRuns: 1000 },
    )
  })

  test('an estimate corrected down a while later frees the difference', () => {
    const policy = policyOf(rate(60, MINUTE))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 50)
    charge(policy, state, NOW + SECOND, 10)
    refund(policy, state, NOW + 2 * SECOND, 30, NOW)
    expect(view(policy, state, 0, NOW + 2 * SECOND).available).toBe(32)
  })

  test('never above full', () => {
    const policy = policyOf(rate(2, SECOND))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    refund(policy, state, NOW, 2, NOW)
    expect(view(policy, state, 0, NOW)).toMatchObject({ available: 2 })
    expect(startsFrom(policy, state, NOW, 3)).toEqual([0, 0, 0.5])
  })
})

describe('permits and penalties', () => {
  test('permits refuse until a release, at any weight, and 0 pauses', () => {
    const policy = policyOf(null, { concurrency: 2 })
    const state = newBucket(policy, NOW)
    expect(deniedUntil(policy, state, 1, NOW, 5)).toBeNull()
    expect(deniedUntil(policy, state, 2, NOW, 1)).toBe(Infinity)
    expect(deniedUntil(policy, state, 2, NOW, 0)).toBe(Infinity)
    expect(couldGrant(policy, state, 3, NOW)).toBe(0)
    expect(deniedUntil(policyOf(null, { concurrency: 0 }), state, 0, NOW, 1)).toBe(Infinity)
    expect(view(policy, state, 2, NOW)).toEqual({ available: 0, debt: 0, capacity: 2, nextAtUs: null })
  })

  test('where permits and the rule refuse, a release has to come first', () => {
    const policy = policyOf(rate(1, SECOND), { concurrency: 1 })
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    expect(deniedUntil(policy, state, 1, NOW, 1)).toBe(Infinity)
    expect(deniedUntil(policy, state, 0, NOW, 1)).toBe(NOW + SECOND)
  })

  test('a limit without rules admits all', () => {
    const policy = policyOf(null)
    expect(view(policy, newBucket(policy, NOW), 9, NOW)).toEqual({
      available: Infinity,
      debt: 0,
      capacity: Infinity,
      nextAtUs: NOW,
    })
  })

  test('a free retry waives the rule, never a penalty', () => {
    const policy = policyOf(rate(1, MINUTE))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    expect(deniedUntil(policy, state, 0, NOW, 0)).toBeNull()
    charge(policy, state, NOW, 0)
    expect(deniedUntil(policy, state, 0, NOW, 1)).toBe(NOW + MINUTE)
    penalize(policy, state, NOW + SECOND, NOW)
    expect(deniedUntil(policy, state, 0, NOW, 0)).toBe(NOW + SECOND)
  })

  test('a rate holds exactly one token when a penalty ends', () => {
    const policy = policyOf(rate(10, 10 * SECOND))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    penalize(policy, state, NOW + 30 * SECOND, NOW)
    expect(view(policy, state, 0, NOW)).toEqual({ available: 0, debt: 0, capacity: 10, nextAtUs: NOW + 30 * SECOND })
    expect(view(policy, state, 0, NOW + 30 * SECOND).available).toBe(1)
    expect(startsFrom(policy, state, NOW, 4)).toEqual([30, 31, 32, 33])
  })

  test('a heavy start after a penalty banks from one token on', () => {
    const policy = policyOf(rate(5, 5 * SECOND))
    const state = newBucket(policy, NOW)
    penalize(policy, state, NOW + 10 * SECOND, NOW)
    expect(deniedUntil(policy, state, 0, NOW, 5)).toBe(NOW + 14 * SECOND)
  })

  test('a penalty never admits earlier than without it, and a shorter one does not shorten it', () => {
    const policy = policyOf(rate(1, 10 * SECOND))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    penalize(policy, state, NOW + 2 * SECOND, NOW)
    expect(deniedUntil(policy, state, 0, NOW, 1)).toBe(NOW + 10 * SECOND)
    penalize(policy, state, NOW + 40 * SECOND, NOW)
    penalize(policy, state, NOW + 20 * SECOND, NOW)
    expect(startsFrom(policy, state, NOW, 2)).toEqual([40, 50])
  })

  test('windows follow their own rule after a penalty', () => {
    const policy = policyOf({ kind: 'sliding', max: 2, periodUs: MINUTE })
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 1)
    penalize(policy, state, NOW + 5 * SECOND, NOW)
    expect(startsFrom(policy, state, NOW, 3)).toEqual([5, 60, 65])
  })

  test('denied-until is tight under penalties too', () => {
    fc.assert(
      fc.property(
        rules,
        steps(8),
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 1, max: 12 }),
        (rule, history, closedUs, weight) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, history)
          penalize(policy, state, nowUs + closedUs, nowUs)
          const units = Math.min(weight, capacity(rule))
          const until = deniedUntil(policy, state, 0, nowUs, units)
          expect(until).toBeGreaterThanOrEqual(nowUs + closedUs)
          expect(deniedUntil(policy, state, 0, until! - 1, units)).toBe(until)
          expect(deniedUntil(policy, state, 0, until!, units)).toBeNull()
        },
      ),
      { numRuns: 1000 },
    )
  })
})

describe('a change of policy', () => {
  test('the level carries, at most the new burst, and refills at the new rate', () => {
    const ten = policyOf(rate(10, 10 * SECOND))
    const four = policyOf(rate(4, 4 * SECOND))
    const state = newBucket(ten, NOW)
    charge(ten, state, NOW, 1)
    const shrunk = adopt(ten, four, state, NOW)
    expect(view(four, shrunk, 0, NOW).available).toBe(4)
    const grown = adopt(four, ten, shrunk, NOW)
    expect(view(ten, grown, 0, NOW).available).toBe(4)
    expect(view(ten, grown, 0, NOW + 2 * SECOND).available).toBe(6)
  })

  test('a fraction of a token carries', () => {
    const before = policyOf(rate(1, 2 * SECOND, 1))
    const after = policyOf(rate(1, 10 * SECOND, 1))
    const state = newBucket(before, NOW)
    expect(startsFrom(before, state, NOW, 3)).toEqual([0, 2, 4])
    const changed = adopt(before, after, state, NOW + 5 * SECOND)
    expect(startsFrom(after, changed, NOW + 5 * SECOND, 2)).toEqual([10, 20])
  })

  test('a rate’s level never rises by changes, there and back', () => {
    fc.assert(
      fc.property(rateRules, rateRules, steps(8), fc.integer({ min: 0, max: 400 }), (from, to, history, laterUs) => {
        const a = policyOf(from)
        const b = policyOf(to)
        const { state, nowUs } = play(a, history)
        const atUs = nowUs + laterUs
        const before = view(a, state, 0, atUs).available
        const there = adopt(a, b, state, atUs)
        expect(view(b, there, 0, atUs).available).toBeLessThanOrEqual(before)
        expect(view(a, adopt(b, a, there, atUs), 0, atUs).available).toBeLessThanOrEqual(before)
      }),
      { numRuns: 2000 },
    )
  })

  test('whatever the rules, what is in use stays in use, and a smaller bound is refilled within its own period', () => {
    fc.assert(
      fc.property(rules, rules, steps(8), fc.integer({ min: 0, max: 400 }), (from, to, history, laterUs) => {
        const a = policyOf(from)
        const b = policyOf(to)
        const { state, nowUs } = play(a, history)
        const atUs = nowUs + laterUs
        const inUse = unitsInUse(from, state.rule!, atUs)
        const there = adopt(a, b, state, atUs)
        // A shorter window or interval forgets sooner; all else keeps what is in use.
        if (from.kind !== to.kind || from.kind === 'fixed')
          expect(view(b, there, 0, atUs).available).toBeLessThanOrEqual(Math.max(0, capacity(to) - inUse))
        expect((deniedUntil(b, there, 0, atUs, 1) ?? atUs) - atUs).toBeLessThanOrEqual(ownPeriodUs(to))
      }),
      { numRuns: 2000 },
    )
  })

  test('a window keeps its log: what had left the old one does not come back', () => {
    const minute = policyOf({ kind: 'sliding', max: 3, periodUs: MINUTE })
    const hour = policyOf({ kind: 'sliding', max: 3, periodUs: 60 * MINUTE })
    const state = newBucket(minute, NOW)
    charge(minute, state, NOW, 2)
    charge(minute, state, NOW + 50 * SECOND, 1)
    const longer = adopt(minute, hour, state, NOW + MINUTE)
    expect(view(hour, longer, 0, NOW + MINUTE).available).toBe(2)
    const lower = adopt(minute, policyOf({ kind: 'sliding', max: 1, periodUs: MINUTE }), state, NOW + 50 * SECOND)
    expect(startsFrom(policyOf({ kind: 'sliding', max: 1, periodUs: MINUTE }), lower, NOW + 50 * SECOND, 2)).toEqual([
      110, 170,
    ])
  })

  test('a rule of another kind is charged with the units in use', () => {
    const bucket = policyOf(rate(10, 10 * SECOND))
    const window = policyOf({ kind: 'sliding', max: 10, periodUs: 10 * SECOND })
    const state = newBucket(bucket, NOW)
    charge(bucket, state, NOW, 7)
    const changed = adopt(bucket, window, state, NOW)
    expect(view(window, changed, 0, NOW)).toMatchObject({ available: 3, debt: 0 })
    const small = policyOf({ kind: 'fixed', max: 2, window: { align: 'epoch', periodUs: SECOND }, guardUs: 0 })
    expect(view(small, adopt(window, small, changed, NOW), 0, NOW)).toMatchObject({ available: 0, debt: 0 })
    expect(adopt(bucket, policyOf(null), state, NOW).rule).toBeNull()
  })

  test('a penalty goes on under the new policy, with one token at its end', () => {
    const slow = policyOf(rate(1, SECOND, 5))
    const fast = policyOf(rate(100, SECOND))
    const state = newBucket(slow, NOW)
    penalize(slow, state, NOW + 10 * SECOND, NOW)
    expect(startsFrom(fast, adopt(slow, fast, state, NOW + SECOND), NOW + SECOND, 2)).toEqual([10, 10.01])
    const fastState = newBucket(fast, NOW)
    penalize(fast, fastState, NOW + 10 * SECOND, NOW)
    expect(startsFrom(slow, adopt(fast, slow, fastState, NOW + SECOND), NOW + SECOND, 2)).toEqual([10, 11])
    // A penalty that is over leaves its level, no matter which calls come after.
    expect(view(fast, adopt(slow, fast, state, NOW + 11 * SECOND), 0, NOW + 11 * SECOND).available).toBe(2)
  })

  test('a bucket under a policy that it has not adopted is refused, not admitted', () => {
    const window = newBucket(policyOf({ kind: 'sliding', max: 1, periodUs: SECOND }), NOW)
    expect(() => deniedUntil(policyOf(rate(1, SECOND)), window, 0, NOW, 1)).toThrow(TypeError)
    expect(() => charge(policyOf(rate(1, SECOND)), newBucket(policyOf(null), NOW), NOW, 1)).toThrow(TypeError)
  })
})

describe('debt', () => {
  test('a start heavier than a shrunken burst runs when the bucket is full, and the long-run rate holds', () => {
    const before = policyOf(rate(10, 10 * SECOND))
    const after = policyOf(rate(4, 4 * SECOND))
    const state = adopt(before, after, newBucket(before, NOW), NOW)
    charge(after, state, NOW, 1)
    expect(deniedUntil(after, state, 0, NOW, 8)).toBe(NOW + SECOND)
    charge(after, state, NOW + SECOND, 8)
    expect(view(after, state, 0, NOW + SECOND)).toMatchObject({ available: 0, debt: 4 })
    expect(deniedUntil(after, state, 0, NOW + SECOND, 1)).toBe(NOW + 6 * SECOND)
  })

  test.each([
    ['sliding', policyOf({ kind: 'sliding', max: 4, periodUs: 4 * SECOND })],
    ['fixed', policyOf({ kind: 'fixed', max: 4, window: { align: 'epoch', periodUs: 4 * SECOND }, guardUs: 0 })],
  ])('a %s window pays debt at its own pace', (_, policy) => {
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 10)
    expect(view(policy, state, 0, NOW)).toMatchObject({ available: 0, debt: 6 })
    expect(startsFrom(policy, state, NOW, 3)).toEqual([8, 8, 12])
  })

  test('a charge corrected up may go into debt, and a spacing knows none', () => {
    const policy = policyOf(rate(90_000, MINUTE))
    const state = newBucket(policy, NOW)
    charge(policy, state, NOW, 90_000)
    debit(policy, state, NOW, 1500)
    expect(view(policy, state, 0, NOW).debt).toBe(1500)
    expect(deniedUntil(policy, state, 0, NOW, 1)).toBe(NOW + SECOND + 667)
    const spacing = policyOf({ kind: 'spacing', everyUs: SECOND })
    const spaced = newBucket(spacing, NOW)
    debit(spacing, spaced, NOW, 5)
    expect(deniedUntil(spacing, spaced, 0, NOW, 1)).toBeNull()
  })
})

describe('a clock that went back', () => {
  test('nothing stays closed for longer than the limit’s own period', () => {
    fc.assert(
      fc.property(
        rules,
        steps(12),
        fc.integer({ min: 1, max: 7_200_000_000 }),
        fc.integer({ min: 1, max: 30 }),
        (rule, history, backUs, extra) => {
          const policy = policyOf(rule)
          const { state, nowUs } = play(policy, history)
          debit(policy, state, nowUs, extra)
          const atUs = nowUs - backUs
          const after = reclock(policy, state, atUs)
          const until = deniedUntil(policy, after, 0, atUs, 1) ?? atUs
          expect(until - atUs).toBeLessThanOrEqual(ownPeriodUs(rule))
          expect(view(policy, after, 0, atUs).available).toBeLessThanOrEqual(
            view(policy, state, 0, nowUs).available + unitsAtEdge(rule),
          )
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('a penalty lasts as long as it had to go, and a clock that went on changes nothing', () => {
    const policy = policyOf(rate(1, SECOND))
    const state = newBucket(policy, NOW)
    penalize(policy, state, NOW + 10 * SECOND, NOW)
    const back = reclock(policy, state, NOW - 100 * SECOND)
    expect(deniedUntil(policy, back, 0, NOW - 100 * SECOND, 1)).toBe(NOW - 90 * SECOND)
    expect(reclock(policy, state, NOW + 1)).toBe(state)
  })
})

describe('text that is no bucket', () => {
  test.each(['', '[]', '[1]', '{}', '[1,0,9,1]', '[1,0,1,2]', '["1",0]', '[1,0,2,0,0,5]'])('%s is refused', (text) => {
    expect(() => decodeBucket(text)).toThrow(expect.objectContaining({ code: 'store.io' }))
  })
})

function ownPeriodUs(rule: Rule): number {
  if (rule.kind === 'rate') return Math.ceil((rule.burst * rule.periodUs) / rule.rate) + 1
  if (rule.kind === 'spacing') return rule.everyUs
  if (rule.kind === 'sliding') return rule.periodUs
  return rule.window.align === 'epoch' ? rule.window.periodUs : Infinity
}

/** A fixed window's guard may close the end of a window that the step leaves. */
function unitsAtEdge(rule: Rule): number {
  return rule.kind === 'fixed' ? rule.max : 0
}
