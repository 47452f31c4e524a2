/** A bucket: the state of one limit for one partition key, and every question and change that its rules allow together. */
import { type Allowance, allowedAtUs, spend } from './allowance.ts'
import { type Booked, movedBack, noteBack, noteStart } from './booked.ts'
import { carryGuarantee, chargeGuarantee } from './guarantee.ts'
import { freePermits, type LimitPolicy } from './limit.ts'
import {
  adoptRule,
  capacityOf,
  debtOf,
  giveBack,
  grantable,
  grantUs,
  lastTakenUs,
  newRuleState,
  reclockRule,
  type RuleState,
  take,
  unitsInUse,
} from '../rules/rule-state.ts'
import {
  adoptSpacing,
  chargeSpacing,
  newSpacing,
  reclockSpacing,
  refundSpacing,
  type SpacingState,
} from '../rules/spacing.ts'
import {
  capAtOneToken,
  chargeRate,
  rateGrantUs,
  rateIsFull,
  reclockRate,
  type RateState,
} from '../rules/token-bucket.ts'

/** The stored state of a bucket: plain data. The store counts held permits from the jobs that hold them. */
export interface BucketState {
  /** The clock at the last change, in µs. */
  atUs: number
  /** The end of a penalty: nothing starts before. 0 or past: no penalty. */
  closedUntilUs: number
  /** Null for a limit without a rule over time. */
  rule: RuleState | null
  /** The state of a spacing beside the rule; absent: the limit has no spacing. */
  spacing?: SpacingState
  /** The remaining budget that the API reported; absent: no report, or it has expired. */
  allowance?: Allowance
  /** The state of the guaranteed starts; absent: the limit guarantees none, or they are unused. */
  guarantee?: RateState
  /** The starts that the limit in shadow mode would have refused; absent: none, or it is enforced. */
  shadow?: ShadowTally
  /** The starts that are booked and have not begun; absent: none. */
  booked?: Booked
}

/** The count of starts that a limit in shadow mode would have refused. */
export interface ShadowTally {
  /** Starts that it would have delayed. */
  delayed: number
  /** Starts that it would have refused for good, by `onLimit: 'drop'` or `maxWait`. */
  dropped: number
  /** The sum of the delays that are known, in µs. */
  totalUs: number
  /** The longest of them. */
  worstUs: number
}

/** The public view of a bucket. */
export interface BucketView {
  /** Whole units that may start now; at least 0. */
  readonly available: number
  /** Units taken beyond the bound, which later starts pay; at least 0. */
  readonly debt: number
  /** Units that may start back to back after a quiet time; Infinity: no bound. */
  readonly capacity: number
  /** The first instant at which one unit may start, now included; null: when a permit returns. */
  readonly nextAtUs: number | null
}

/** Creates an unused bucket. */
export function newBucket(policy: LimitPolicy, nowUs: number): BucketState {
  return {
    atUs: nowUs,
    closedUntilUs: 0,
    rule: policy.rule === null ? null : newRuleState(policy.rule, nowUs),
    ...(policy.spacing && { spacing: newSpacing(nowUs) }),
  }
}

/**
 * Returns until when a start of `weight` is denied if nothing else changes: the exact first µs that admits it. Null: it
 * is admitted now. Infinity: a permit must return first.
 *
 * @param active permits held now.
 * @param weight units; 0 waives the rule over time (a free retry), never permits or a penalty.
 * @param kept units and permits that must remain afterwards: the headroom, for a job that may not use it. A start that
 * could never leave as many is admitted when the bucket is full.
 */
export function deniedUntil(
  policy: LimitPolicy,
  state: BucketState,
  active: number,
  nowUs: number,
  weight: number,
  kept = 0,
): number | null {
  if (policy.mode === 'shadow') return state.closedUntilUs > nowUs ? state.closedUntilUs : null
  if (freePermits(policy.concurrency, active) <= kept) return Infinity
  const openUs = allowedAtUs(
    allowanceOf(state, nowUs),
    Math.max(nowUs, state.closedUntilUs, weight === 0 ? 0 : spacedUntilUs(policy, state)),
    weight === 0 ? 0 : weight + kept,
  )
  const { rule } = policy
  const grantedUs =
    rule === null || weight === 0 ? openUs : grantUs(rule, applyPenalty(policy, state), openUs, weight + kept)
  return grantedUs <= nowUs ? null : grantedUs
}

/**
 * Takes the units of a start; the caller has checked that they are there. A spacing counts one start, of any weight. A
 * weight of 0 takes nothing.
 * @param startUs the instant of a start granted ahead; it counts from then. The state stays as of the clock: penalties
 * and reports end by it, and a later load must not find it ahead of the clock.
 * @param active permits held before it: starts beyond the guaranteed permits leave a guarantee as it is.
 */
export function charge(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  weight: number,
  startUs: number = nowUs,
  active = 0,
): void {
  if (policy.mode === 'shadow') return takeUnits(policy, state, clockOf(policy, state, nowUs), weight)
  takeUnits(policy, state, nowUs, weight, startUs)
  noteStart(state, startUs)
  chargeGuarantee(policy, state, startUs, weight, active)
  if (policy.spacing && weight > 0) chargeSpacing(policy.spacing, (state.spacing ??= newSpacing(nowUs)), startUs)
}

/**
 * `deniedUntil` and `charge` in one for the most frequent start: a rate alone decides, and admits it now. False: it took
 * nothing, and those two decide.
 * @param weight at least 1
 */
export function takeAtOnce(policy: LimitPolicy, state: BucketState, nowUs: number, weight: number): boolean {
  const { rule } = policy
  if (rule?.kind !== 'rate' || policy.concurrency !== null || policy.spacing || policy.headroom) return false
  if (policy.of || policy.reserve || policy.mode === 'shadow') return false
  const { rule: bucket } = state
  if (bucket?.kind !== 'rate' || state.closedUntilUs !== 0 || state.allowance || state.booked) return false
  if (rateGrantUs(rule, bucket, weight) > nowUs) return false
  state.atUs = nowUs
  chargeRate(rule, bucket, nowUs, weight)
  return true
}

function takeUnits(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  weight: number,
  startUs: number = nowUs,
): void {
  touch(policy, state, nowUs)
  if (policy.rule !== null && weight > 0) take(policy.rule, ruleState(state), nowUs, weight, startUs)
  if (state.allowance) state.allowance = spend(state.allowance, Math.max(1, weight), startUs)
}

/** Gives back the units and the spacing of a start charged at `chargedAtUs` that did not happen. */
export function refund(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  weight: number,
  chargedAtUs: number,
): void {
  credit(policy, state, nowUs, weight, chargedAtUs)
  if (policy.spacing && state.spacing && weight > 0) refundSpacing(policy.spacing, state.spacing, chargedAtUs)
}

/**
 * Gives back units of a start taken at `chargedAtUs`, when its weight was too high. The bucket never gains more than if
 * they had not been taken. Units that cannot be told apart from later ones stay taken.
 */
export function credit(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  weight: number,
  chargedAtUs: number,
): void {
  const atUs = clockOf(policy, state, nowUs)
  touch(policy, state, atUs)
  // The units of a start in shadow mode were taken at the instant at which it would have begun.
  const takenAtUs = policy.mode === 'shadow' ? atUs : chargedAtUs
  const { rule } = policy
  if (rule !== null && weight > 0) noteBack(state, () => giveBack(rule, ruleState(state), atUs, weight, takenAtUs))
  if (state.allowance) state.allowance = spend(state.allowance, -weight, chargedAtUs)
}

/**
 * Takes further units of a start that cost more than its weight. The bucket may go into debt. A spacing counts starts
 * and stays as it is.
 */
export function debit(policy: LimitPolicy, state: BucketState, nowUs: number, units: number): void {
  if (policy.rule?.kind !== 'spacing') takeUnits(policy, state, clockOf(policy, state, nowUs), units)
}

/**
 * The bucket under a changed policy. The level keeps its fraction, and is cut at the new bound. Windows keep their log.
 * A rule of another kind is charged with the units in use. A penalty continues.
 */
export function adopt(from: LimitPolicy, to: LimitPolicy, state: BucketState, nowUs: number): BucketState {
  const guarantee = carryGuarantee(from, to, state, nowUs)
  const current = from.mode === 'shadow' && to.mode !== 'shadow' ? leaveShadow(from, state, nowUs) : state
  const next: BucketState = { ...adoptRules(from, to, current, nowUs), ...(guarantee && { guarantee }) }
  return current.booked ? { ...next, booked: movedBack(current.booked, current.rule, next.rule) } : next
}

/** The instant at which units are taken or given back. In shadow mode it is that of the last start, if that is later. */
function clockOf(policy: LimitPolicy, state: BucketState, nowUs: number): number {
  return policy.mode === 'shadow' ? Math.max(nowUs, state.atUs) : nowUs
}

/** The state at the clock: the queue of a limit in shadow mode is gone, and the bucket is as used up as at its end. */
function leaveShadow(policy: LimitPolicy, state: BucketState, nowUs: number): BucketState {
  const { shadow: _shadow, ...rest } = state
  return { ...reclock(policy, rest, nowUs), closedUntilUs: state.closedUntilUs }
}

function adoptRules(from: LimitPolicy, to: LimitPolicy, state: BucketState, nowUs: number): BucketState {
  const { spacing: _spacing, guarantee: _guarantee, ...next }: BucketState = { ...state, atUs: nowUs }
  touch(from, next, nowUs)
  const spacing = carrySpacing(from, to, { ...next, ...(state.spacing && { spacing: state.spacing }) }, nowUs)
  const beside = to.spacing && spacing ? { spacing } : {}
  if (to.rule === null) return { ...next, rule: null }
  // A spacing that was beside a rule and now stands alone keeps its state.
  if (to.rule.kind === 'spacing' && from.spacing && spacing) return { ...next, rule: spacing }
  if (from.rule !== null && sameRule(from.rule, to.rule)) return { ...next, ...beside }
  return { ...next, ...beside, rule: adoptRule(from.rule, to.rule, next.rule, nowUs) }
}

/**
 * The spacing's state under the changed policy. A new spacing counts units in use as one start now, like a rule of
 * another kind.
 */
function carrySpacing(from: LimitPolicy, to: LimitPolicy, state: BucketState, nowUs: number): SpacingState | null {
  const rule = to.spacing ?? (to.rule?.kind === 'spacing' ? to.rule : null)
  if (rule === null) return null
  if (from.spacing && state.spacing) return adoptSpacing(from.spacing, rule, state.spacing)
  const adopted = adoptRule(from.rule, rule, state.rule, nowUs)
  return adopted.kind === 'spacing' ? adopted : newSpacing(nowUs)
}

/** When a spacing beside the rule allows the next start. */
function spacedUntilUs({ spacing }: LimitPolicy, state: BucketState): number {
  return spacing && state.spacing ? state.spacing.nextUs : 0
}

/**
 * Closes the bucket until `untilUs`, or longer if it is already closed for longer. A rate then holds exactly one token.
 */
export function penalize(policy: LimitPolicy, state: BucketState, untilUs: number, nowUs: number): void {
  if (policy.mode !== 'shadow') touch(policy, state, nowUs)
  if (untilUs > nowUs) state.closedUntilUs = Math.max(state.closedUntilUs, untilUs)
}

/**
 * Whether a penalty is worth reporting: the bucket was open, or its remaining penalty grows by over a tenth. One
 * refusal hits several calls, which report slightly later times one by one.
 */
export function extendsPenalty(state: BucketState, untilUs: number, nowUs: number): boolean {
  if (untilUs <= nowUs) return false
  const leftUs = Math.max(0, state.closedUntilUs - nowUs)
  return untilUs - nowUs > leftUs * 1.1
}

/** Returns the public view of a bucket. */
export function view(policy: LimitPolicy, state: BucketState, active: number, nowUs: number): BucketView {
  const { rule } = policy
  const next = deniedUntil(policy, state, active, nowUs, 1)
  const atUs = clockOf(policy, state, nowUs)
  const capacity = rule === null ? (policy.concurrency ?? Infinity) : capacityOf(rule)
  const debt = rule === null ? 0 : debtOf(rule, ruleState(state), lastTakenUs(rule, ruleState(state), atUs))
  return {
    available: Math.min(unitsFor(policy, state, active, atUs), capacity),
    debt,
    capacity,
    nextAtUs: next === Infinity ? null : (next ?? nowUs),
  }
}

/** The number of starts of weight 1 that the bucket admits now. */
export function couldGrant(policy: LimitPolicy, state: BucketState, active: number, nowUs: number): number {
  if (policy.mode === 'shadow') return state.closedUntilUs > nowUs ? 0 : Infinity
  return Math.min(unitsFor(policy, state, active, nowUs), policy.spacing ? 1 : Infinity)
}

/** Units that one start may take at this instant. */
function unitsFor(policy: LimitPolicy, state: BucketState, active: number, nowUs: number): number {
  if (state.closedUntilUs > nowUs || spacedUntilUs(policy, state) > nowUs) return 0
  const allowed = allowanceOf(state, nowUs)?.units ?? Infinity
  const permits = Math.min(freePermits(policy.concurrency, active), allowed)
  if (policy.rule === null || permits === 0) return permits
  return Math.min(permits, grantable(policy.rule, applyPenalty(policy, state), nowUs))
}

/** Whether the bucket will behave like a new one, so that it may be deleted. Never under `startEmpty`. */
export function isCold(policy: LimitPolicy, state: BucketState, active: number, nowUs: number): boolean {
  if (active > 0 || state.closedUntilUs > nowUs || allowanceOf(state, nowUs) || state.shadow) return false
  if (state.booked && state.booked.untilUs > nowUs) return false
  if (spacedUntilUs(policy, state) > nowUs || (state.guarantee && !rateIsFull(state.guarantee, nowUs))) return false
  const { rule } = policy
  if (rule === null) return true
  if (rule.kind === 'rate' && rule.startEmpty) return false
  const current = applyPenalty(policy, state)
  if (current.kind === 'rate') return rateIsFull(current, nowUs)
  if (current.kind === 'fixed' && current.next) return false
  return unitsInUse(rule, current, nowUs) === 0
}

/**
 * The bucket after the clock went back to before its last change: its old state at the new time. At least that much
 * time has passed, so no units come for free. No bucket stays closed for longer than the limit's own period.
 */
export function reclock(policy: LimitPolicy, state: BucketState, nowUs: number): BucketState {
  const byUs = state.atUs - nowUs
  if (byUs <= 0) return state
  const closedUntilUs = state.closedUntilUs === 0 ? 0 : state.closedUntilUs - byUs
  const { rule } = policy
  const { allowance: known, booked } = state
  return {
    atUs: nowUs,
    closedUntilUs,
    rule: rule === null ? null : reclockRule(rule, ruleState(state), byUs, nowUs),
    ...(policy.spacing && state.spacing && { spacing: reclockSpacing(policy.spacing, state.spacing, byUs, nowUs) }),
    ...(known && { allowance: { ...known, untilUs: known.untilUs - byUs, sinceUs: known.sinceUs - byUs } }),
    ...(policy.of?.rule && state.guarantee && { guarantee: reclockRate(policy.of.rule, state.guarantee, byUs, nowUs) }),
    ...(booked && { booked: { ...booked, startedUs: booked.startedUs - byUs, untilUs: booked.untilUs - byUs } }),
  }
}

/** The rule's state after a finished penalty; without a penalty the same object. */
function applyPenalty(policy: LimitPolicy, state: BucketState): RuleState {
  const current = ruleState(state)
  if (state.closedUntilUs === 0 || policy.rule?.kind !== 'rate' || current.kind !== 'rate') return current
  const copy: RateState = { ...current }
  capAtOneToken(policy.rule, copy, state.closedUntilUs)
  return copy
}

/** Notes the time of a change, and applies a penalty that is over. */
export function touch(policy: LimitPolicy, state: BucketState, nowUs: number): void {
  state.atUs = nowUs
  if (state.allowance && state.allowance.untilUs <= nowUs) delete state.allowance
  if (state.booked && state.booked.untilUs <= nowUs) delete state.booked
  if (state.closedUntilUs === 0 || state.closedUntilUs > nowUs) return
  if (policy.rule !== null) state.rule = applyPenalty(policy, state)
  state.closedUntilUs = 0
}

function allowanceOf({ allowance }: BucketState, nowUs: number): Allowance | undefined {
  return allowance && allowance.untilUs > nowUs ? allowance : undefined
}

/** The state of a policy's rule. It throws a TypeError if the policy has no rule. */
export function ruleState(state: BucketState): RuleState {
  if (state.rule === null)
    throw new TypeError('a bucket without a rule was read under a policy with one; adopt it first')
  return state.rule
}

function sameRule(from: NonNullable<LimitPolicy['rule']>, to: NonNullable<LimitPolicy['rule']>): boolean {
  return from === to || JSON.stringify(from) === JSON.stringify(to)
}
