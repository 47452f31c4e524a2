/**
 * Booked starts for after the end of an override. The stored state is of the rules before the end. So their units are
 * taken such that the bucket at the end is as if the rules after it had counted them.
 */
import { adoptRate, chargeRate, newRate, rateGrantUs, type RateState } from '../rules/token-bucket.ts'
import type { RateRule } from '../rules/rule.ts'
import { chargeSliding } from '../rules/sliding-window.ts'
import { adoptSpacing } from '../rules/spacing.ts'
import type { Across } from './booked.ts'
import { type BucketState, charge, credit } from './bucket.ts'
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
): Across {
  const { rule, spacing } = policy
  const to = after.policy
  const before = stampOf(state)
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
  return { endsUs: lastUs, before, after: stampOf(state) }
}

/**
 * Gives the units of a start back before the end. Those of a rate or a spacing return if nothing was taken since: a start
 * that was booked later counts on them.
 */
export function refundAcross(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  weight: number,
  chargedAtUs: number,
  { before, after }: Across,
): void {
  const { rule, spacing } = state
  const isLast = JSON.stringify(stampOf(state)) === JSON.stringify(after)
  const [atUs = 0, rem = 0, lastUs = 0, spacedUs = 0] = before
  if (isLast && spacing && spacedUs !== 0) spacing.nextUs = spacedUs
  if (rule?.kind === 'spacing') rule.nextUs = isLast ? atUs : rule.nextUs
  // Nothing is known of the takings before, so none of them returns.
  else if (rule?.kind === 'rate') Object.assign(rule, isLast && { tatUs: atUs, rem, lastUs, fullUs: lastUs + 1 })
  else credit(policy, state, nowUs, weight, chargedAtUs)
}

/** The parts of a state that a charge moves. */
function stampOf({ rule, spacing }: BucketState): readonly number[] {
  const spacedUs = spacing?.nextUs ?? 0
  if (rule?.kind === 'rate') return [rule.tatUs, rule.rem, rule.lastUs, spacedUs]
  return [rule?.kind === 'spacing' ? rule.nextUs : 0, 0, 0, spacedUs]
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
