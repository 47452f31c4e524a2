/**
 * Booked starts while rules change. The stored state is of the rules before the end of an override. So the units of a
 * start after it are taken such that the bucket at the end is as if the rules after it had counted them. A start that is
 * given back leaves no more than if it had not been booked.
 */
import { LATEST_US } from '../rules/exact.ts'
import { adoptRate, chargeRate, newRate, rateGrantUs, type RateState } from '../rules/token-bucket.ts'
import type { RateRule } from '../rules/rule.ts'
import type { RuleState } from '../rules/rule-state.ts'
import { chargeSliding, newSliding } from '../rules/sliding-window.ts'
import { adoptSpacing, refundSpacing } from '../rules/spacing.ts'
import { spend } from './allowance.ts'
import type { Charged } from './booked-start.ts'
import { type BucketState, charge, credit, refund, touch } from './bucket.ts'
import { decodeBucket, encodeBucket } from './bucket-codec.ts'
import type { LimitPolicy } from './limit.ts'
import { afterEnd, type OpeningBucket } from './opening.ts'
import type { Timeline } from './timeline.ts'

/** The ends of overrides before a start. */
export interface Ends {
  readonly lastUs: number
  /** Each end, with the policy before it. */
  readonly each: readonly { readonly endsUs: number; readonly before: LimitPolicy }[]
  /** The bucket at the last of them. */
  readonly bucket: OpeningBucket
}

/** The ends of overrides until a start; null: none ends before it. */
export function endsBefore(timeline: Timeline, bucket: OpeningBucket, startUs: number): Ends | null {
  const { endsUs = Infinity } = timeline.at(bucket.key)
  if (startUs < endsUs) return null
  const after = afterEnd(timeline, bucket, endsUs)
  const later = endsBefore(timeline.ended(bucket.key, endsUs), after, startUs)
  const each = [{ endsUs, before: bucket.policy }, ...(later?.each ?? [])]
  return { lastUs: later?.lastUs ?? endsUs, each, bucket: later?.bucket ?? after }
}

/** Whether the rules before the end can count a start after it: not with other windows, nor in debt. */
export function isCountable({ policy, state }: OpeningBucket, { bucket }: Ends, weight: number): boolean {
  const [{ rule }, { rule: to }] = [policy, bucket.policy]
  if (rule?.kind === 'fixed' && to?.kind === 'fixed')
    return weight <= to.max && JSON.stringify(rule.window) === JSON.stringify(to.window)
  if (to?.kind !== 'sliding') return true
  return weight <= to.max && state.rule?.kind === 'sliding' && state.rule.debt === 0
}

/** Takes the units of a start after the end. */
export function chargeAcross(
  { policy, state }: OpeningBucket,
  { bucket: after, lastUs, each }: Ends,
  nowUs: number,
  weight: number,
  startUs: number,
): void {
  const { rule, spacing } = policy
  const to = after.policy
  const log = structuredClone(state.rule)
  charge(to, after.state, lastUs, weight, startUs)
  charge(policy, state, nowUs, weight, startUs)
  const { rule: counted, spacing: spaced } = after.state
  if (spacing && to.spacing && spaced) state.spacing = adoptSpacing(to.spacing, spacing, spaced)
  if (rule?.kind === 'spacing' && to.rule?.kind === 'spacing' && counted?.kind === 'spacing')
    state.rule = adoptSpacing(to.rule, rule, counted)
  if (rule?.kind === 'rate' && to.rule?.kind === 'rate' && counted?.kind === 'rate')
    state.rule = rateBefore(rule, to.rule, counted, each, startUs)
  if (rule?.kind === 'sliding' && log?.kind === 'sliding') {
    // Both rules have the same log: a start that the lower bound has no room for makes no debt.
    chargeSliding({ ...rule, max: Number.MAX_SAFE_INTEGER }, log, nowUs, weight, startUs)
    state.rule = log
  }
}

/**
 * The state of a rate before the end that becomes this one at the end. It carries over as of its last taking: that is
 * exact for the start itself if it leaves no unit, and else for the end.
 */
function rateBefore(rule: RateRule, to: RateRule, after: RateState, ends: Ends['each'], startUs: number): RateState {
  const spareUs = startUs - rateGrantUs(to, after, 0)
  if (spareUs > 1) {
    let [state, from] = [after, to]
    for (const { endsUs, before } of ends.toReversed())
      if (before.rule?.kind === 'rate') [state, from] = [adoptRate(from, before.rule, state, endsUs), before.rule]
    return state
  }
  if (spareUs < 0) return adoptRate(to, rule, after, startUs)
  const empty = newRate({ ...rule, startEmpty: false }, startUs)
  chargeRate(rule, empty, startUs, rule.burst)
  return empty
}

/**
 * Takes the units of a start that is booked, and notes how to give them back; null: windows alone count it.
 * @param end the last end of an override before it @param take takes them
 */
export function noteCharge(
  timeline: Timeline,
  { key, policy, state }: OpeningBucket,
  atUs: number,
  end: Ends | null,
  take: () => void,
): Charged | null {
  // A penalty that is over does not return.
  touch(policy, state, atUs)
  const before = stampOf(state)
  take()
  const { rule, spacing } = end?.bucket.policy ?? policy
  if (!spacing && !isMoved(state.rule)) return null
  const everyUs = spacing?.everyUs ?? (rule?.kind === 'spacing' ? rule.everyUs : null)
  const more = { ...(everyUs !== null && { everyUs }), ...(end && { endsUs: end.lastUs }) }
  return { revision: timeline.at(key).revision, atUs, before, after: stampOf(state), ...more }
}

/** Gives the units of a booked start back. @param charged null: it is not known how they were taken */
export function refundBooked(
  timeline: Timeline,
  { key, policy, state }: OpeningBucket,
  nowUs: number,
  weight: number,
  chargedAtUs: number,
  charged: Charged | null,
): void {
  if (!charged) return refund(policy, state, nowUs, weight, chargedAtUs)
  const carried = (text: string): string => {
    const then = { ...decodeBucket(text), atUs: charged.atUs }
    return stampOf(timeline.carry(key, then, charged.revision, nowUs) ?? then)
  }
  const { before, after, endsUs, everyUs } = charged
  const { rule, spacing, booked } = state
  const beforeNow = carried(before)
  const afterNow = carried(after)
  const isLast = afterNow === stampOf(state)
  if (!isLast && endsUs === undefined && beforeNow === before && afterNow === after)
    return refund(policy, state, nowUs, weight, chargedAtUs)
  if (!isMoved(rule)) credit(policy, state, nowUs, weight, chargedAtUs)
  else if (state.allowance) state.allowance = spend(state.allowance, -weight, chargedAtUs)
  if (isLast) {
    const back = decodeBucket(beforeNow)
    if (back.spacing) state.spacing = back.spacing
    if (isMoved(rule) && back.rule?.kind === rule?.kind) state.rule = back.rule
    if (booked && back.booked) state.booked = { ...booked, backUs: back.booked.backUs }
    return
  }
  // A start that was booked later counts on the units of a rate, and on the last place within a spacing.
  for (const [of, its] of [
    [policy.spacing, spacing],
    [policy.rule, rule],
  ] as const)
    if (of?.kind === 'spacing' && its?.kind === 'spacing') refundSpacing(of, its, chargedAtUs, everyUs)
}

/** The parts of a state that a charge moves, as text. Windows hold units by their instants, which are left out. */
function stampOf({ rule, spacing, booked }: BucketState): string {
  const moves = booked && { booked: { ...booked, startedUs: 0, count: 1, untilUs: LATEST_US } }
  return encodeBucket({
    atUs: 0,
    closedUntilUs: 0,
    rule: isMoved(rule) ? rule : emptied(rule),
    ...(spacing && { spacing }),
    ...moves,
  })
}

function emptied(rule: RuleState | null): RuleState | null {
  return rule?.kind === 'fixed' ? { kind: 'fixed', startUs: 0, used: 0, beyond: 0 } : rule && newSliding()
}

function isMoved(rule: RuleState | null): boolean {
  return rule?.kind === 'rate' || rule?.kind === 'spacing'
}
