import { laterStartUs } from '../rules/fixed-window.ts'
import { slackOf, slackUs } from './backend.ts'
import { guardsOf, type LimitPolicy } from './limit.ts'

/**
 * How long after the instant of its payment a start may begin at its handler: for as long as the guard lengthens its
 * period, or until the guard of its fixed window begins. Infinity: the policy has no rule over time.
 * @param atUs the instant from which the start counts, on the backend's clock
 */
export function latenessOf(policy: LimitPolicy, atUs: number): number {
  const { rule, spacing } = policy
  if (rule === null) return Infinity
  if (rule.kind !== 'fixed') return Math.max(slackOf(policy), guardsOf(policy).ruleUs)
  const leftUs = laterStartUs(rule.window, atUs, 1) - atUs
  const windowUs = Math.max(leftUs - rule.guardUs, Math.min(rule.guardUs, leftUs))
  return Math.min(windowUs, spacing ? slackUs(spacing.everyUs) : Infinity)
}

/** A sliding window that a store makes longer by a guard. */
export interface GuardedWindow {
  /** The units that begin at most in a period. */
  readonly max: number
  /** The period without the guard, in µs. */
  readonly periodUs: number
  readonly guardUs: number
}

/** The sliding window with a guard that a store keeps for a policy; null: there is none. */
export function guardedWindow({ backend, guardUs = 0, mode, rule }: LimitPolicy): GuardedWindow | null {
  if (rule?.kind !== 'sliding' || guardUs === 0 || mode === 'shadow' || backend !== undefined) return null
  return { max: rule.max, periodUs: rule.periodUs - guardUs, guardUs }
}
