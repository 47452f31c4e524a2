/**
 * Shadow mode. The limit charges, counts by how much it would have delayed each start, and admits all. Its bucket lives
 * on a clock of its own, at the instant at which the last start would have begun: starts that come faster than the limit
 * form a queue in which no job waits, in the order of their real starts.
 */
import { type BucketState, charge, deniedUntil } from './bucket.ts'
import { chargeGuarantee } from './guarantee.ts'
import { freePermits, type LimitPolicy } from './limit.ts'

/** The delay or the end of one start by an enforced limit. */
export interface ShadowedBy {
  /** How much later it would have been; null: until a permit had returned. */
  readonly delayUs: number | null
  /** It would not have started at all, and has not been charged. */
  readonly drops: boolean
}

/** The policy that a limit in shadow mode would have under `enforce`. */
export function enforced(policy: LimitPolicy): LimitPolicy {
  if (policy.mode !== 'shadow') return policy
  const { mode: _mode, shadowed, ...rest } = policy
  return { ...rest, ...shadowed }
}

/** The policy in force of a limit in shadow mode: no part of it refuses a job, delays one or ends one. */
export function shadowOf(policy: LimitPolicy): LimitPolicy {
  if (policy.mode !== 'shadow') return policy
  const { onLimit, maxWaitUs } = policy
  return { ...policy, onLimit: 'wait', maxWaitUs: null, shadowed: { onLimit, maxWaitUs } }
}

/**
 * Charges a start that a limit in shadow mode has let through, at the instant at which it would have begun.
 *
 * @param active permits held before it.
 * @returns null: the limit would have admitted it at once
 */
export function chargeShadow(
  policy: LimitPolicy,
  state: BucketState,
  active: number,
  nowUs: number,
  weight: number,
): ShadowedBy | null {
  const { of: _of, ...real } = enforced(policy)
  const { onLimit, maxWaitUs } = real
  // The start is real, whenever the limit would have let it begin.
  chargeGuarantee(policy, state, nowUs, weight, active)
  const { closedUntilUs } = state
  const fromUs = Math.max(nowUs, state.atUs)
  const startUs =
    weight === 0 ? nowUs : (deniedUntil({ ...real, concurrency: null }, state, 0, fromUs, weight) ?? fromUs)
  const delayUs = startUs - nowUs
  const isFull = freePermits(real.concurrency, active) === 0
  const refused = isFull || delayUs > 0
  const drops = refused && (onLimit === 'drop' || (maxWaitUs !== null && delayUs > maxWaitUs))
  if (!drops && weight > 0) {
    charge(real, state, startUs, weight)
    // A penalty of the other side is real, however far the queue has grown.
    if (closedUntilUs > nowUs) state.closedUntilUs = closedUntilUs
  }
  if (!refused) return null
  const { delayed = 0, dropped = 0, totalUs = 0, worstUs = 0 } = state.shadow ?? {}
  state.shadow = drops
    ? { delayed, dropped: dropped + 1, totalUs, worstUs }
    : { delayed: delayed + 1, dropped, totalUs: totalUs + delayUs, worstUs: Math.max(worstUs, delayUs) }
  return { delayUs: isFull ? null : delayUs, drops }
}

/** How long a start of one unit would wait now, if the limit were enforced; null: until a permit returns. */
export function shadowWaitUs(policy: LimitPolicy, state: BucketState, active: number, nowUs: number): number | null {
  const untilUs = deniedUntil(enforced(policy), state, active, Math.max(nowUs, state.atUs), 1)
  return untilUs === Infinity ? null : (untilUs ?? Math.max(nowUs, state.atUs)) - nowUs
}
