import type { BucketState } from './bucket.ts'
import type { LimitPolicy } from './limit.ts'

/** Units that must remain after a start of a job of this priority: a start is asked for as if it cost so many more. */
export function keptBack({ headroom }: LimitPolicy, priority: number): number {
  return headroom && priority < headroom.priority ? headroom.units : 0
}

/** A bucket as somebody meets it. */
export interface EffectiveBucket {
  readonly policy: LimitPolicy
  readonly state: BucketState
}

/**
 * A bucket as a line of jobs meets it whose last one has this priority: where that may not use the headroom, a smaller bucket that is
 * refilled at the same pace. Exact for a rate, for permits, and for a line in which nobody may use it; else no later than the truth.
 *
 * @param highest the highest priority in the line.
 */
export function belowHeadroom(
  { policy, state }: EffectiveBucket,
  priority: number,
  highest: number = priority,
): EffectiveBucket {
  const kept = keptBack(policy, priority)
  if (kept === 0) return { policy, state }
  const { rule, concurrency } = policy
  const alone = { ...policy, concurrency: concurrency === null ? null : Math.max(0, concurrency - kept) }
  if (rule === null || rule.kind === 'spacing') return { policy: alone, state }
  if (rule.kind === 'rate') return { policy: { ...alone, rule: { ...rule, burst: rest(rule.burst, kept) } }, state }
  // Whoever may use a window's reserve leaves less of it to the others, but how much hangs on when they start.
  if (keptBack(policy, highest) === 0) return { policy: alone, state }
  const max = rest(rule.max, kept)
  const met = { ...alone, rule: { ...rule, max } }
  if (rule.kind !== 'fixed' || state.rule?.kind !== 'fixed') return { policy: met, state }
  // What the urgent have used of a window is no debt to be paid by the next.
  const { used } = state.rule
  const counted = used > rule.max ? used - kept : Math.min(used, max)
  return { policy: met, state: { ...state, rule: { ...state.rule, used: counted } } }
}

function rest(most: number, kept: number): number {
  return Math.max(1, most - kept)
}
