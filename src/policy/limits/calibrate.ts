import { noteBack } from './booked.ts'
import { applyReport, type BudgetReport } from './allowance.ts'
import { type BucketState, ruleState, touch } from './bucket.ts'
import type { LimitPolicy } from './limit.ts'
import { capacityOf, lastTakenUs, newRuleState, take, unitsInUse } from '../rules/rule-state.ts'

/** Whether a report changed a bucket, and whether to announce it: `news`. */
export type Correction = 'no' | 'yes' | 'news'

/**
 * Applies an API's report: at most `remaining` units start before `resetUs`, and never more than the policy allows.
 * `news`: the bucket had no such bound before.
 */
export function calibrate(policy: LimitPolicy, state: BucketState, report: BudgetReport, nowUs: number): Correction {
  touch(policy, state, nowUs)
  const known = state.allowance
  const next = applyReport(known, report, policy.rule, state.rule, nowUs)
  if (next) state.allowance = next
  return next === known ? 'no' : known ? 'yes' : 'news'
}

/**
 * Sets a bucket's level to the units that the API reports. `down` takes surplus units out. `up` refills missing units,
 * at most to the capacity. A spacing counts starts and has no level. `news`: the level changes by at least a tenth of
 * the capacity.
 */
export function setLevel(
  policy: LimitPolicy,
  state: BucketState,
  remaining: number,
  directions: { readonly down: boolean; readonly up: boolean },
  nowUs: number,
): Correction {
  touch(policy, state, nowUs)
  const { rule } = policy
  if (rule === null || rule.kind === 'spacing') return 'no'
  const capacity = capacityOf(rule)
  const reported = Math.min(remaining, capacity)
  const lastUs = lastTakenUs(rule, ruleState(state), nowUs)
  const here = capacity - unitsInUse(rule, ruleState(state), lastUs)
  if (here > reported && directions.down) take(rule, ruleState(state), nowUs, here - reported)
  else if (here < reported && directions.up) {
    const fresh = newRuleState(rule.kind === 'rate' ? { ...rule, startEmpty: false } : rule, lastUs)
    if (reported < capacity) take(rule, fresh, lastUs, capacity - reported)
    noteBack(state, () => (state.rule = fresh))
  } else return 'no'
  return Math.abs(here - reported) * 10 >= capacity ? 'news' : 'yes'
}
