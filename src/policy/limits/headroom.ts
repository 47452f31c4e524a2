import type { BucketState } from './bucket.ts'
import { reserveOf } from './guarantee.ts'
import type { LimitPolicy } from './limit.ts'
import type { RateRule } from '../rules/rule.ts'
import { capAtOneToken } from '../rules/token-bucket.ts'

/**
 * Units that must remain after a start of a job of this priority. The bucket is asked as if the start cost that many
 * more.
 */
export function keptBack(policy: LimitPolicy, priority: number): number {
  const { headroom } = policy
  return Math.max(headroom && priority < headroom.priority ? headroom.units : 0, reserveOf(policy))
}

/** The bucket that a job of some priority effectively sees. */
export interface EffectiveBucket {
  readonly policy: LimitPolicy
  readonly state: BucketState
}

/**
 * A bucket as seen by jobs of which the last has this priority. If that job may not use the headroom, it sees a smaller
 * bucket with the same refill pace. Exact for a rate, for permits, and if no job may use the headroom. Otherwise a
 * lower bound.
 *
 * @param highest the highest priority among the jobs.
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
  if (rule.kind === 'rate')
    return { policy: { ...alone, rule: { ...rule, burst: rest(rule.burst, kept) } }, state: penalised(rule, state) }
  // Jobs that use a window's reserve leave less to the others. How much less depends on when they start.
  if (keptBack(policy, highest) === 0) return { policy: alone, state }
  const max = rest(rule.max, kept)
  const reduced = { ...alone, rule: { ...rule, max } }
  if (rule.kind !== 'fixed' || state.rule?.kind !== 'fixed') return { policy: reduced, state }
  // Urgent jobs use the reserve of their window; that is not a debt for later jobs.
  const { used } = state.rule
  const counted = used > rule.max ? used - kept : Math.min(used, max)
  return { policy: reduced, state: { ...state, rule: { ...state.rule, used: counted } } }
}

/** After a penalty the whole bucket holds one token. The smaller one then lacks those that must remain. */
function penalised(rule: RateRule, state: BucketState): BucketState {
  if (state.closedUntilUs === 0 || state.rule?.kind !== 'rate') return state
  const capped = { ...state.rule }
  capAtOneToken(rule, capped, state.closedUntilUs)
  return { ...state, rule: capped }
}

function rest(most: number, kept: number): number {
  return Math.max(1, most - kept)
}
