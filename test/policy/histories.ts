import * as fc from '../properties.ts'
import { charge, deniedUntil, newBucket, type BucketState } from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'

// The same histories in every run, unless asked for others.
export const SEED: number = Number(process.env['SEED'] ?? 20_260_101)
fc.configureGlobal({ seed: SEED })

/** 2026-01-01, in µs: state is that of real clocks, with sixteen digits. */
export const EPOCH_US = 1_767_225_600_000_000

export function policyOf(rule: Rule | null, more: Partial<LimitPolicy> = {}): LimitPolicy {
  return { rule, concurrency: null, onLimit: 'wait', maxWaitUs: null, retries: 'charge', ...more }
}

export function rate(rate: number, periodUs: number, burst: number = rate, startEmpty = false): Rule {
  return { kind: 'rate', rate, periodUs, burst, startEmpty }
}

export const SECOND = 1_000_000

/** One step of a history: wait, then try a start. */
export interface Step {
  gapUs: number
  weight: number
  /** Denied, it waits until it is granted; else it gives up. */
  patient: boolean
}

export interface Start {
  atUs: number
  weight: number
}

const small = fc.integer({ min: 1, max: 12 })
const period = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1000, max: 10_000_000 }))

export const rateRules: fc.Arbitrary<Rule> = fc.record({
  kind: fc.constant('rate' as const),
  rate: fc.oneof(small, fc.integer({ min: 1, max: 1_000_000_000 })),
  periodUs: period,
  burst: small,
  startEmpty: fc.boolean(),
})
export const slidingRules: fc.Arbitrary<Rule> = fc.record({
  kind: fc.constant('sliding' as const),
  max: small,
  periodUs: period,
})
export const fixedRules: fc.Arbitrary<Rule> = fc
  .record({ max: small, periodUs: period, guard: fc.integer({ min: 0, max: 50 }) })
  .map(({ max, periodUs, guard }) => ({
    kind: 'fixed' as const,
    max,
    window: { align: 'epoch' as const, periodUs },
    guardUs: Math.floor((periodUs * guard) / 100),
  }))
export const spacingRules: fc.Arbitrary<Rule> = period.map((everyUs) => ({ kind: 'spacing' as const, everyUs }))
export const rules: fc.Arbitrary<Rule> = fc.oneof(rateRules, slidingRules, fixedRules, spacingRules)

/** Steps whose gaps are of the size of the rule's own times, so that bounds are met and not only passed by. */
export function steps(maxWeight: number): fc.Arbitrary<Step[]> {
  return fc.array(
    fc.record({
      gapUs: fc.oneof(
        { weight: 4, arbitrary: fc.constant(0) },
        fc.integer({ min: 0, max: 3 }),
        fc.integer({ min: 0, max: 300 }),
        fc.integer({ min: 0, max: 5_000_000 }),
      ),
      weight: fc.integer({ min: 1, max: maxWeight }),
      patient: fc.boolean(),
    }),
    { maxLength: 40 },
  )
}

export function capacity(rule: Rule): number {
  if (rule.kind === 'rate') return rule.burst
  return rule.kind === 'spacing' ? 1 : rule.max
}

/** Plays a history and answers the starts that were granted, at the state it ends in. */
export function play(
  policy: LimitPolicy,
  history: readonly Step[],
): { starts: Start[]; state: BucketState; nowUs: number } {
  const starts: Start[] = []
  let nowUs = EPOCH_US
  const state = newBucket(policy, nowUs)
  for (const { gapUs, weight, patient } of history) {
    nowUs += gapUs
    const units = policy.rule === null ? weight : Math.min(weight, capacity(policy.rule))
    const until = deniedUntil(policy, state, 0, nowUs, units)
    if (until !== null && !patient) continue
    nowUs = until ?? nowUs
    charge(policy, state, nowUs, units)
    starts.push({ atUs: nowUs, weight: units })
  }
  return { starts, state, nowUs }
}

/** The first half-open interval in which starts exceed what a rule allows; null: none. */
export function firstExcess(rule: Rule, starts: readonly Start[]): string | null {
  for (let i = 0; i < starts.length; i++) {
    let units = 0
    for (let j = i; j < starts.length; j++) {
      const from = starts[i]!.atUs
      const to = starts[j]!.atUs
      units += starts[j]!.weight
      if (!within(rule, from, to, units, j - i + 1)) return `${units} units in [${from - EPOCH_US}, ${to - EPOCH_US}]`
    }
  }
  return null
}

/** Whether `units` in `count` starts from `from` to `to`, both included, keep to the rule. */
function within(rule: Rule, from: number, to: number, units: number, count: number): boolean {
  if (rule.kind === 'rate') {
    // The least half-open interval that holds both ends is one microsecond longer than their distance.
    const allowed = BigInt(rule.burst) * BigInt(rule.periodUs) + BigInt(rule.rate) * BigInt(to - from + 1)
    return BigInt(units) * BigInt(rule.periodUs) <= allowed
  }
  if (rule.kind === 'sliding') return to - from >= rule.periodUs || units <= rule.max
  if (rule.kind === 'spacing') return count < 2 || to - from >= (count - 1) * rule.everyUs
  if (rule.window.align !== 'epoch') throw new Error('calendar windows have tests of their own')
  const { periodUs } = rule.window
  return Math.floor(from / periodUs) !== Math.floor(to / periodUs) || units <= rule.max
}
