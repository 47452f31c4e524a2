/** When a bucket opens, with regard to the overrides that end before: from each end on other rules decide. */
import { type BucketState, deniedUntil } from './bucket.ts'
import { RESERVATION_LAPSES_US } from './booked.ts'
import { keptBack } from './headroom.ts'
import type { LimitPolicy } from './limit.ts'
import type { Timeline } from './timeline.ts'

/** A bucket as a start finds it. */
export interface OpeningBucket {
  readonly key: string
  /** The policy in force. */
  readonly policy: LimitPolicy
  readonly state: BucketState
  /** Permits held. */
  readonly active: number
}

/**
 * The first instant from `fromUs` at which a bucket admits a start. Infinity: a permit must return first.
 * @param timeline that of its limit, with the ends that are over
 * @param priority null: the start may use the headroom
 * @param ownPermits permits count as free, for a start that takes them later
 */
export function opensUs(
  timeline: Timeline,
  bucket: OpeningBucket,
  fromUs: number,
  weight: number,
  priority: number | null,
  ownPermits = false,
): number {
  const { key, policy, state } = bucket
  // A pause takes the place of the bound, and stops reservations too.
  const active = ownPermits && policy.concurrency !== 0 ? -Infinity : bucket.active
  const kept = priority === null ? 0 : keptBack(policy, priority)
  const openUs = deniedUntil(boundOf(timeline, bucket), state, active, fromUs, weight, kept) ?? fromUs
  const { endsUs = Infinity } = timeline.at(key)
  // A permit may return before the end.
  if (openUs < endsUs || openUs === Infinity) return openUs
  const after = afterEnd(timeline, bucket, endsUs)
  return opensUs(timeline.ended(key, endsUs), after, Math.max(fromUs, endsUs), weight, priority, ownPermits)
}

/** The policy before an end: a start that is booked for after it finds its units even if its window bears fewer. */
function boundOf(timeline: Timeline, { key, policy, state }: OpeningBucket): LimitPolicy {
  const { rule } = policy
  const { endsUs = Infinity } = timeline.at(key)
  const lastUs = (state.booked?.untilUs ?? -Infinity) - RESERVATION_LAPSES_US
  if ((rule?.kind !== 'fixed' && rule?.kind !== 'sliding') || lastUs < endsUs) return policy
  const ended = timeline.ended(key, endsUs)
  const after = ended.at(key).policy
  if (!after) return policy
  const later = boundOf(ended, { key, policy: after, state, active: 0 })
  const { rule: to } = later
  if (to?.kind !== 'fixed' && to?.kind !== 'sliding') return policy
  return to.max < rule.max ? { ...policy, rule: { ...rule, max: to.max } } : policy
}

/** A copy of a bucket at the end of an override, if nothing else changes. */
export function afterEnd(
  timeline: Timeline,
  { key, policy: before, state, active }: OpeningBucket,
  endsUs: number,
): OpeningBucket {
  const ended = timeline.ended(key, endsUs)
  const next = ended.carry(key, structuredClone(state), timeline.revision, endsUs) ?? state
  return { key, active, policy: policyAfter(before, ended.at(key).policy), state: next }
}

/** The policy at the end of an override. Windows of a calendar keep the distance of the wall clock. */
function policyAfter(before: LimitPolicy, after: LimitPolicy | null): LimitPolicy {
  const { rule } = before
  if (rule?.kind !== 'fixed' || after?.rule?.kind !== 'fixed') return after ?? before
  return { ...after, rule: { ...after.rule, window: { ...rule.window, ...after.rule.window } } }
}
