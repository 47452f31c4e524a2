/** The rules over time behind one face: what `bucket.ts` asks of whichever rule a limit has. */
import {
  adoptFixed,
  chargeFixed,
  fixedGrantUs,
  fixedInUse,
  type FixedState,
  newFixed,
  reclockFixed,
  refundFixed,
} from './fixed-window.ts'
import type { Rule } from './rule.ts'
import {
  adoptSliding,
  chargeSliding,
  newSliding,
  reclockSliding,
  refundSliding,
  slidingDebt,
  slidingGrantUs,
  slidingInUse,
  type SlidingState,
} from './sliding-window.ts'
import { adoptSpacing, chargeSpacing, newSpacing, reclockSpacing, refundSpacing, type SpacingState } from './spacing.ts'
import {
  adoptRate,
  chargeRate,
  newRate,
  rateAvailable,
  rateGrantUs,
  rateInUse,
  type RateState,
  reclockRate,
  refundRate,
} from './token-bucket.ts'

/** The state of a rule over time. */
export type RuleState = RateState | SlidingState | FixedState | SpacingState

/** Creates the state of an unused rule. */
export function newRuleState(rule: Rule, nowUs: number): RuleState {
  if (rule.kind === 'rate') return newRate(rule, nowUs)
  if (rule.kind === 'sliding') return newSliding()
  if (rule.kind === 'fixed') return newFixed(rule, nowUs)
  return newSpacing(nowUs)
}

/** The first µs from `nowUs` at which the rule grants `weight` units, if nothing is taken before. */
export function grantUs(rule: Rule, state: RuleState, nowUs: number, weight: number): number {
  if (rule.kind === 'rate' && state.kind === 'rate') return Math.max(nowUs, rateGrantUs(rule, state, weight))
  if (rule.kind === 'sliding' && state.kind === 'sliding') return Math.max(nowUs, slidingGrantUs(rule, state, weight))
  if (rule.kind === 'fixed' && state.kind === 'fixed') return fixedGrantUs(rule, state, nowUs, weight)
  if (state.kind === 'spacing') return Math.max(nowUs, state.nextUs)
  return mismatch(rule, state)
}

/** Takes units at `startUs`, the clock's instant or a later one, without asking whether there are enough. */
export function take(rule: Rule, state: RuleState, nowUs: number, weight: number, startUs: number = nowUs): void {
  if (rule.kind === 'rate' && state.kind === 'rate') chargeRate(rule, state, startUs, weight)
  else if (rule.kind === 'sliding' && state.kind === 'sliding') chargeSliding(rule, state, nowUs, weight, startUs)
  else if (rule.kind === 'fixed' && state.kind === 'fixed') chargeFixed(rule, state, nowUs, weight, startUs)
  else if (rule.kind === 'spacing' && state.kind === 'spacing') chargeSpacing(rule, state, startUs)
  else mismatch(rule, state)
}

/**
 * The clock, or up to the last instant at which units were taken ahead of it. As of the clock they would look like debt.
 */
export function lastTakenUs(rule: Rule, state: RuleState, nowUs: number): number {
  if (rule.kind === 'rate' && state.kind === 'rate')
    return Math.max(nowUs, Math.min(state.lastUs, rateGrantUs(rule, state, 0)))
  return state.kind === 'sliding' ? Math.max(nowUs, state.log.at(-2) ?? nowUs) : nowUs
}

/** Gives units back that were taken at `chargedAtUs`. */
export function giveBack(rule: Rule, state: RuleState, nowUs: number, weight: number, chargedAtUs: number): void {
  if (rule.kind === 'rate' && state.kind === 'rate') refundRate(rule, state, weight, chargedAtUs)
  else if (rule.kind === 'sliding' && state.kind === 'sliding') refundSliding(rule, state, nowUs, weight, chargedAtUs)
  else if (rule.kind === 'fixed' && state.kind === 'fixed') refundFixed(rule, state, weight, chargedAtUs)
  else if (rule.kind === 'spacing' && state.kind === 'spacing') refundSpacing(rule, state, chargedAtUs)
  else mismatch(rule, state)
}

/** The units in use at `nowUs`, debt included; for a spacing 1 or 0. */
export function unitsInUse(rule: Rule, state: RuleState, nowUs: number): number {
  if (rule.kind === 'rate' && state.kind === 'rate') return rateInUse(rule, state, nowUs)
  if (rule.kind === 'sliding' && state.kind === 'sliding') return slidingInUse(rule, state, nowUs)
  if (rule.kind === 'fixed' && state.kind === 'fixed') return fixedInUse(rule, state, nowUs)
  if (state.kind === 'spacing') return state.nextUs > nowUs ? 1 : 0
  return mismatch(rule, state)
}

/** Units that were taken beyond the rule's bound. */
export function debtOf(rule: Rule, state: RuleState, nowUs: number): number {
  // A lowered bound may leave more units in a window than it allows. They are not a debt.
  if (rule.kind === 'sliding' && state.kind === 'sliding') return slidingDebt(rule, state, nowUs)
  if (rule.kind === 'spacing') return 0
  return Math.max(0, unitsInUse(rule, state, nowUs) - capacityOf(rule))
}

/** The starts of weight 1 that the rule grants at `nowUs`, without other bounds. */
export function grantable(rule: Rule, state: RuleState, nowUs: number): number {
  if (grantUs(rule, state, nowUs, 1) > nowUs) return 0
  if (rule.kind === 'rate' && state.kind === 'rate') return rateAvailable(rule, state, nowUs)
  return capacityOf(rule) - unitsInUse(rule, state, nowUs)
}

/** The most that starts back to back after a quiet time. */
export function capacityOf(rule: Rule): number {
  if (rule.kind === 'rate') return rule.burst
  return rule.kind === 'spacing' ? 1 : rule.max
}

/** The state under another rule. Used units carry over, so none come for free. */
export function adoptRule(from: Rule | null, to: Rule, state: RuleState | null, nowUs: number): RuleState {
  if (from === null || state === null) return newRuleState(to, nowUs)
  const lastUs = lastTakenUs(from, state, nowUs)
  if (from.kind === 'rate' && to.kind === 'rate' && state.kind === 'rate') return adoptRate(from, to, state, lastUs)
  if (from.kind === 'sliding' && to.kind === 'sliding' && state.kind === 'sliding')
    return adoptSliding(from, to, state, nowUs)
  if (from.kind === 'fixed' && to.kind === 'fixed' && state.kind === 'fixed') return adoptFixed(from, to, state, nowUs)
  if (from.kind === 'spacing' && to.kind === 'spacing' && state.kind === 'spacing') return adoptSpacing(from, to, state)
  const debt = debtOf(from, state, lastUs)
  const used = Math.min(unitsInUse(from, state, lastUs) - debt, capacityOf(to)) + debt
  const next = newRuleState(to, lastUs)
  const missing = used - unitsInUse(to, next, lastUs)
  if (missing > 0) take(to, next, lastUs, missing)
  return next
}

/** The state after the clock went back by `byUs`: nothing stays closed for longer than the rule's own period. */
export function reclockRule(rule: Rule, state: RuleState, byUs: number, nowUs: number): RuleState {
  if (rule.kind === 'rate' && state.kind === 'rate') return reclockRate(rule, state, byUs, nowUs)
  if (rule.kind === 'sliding' && state.kind === 'sliding') return reclockSliding(state, byUs, nowUs)
  if (rule.kind === 'fixed' && state.kind === 'fixed') return reclockFixed(rule, state, nowUs)
  if (rule.kind === 'spacing' && state.kind === 'spacing') return reclockSpacing(rule, state, byUs, nowUs)
  return mismatch(rule, state)
}

function mismatch(rule: Rule, state: RuleState): never {
  throw new TypeError(`a bucket of kind ${state.kind} was read under a rule of kind ${rule.kind}; adopt it first`)
}
