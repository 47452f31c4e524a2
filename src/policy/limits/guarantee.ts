/**
 * Guaranteed shares of a common limit. A start within its guarantee goes before all others in the common limit's wait
 * list, and may take the units that the others must leave there. All other starts borrow: they pay to the common limit
 * alone. So the common limit is never exceeded, and nothing of its rate is set aside: once its reserve is full, all of
 * its refill goes to the jobs that wait.
 */
import { SluiceError } from '../../base/errors.ts'
import { adoptRate, chargeRate, newRate, rateGrantUs, type RateState } from '../rules/token-bucket.ts'
import type { Guarantee, LimitPolicy } from './limit.ts'

/** The state of a guarantee over time in a bucket. */
interface Guaranteed {
  guarantee?: RateState
}

/**
 * Until when a start of `weight` is outside the guarantee of its bucket: the first µs within it. Null: it is within
 * now. Infinity: a permit must return first.
 *
 * @param active permits of the bucket held now.
 */
export function outsideUntil(
  { rule, concurrency }: Guarantee,
  { guarantee }: Guaranteed,
  active: number,
  nowUs: number,
  weight: number,
): number | null {
  if (concurrency !== null && active >= concurrency) return Infinity
  if (rule === null || weight === 0 || !guarantee) return null
  const untilUs = rateGrantUs(rule, guarantee, weight)
  return untilUs <= nowUs ? null : untilUs
}

/**
 * Counts a start at `startUs`, if it is within the guarantee. One that borrows leaves the guarantee as it is.
 *
 * @param active permits of the bucket held before it.
 */
export function chargeGuarantee(
  { of }: LimitPolicy,
  state: Guaranteed,
  startUs: number,
  weight: number,
  active: number,
): void {
  if (!of?.rule || weight === 0 || outsideUntil(of, state, active, startUs, weight) !== null) return
  chargeRate(of.rule, (state.guarantee ??= newRate(of.rule, startUs)), startUs, weight)
}

/** The guarantee's state under a changed policy; null: it is unused, or there is none. */
export function carryGuarantee(
  from: LimitPolicy,
  to: LimitPolicy,
  { guarantee }: Guaranteed,
  nowUs: number,
): RateState | null {
  const [was, is] = [from.of?.rule, to.of?.rule]
  if (!was || !is || !guarantee) return null
  return JSON.stringify(was) === JSON.stringify(is) ? guarantee : adoptRate(was, is, guarantee, nowUs)
}

/**
 * The units of a common limit that starts outside the guarantees must leave: what all guaranteed buckets may start at
 * one instant, and at most half of the burst. With `R` the rate of the common limit, `r` these units and `n` the units
 * of guaranteed starts that come at one instant, the last of them waits `(n − r) / R` and no longer, as long as the
 * guarantees add up to at most `R`. Permits are not kept back: one that lies idle would be lost.
 */
export function reserveOf({ rule, concurrency, reserve = 0 }: LimitPolicy): number {
  if (reserve === 0 || rule?.kind !== 'rate' || concurrency !== null) return 0
  return Math.min(reserve, Math.floor(rule.burst / 2))
}

/** The units that the guarantees of these limits may start at one instant, by the name of their common limit. */
export function reserves(policies: Iterable<LimitPolicy | null | undefined>): Map<string, number> {
  const sums = new Map<string, number>()
  for (const policy of policies) {
    const { of } = policy ?? {}
    if (of?.rule) sums.set(of.limit, (sums.get(of.limit) ?? 0) + (of.keys ?? Infinity) * of.rule.burst)
  }
  return sums
}

/**
 * Refuses a start under a limit that names no budget of the common one of which that limit has a share: it would not pay
 * there.
 * @throws {SluiceError} `policy.invalid`
 */
export function requireCommon(
  limit: string,
  policy: LimitPolicy | null | undefined,
  uses: readonly { readonly limit: string }[],
): void {
  const common = policy?.of?.limit
  if (common === undefined || uses.some((use) => use.limit === common)) return
  throw new SluiceError(
    'policy.invalid',
    `limit ${limit} has a share of ${common}, to which each start pays too. Name a budget of ${common} beside it.`,
  )
}

/** The units per µs that a policy grants in the long run; a spacing counts starts. Infinity: nothing over time bounds it. */
export function fullPace({ rule, spacing }: LimitPolicy): number {
  return Math.min(paceOfRule(rule), spacing ? 1 / spacing.everyUs : Infinity)
}

function paceOfRule(rule: LimitPolicy['rule']): number {
  if (rule === null) return Infinity
  if (rule.kind === 'rate') return rule.rate / rule.periodUs
  if (rule.kind === 'spacing') return 1 / rule.everyUs
  if (rule.kind === 'sliding') return rule.max / rule.periodUs
  return rule.window.align === 'epoch' ? rule.max / rule.window.periodUs : Infinity
}

/**
 * Refuses guarantees that add up to more than their common limit, unless one of them lets all shrink. Each counts once
 * for each of its keys.
 *
 * @throws {SluiceError} `policy.invalid`
 */
export function refuseOvercommitted(
  what: string,
  limit: string,
  common: LimitPolicy,
  guarantees: readonly Guarantee[],
): void {
  if (guarantees.some(({ overcommit }) => overcommit === 'scale')) return
  let [perUs, permits] = [0, 0]
  for (const { rule, concurrency, keys } of guarantees) {
    perUs += rule ? ((keys ?? 1) * rule.rate) / rule.periodUs : 0
    permits += (keys ?? 1) * (concurrency ?? 0)
  }
  const most = fullPace(common)
  const named = perUs > most * (1 + 1e-9) ? 'rate' : permits > (common.concurrency ?? Infinity) ? 'concurrency' : null
  if (named === null) return
  throw new SluiceError(
    'policy.invalid',
    `${what}: the guarantees of limit ${limit} add up to more than its ${named}. Lower atLeast or keys, raise ${named}, or set overcommit: 'scale', which gives each less.`,
  )
}
