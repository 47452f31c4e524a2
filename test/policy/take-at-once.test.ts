import { expect, it } from 'vitest'
import {
  type BucketState,
  charge,
  debit,
  deniedUntil,
  newBucket,
  penalize,
  takeAtOnce,
} from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import * as fc from '../properties.ts'
import { EPOCH_US, policyOf, rate, rateRules, rules, steps } from './histories.ts'

const more: fc.Arbitrary<Partial<LimitPolicy>> = fc.constantFrom<Partial<LimitPolicy>>(
  {},
  {},
  { concurrency: 3 },
  { spacing: { kind: 'spacing', everyUs: 200 } },
  { mode: 'shadow' },
)
const bothRules = fc.oneof({ weight: 4, arbitrary: rateRules }, rules)
const actions = fc.array(fc.constantFrom('start', 'start', 'start', 'penalty', 'debit'), {
  minLength: 40,
  maxLength: 40,
})

it('a start that is taken at once leaves the bucket as a check and a charge do', () => {
  let taken = 0
  fc.assert(
    fc.property(bothRules, more, steps(4), actions, (rule, beside, history, kinds) => {
      const policy = policyOf(rule, beside)
      const quick = newBucket(policy, EPOCH_US)
      const usual = newBucket(policy, EPOCH_US)
      let nowUs = EPOCH_US
      for (const [i, { gapUs, weight }] of history.entries()) {
        nowUs += gapUs
        const change = (state: BucketState): void => {
          if (kinds[i] === 'penalty') penalize(policy, state, nowUs + gapUs, nowUs)
          if (kinds[i] === 'debit') debit(policy, state, nowUs, weight)
        }
        change(quick)
        change(usual)
        const isAdmitted = deniedUntil(policy, usual, 0, nowUs, weight) === null
        if (takeAtOnce(policy, quick, nowUs, weight)) {
          taken++
          expect(isAdmitted).toBe(true)
        } else if (isAdmitted) charge(policy, quick, nowUs, weight)
        if (isAdmitted) charge(policy, usual, nowUs, weight)
        expect(quick).toEqual(usual)
      }
    }),
    { numRuns: 500 },
  )
  expect(taken).toBeGreaterThan(100)
})

it('headroom, a reserve, a report or a booked start leaves the decision to the check', () => {
  const rule = rate(10, 1_000_000)
  const beside: Partial<LimitPolicy>[] = [{ headroom: { units: 1, priority: 1 } }, { reserve: 1 }]
  for (const each of beside) {
    const policy = policyOf(rule, each)
    expect(takeAtOnce(policy, newBucket(policy, EPOCH_US), EPOCH_US, 1)).toBe(false)
  }
  const policy = policyOf(rule)
  const states: Partial<BucketState>[] = [
    { allowance: { units: 5, untilUs: EPOCH_US + 10, sinceUs: EPOCH_US } },
    { booked: { lateUs: 0, backUs: 0, startedUs: 0, count: 1, untilUs: EPOCH_US + 10 } },
  ]
  for (const each of states)
    expect(takeAtOnce(policy, { ...newBucket(policy, EPOCH_US), ...each }, EPOCH_US, 1)).toBe(false)
})
