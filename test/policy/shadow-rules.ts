import * as fc from '../properties.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { fixedRules, rate, slidingRules } from './histories.ts'

/** Rules of every kind. */
export const rules: fc.Arbitrary<Rule> = fc.oneof(
  fc
    .record({ rate: fc.integer({ min: 1, max: 9 }), burst: fc.integer({ min: 1, max: 9 }) })
    .map((each) => rate(each.rate, 1_000_000, each.burst)),
  slidingRules,
  fixedRules,
  fc.integer({ min: 1, max: 500_000 }).map((everyUs): Rule => ({ kind: 'spacing', everyUs })),
)
