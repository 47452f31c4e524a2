import { describe, expect, it } from 'vitest'
import * as fc from '../properties.ts'
import {
  adopt,
  type BucketState,
  charge,
  deniedUntil,
  isCold,
  newBucket,
  refund,
  view,
} from '../../src/policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { isNear } from '../../src/policy/rules/fixed-window.ts'
import { sized } from '../sized.ts'
import { capacity, EPOCH_US, firstExcess, policyOf, rate, SECOND, type Start } from './histories.ts'

const AHEAD_US = 20_000
const period = fc.integer({ min: 1000, max: 100_000 })
const max = fc.integer({ min: 1, max: 6 })
const rules: fc.Arbitrary<Rule> = fc.oneof(
  fc.record({ kind: fc.constant('rate' as const), rate: max, periodUs: period, burst: max, startEmpty: fc.boolean() }),
  fc.record({ kind: fc.constant('sliding' as const), max, periodUs: period }),
  fc
    .record({ max, periodUs: fc.integer({ min: 10_000, max: 100_000 }), guardUs: fc.integer({ min: 0, max: 5000 }) })
    .map((each): Rule => ({
      kind: 'fixed',
      max: each.max,
      window: { align: 'epoch', periodUs: each.periodUs },
      guardUs: each.guardUs,
    })),
  period.map((everyUs) => ({ kind: 'spacing' as const, everyUs })),
)

/** One step: the clock moves, then a start is granted now or ahead, or held starts go back, the last first. */
type Step =
  | { readonly kind: 'start'; readonly gapUs: number; readonly weight: number; readonly laterUs: number }
  | { readonly kind: 'back'; readonly gapUs: number; readonly count: number }

const gap = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 12_000 }), fc.integer({ min: 0, max: 60_000 }))
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('start' as const),
        gapUs: gap,
        weight: fc.integer({ min: 1, max: 3 }),
        laterUs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: AHEAD_US })),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('back' as const),
        gapUs: gap,
        count: fc.integer({ min: 1, max: 5 }),
      }),
    },
  ),
  { maxLength: 60 },
)

/** Plays starts of several claimers, at the clock or ahead of it, and returns those that happened. */
function play(policy: LimitPolicy, history: readonly Step[]): { starts: Start[]; ahead: number } {
  let nowUs = EPOCH_US
  let state = newBucket(policy, nowUs)
  let starts: Start[] = []
  let ahead = 0
  for (const step of history) {
    nowUs += step.gapUs
    // As a store keeps it.
    state = decodeBucket(encodeBucket(state))
    if (step.kind === 'back') {
      const held = starts.filter(({ atUs }) => atUs > nowUs).sort((a, b) => b.atUs - a.atUs)
      const back = held.slice(0, step.count)
      for (const { atUs, weight } of back) refund(policy, state, nowUs, weight, atUs)
      starts = starts.filter((start) => !back.includes(start))
      continue
    }
    const weight = policy.rule ? Math.min(step.weight, capacity(policy.rule)) : step.weight
    // Another bucket of the job may set a later instant.
    const atUs = deniedUntil(policy, state, 0, nowUs + step.laterUs, weight) ?? nowUs + step.laterUs
    if (atUs > nowUs + AHEAD_US) continue
    if (atUs > nowUs && policy.rule?.kind === 'fixed' && !isNear(policy.rule, nowUs, atUs)) continue
    charge(policy, state, nowUs, weight, atUs)
    expect(state.atUs).toBe(nowUs)
    if (atUs > nowUs) ahead++
    starts.push({ atUs, weight })
    expect(isCold(policy, state, 0, nowUs) && atUs > nowUs).toBe(false)
  }
  return { starts: starts.sort((a, b) => a.atUs - b.atUs), ahead }
}

describe('starts charged at instants ahead of the clock', () => {
  it('never exceed the rule, in any order and with give-backs between', () => {
    let ahead = 0
    fc.assert(
      fc.property(rules, steps, (rule, history) => {
        const played = play(policyOf(rule), history)
        ahead += played.ahead
        expect(firstExcess(rule, played.starts)).toBe(null)
      }),
      { numRuns: sized(2000, 200_000) },
    )
    expect(ahead).toBeGreaterThan(1000)
  })

  it('keep to a rule and to the spacing beside it', () => {
    fc.assert(
      fc.property(rules, period, steps, (rule, everyUs, history) => {
        if (rule.kind === 'spacing') return
        const spacing = { kind: 'spacing' as const, everyUs }
        const { starts } = play(policyOf(rule, { spacing }), history)
        expect(firstExcess(rule, starts)).toBe(null)
        expect(firstExcess(spacing, starts)).toBe(null)
      }),
      { numRuns: sized(500, 50_000) },
    )
  })

  it('leave no unit behind when all of them go back, the last first', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          period.map((everyUs): Rule => ({ kind: 'spacing', everyUs })),
          period.map((periodUs) => rate(1, periodUs, 1)),
          fc.tuple(max, period).map(([each, periodUs]) => rate(each, periodUs, 1)),
        ),
        fc.integer({ min: 1, max: 20 }),
        (rule, count) => {
          const policy = policyOf(rule)
          const state = newBucket(policy, EPOCH_US)
          charge(policy, state, EPOCH_US, 1)
          const nextUs = deniedUntil(policy, state, 0, EPOCH_US, 1)!
          const held: number[] = []
          for (let i = 0; i < count; i++) {
            const atUs = deniedUntil(policy, state, 0, EPOCH_US, 1)!
            charge(policy, state, EPOCH_US, 1, atUs)
            held.push(atUs)
          }
          for (const atUs of held.reverse()) refund(policy, state, EPOCH_US + 1, 1, atUs)
          expect(deniedUntil(policy, state, 0, EPOCH_US + 1, 1)).toBe(nextUs)
        },
      ),
      { numRuns: sized(500, 20_000) },
    )
  })
})

/** A bucket of 1,000 per second, burst 1, of which 20 starts are held. */
function held20(policy: LimitPolicy): BucketState {
  const state = newBucket(policy, EPOCH_US)
  for (let i = 0; i < 20; i++) charge(policy, state, EPOCH_US, 1, EPOCH_US + 1000 * i)
  return state
}

describe('a bucket with held starts', () => {
  const fast = policyOf(rate(1000, SECOND, 1))
  const slow = policyOf(rate(10, SECOND, 1))

  it('shows no debt', () => {
    expect(view(fast, held20(fast), 0, EPOCH_US)).toMatchObject({ debt: 0, available: 0 })
  })

  it('waits for one interval of a slower rate, not for one of each held start', () => {
    const adopted = adopt(fast, slow, held20(fast), EPOCH_US)
    expect(deniedUntil(slow, adopted, 0, EPOCH_US, 1)).toBe(EPOCH_US + 19_000 + 100_000)
  })

  it('counts a faster rate from its last held start', () => {
    const state = newBucket(slow, EPOCH_US)
    charge(slow, state, EPOCH_US, 1)
    charge(slow, state, EPOCH_US + 90_000, 1, EPOCH_US + 100_000)
    const adopted = adopt(slow, fast, state, EPOCH_US + 90_000)
    expect(deniedUntil(fast, adopted, 0, EPOCH_US + 90_000, 1)).toBe(EPOCH_US + 101_000)
  })

  it('keeps its spacing under another interval', () => {
    const every = (everyUs: number): LimitPolicy => policyOf({ kind: 'spacing', everyUs })
    const state = newBucket(every(1000), EPOCH_US)
    for (let i = 0; i < 20; i++) charge(every(1000), state, EPOCH_US, 1, EPOCH_US + 1000 * i)
    const adopted = adopt(every(1000), every(100_000), state, EPOCH_US)
    expect(deniedUntil(every(100_000), adopted, 0, EPOCH_US, 1)).toBe(EPOCH_US + 119_000)
  })
})

describe('a fixed window', () => {
  const rule: Rule = { kind: 'fixed', max: 16, window: { align: 'epoch', periodUs: SECOND }, guardUs: 0 }
  const policy = policyOf(rule)
  const edgeUs = EPOCH_US + SECOND

  it('counts the window that runs and the next one apart', () => {
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 10; i++) charge(policy, state, edgeUs - 10_000, 1)
    for (let i = 0; i < 16; i++) charge(policy, state, edgeUs - 10_000, 1, edgeUs + i)
    expect(deniedUntil(policy, state, 0, edgeUs - 9000, 6)).toBe(null)
    expect(deniedUntil(policy, state, 0, edgeUs - 9000, 7)).toBe(edgeUs + SECOND)
    expect(deniedUntil(policy, decodeBucket(encodeBucket(state)), 0, edgeUs, 1)).toBe(edgeUs + SECOND)
  })

  it('does not forget what the running window has used when a start of the next one goes back', () => {
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 15; i++) charge(policy, state, edgeUs - 10_000, 1)
    charge(policy, state, edgeUs - 10_000, 1, edgeUs)
    refund(policy, state, edgeUs - 9000, 1, edgeUs)
    expect(view(policy, state, 0, edgeUs - 9000).available).toBe(1)
    expect(view(policy, state, 0, edgeUs).available).toBe(16)
  })

  it('carries what was taken in its next window over to other windows', () => {
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 16; i++) charge(policy, state, edgeUs - 10_000, 1, edgeUs)
    const wide = policyOf({ ...rule, window: { align: 'epoch', periodUs: 3600 * SECOND } })
    const adopted = adopt(policy, wide, state, edgeUs - 9000)
    expect(view(wide, adopted, 0, edgeUs - 9000).available).toBe(0)
    const same = adopt(policy, policyOf({ ...rule, max: 20 }), state, edgeUs - 9000)
    expect(view(policyOf({ ...rule, max: 20 }), same, 0, edgeUs).available).toBe(4)
  })
})
