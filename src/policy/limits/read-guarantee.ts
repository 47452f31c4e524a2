import { checkOptions, show } from '../../base/options.ts'
import type { Guarantee, LimitPolicy } from './limit.ts'
import type { RateRule } from '../rules/rule.ts'
import { fullPace } from './guarantee.ts'
import { type Fields, invalid, normalisePolicy, whole } from './normalise.ts'
import type { Policy } from './policy.ts'

const OPTIONS = ['limit', 'atLeast', 'keys', 'overcommit'] as const
const PARTS = ['rate', 'per', 'burst', 'every', 'concurrency'] as const
const MOST_KEYS = 1_000_000

interface Named {
  readonly limit: string
  readonly policy: LimitPolicy
}

/**
 * Reads `of` of a policy: the guaranteed part of a common limit.
 *
 * @param own the limit that has it. @param common the common limit.
 * @throws {SluiceError} `policy.invalid`
 */
export function guaranteeOf(
  of: unknown,
  own: { readonly name: string; readonly policy: LimitPolicy },
  common: Named,
  what: string,
): Guarantee {
  checkOptions(of, OPTIONS, `${what}, of`, { code: 'policy.invalid' })
  refuseCommon(own, common, what)
  const { atLeast, keys, overcommit = 'refuse' } = of as Fields
  if (overcommit !== 'refuse' && overcommit !== 'scale')
    throw invalid(what, `of.overcommit is invalid: ${show(overcommit)}. Expected 'refuse' or 'scale'.`)
  const least = readLeast(atLeast, what)
  const guarantee: Guarantee = {
    limit: common.limit,
    rule: assuredRate(least.rule),
    concurrency: least.concurrency,
    keys: keys === undefined ? null : whole(of as Fields, 'keys', `${what}, of`, 1, MOST_KEYS),
    overcommit,
  }
  refuseMore(guarantee, own.policy, 'its own', what)
  refuseUncertain(guarantee, common, what)
  refuseMore(guarantee, common.policy, `that of limit ${common.limit}`, what)
  return guarantee
}

function refuseCommon(
  own: { readonly name: string; readonly policy: LimitPolicy },
  { limit, policy }: Named,
  what: string,
): void {
  if (limit === own.name) throw invalid(what, 'of.limit is the limit itself. Expected another limit.')
  if (policy.of)
    throw invalid(
      what,
      `of.limit is invalid: limit ${limit} has an of itself, ${policy.of.limit}. Expected a limit without one.`,
    )
  if (own.policy.scope === 'worker' || policy.scope === 'worker')
    throw invalid(what, "of needs one budget for the fleet on both sides. Remove scope: 'worker'.")
  if (own.policy.backend !== undefined || policy.backend !== undefined)
    throw invalid(what, 'of needs budgets of the store on both sides. Remove backend.')
}

function readLeast(atLeast: unknown, what: string): LimitPolicy {
  if (atLeast === undefined)
    throw invalid(what, "of.atLeast is missing. Expected a rate such as '5/s', or { concurrency: 1 }.")
  const inside = `${what}, of.atLeast`
  if (typeof atLeast === 'object' && atLeast !== null && !Array.isArray(atLeast))
    checkOptions(atLeast, PARTS, inside, { code: 'policy.invalid' })
  const least = normalisePolicy(atLeast as Policy | string, inside)
  if (least.spacing || (least.rule && !assuredRate(least.rule)))
    throw invalid(
      what,
      `of.atLeast is invalid: ${show(atLeast)}. Expected a rate such as '5/s', { every }, or { concurrency: 1 }.`,
    )
  if (least.concurrency === 0)
    throw invalid(what, 'of.atLeast guarantees no permit. Expected concurrency of at least 1.')
  return least
}

/** The guaranteed starts as a rate: a spacing is one of which one unit may start at a time. */
function assuredRate(rule: LimitPolicy['rule']): RateRule | null {
  if (rule?.kind === 'spacing') return { kind: 'rate', rate: 1, periodUs: rule.everyUs, burst: 1, startEmpty: false }
  return rule?.kind === 'rate' ? rule : null
}

/** Starts can be guaranteed where units come back bit by bit. */
function refuseUncertain({ rule }: Guarantee, { limit, policy }: Named, what: string): void {
  if (rule && policy.rule === null)
    throw invalid(
      what,
      `of.atLeast guarantees a rate, and limit ${limit} has none. Expected a rate, a sliding window or every in limit ${limit}.`,
    )
  if (rule && policy.rule?.kind === 'fixed')
    throw invalid(
      what,
      `of.atLeast guarantees a rate, and limit ${limit} has fixed windows: once others have used one up, nothing is left until its end. Expected a rate, a sliding window or every in limit ${limit}.`,
    )
}

/** Neither part of a guarantee may be more than the whole. */
function refuseMore({ rule, concurrency }: Guarantee, whole: LimitPolicy, whose: string, what: string): void {
  if (rule && rule.rate / rule.periodUs > fullPace(whole) * (1 + 1e-9))
    throw invalid(what, `of.atLeast is more than ${whose} rate, its guard included. Lower it, or raise that.`)
  const most = whole.rule?.kind === 'rate' ? whole.rule.burst : whole.rule?.kind === 'sliding' ? whole.rule.max : null
  if (rule && most !== null && rule.burst > most)
    throw invalid(what, `of.atLeast has a burst of ${rule.burst}, and ${whose} burst is ${most}. Lower it.`)
  if (concurrency !== null && whole.concurrency === null)
    throw invalid(what, `of.atLeast guarantees permits, and ${whose} policy has no concurrency. Add it to both sides.`)
  if (concurrency !== null && whole.concurrency !== null && concurrency > whole.concurrency)
    throw invalid(what, `of.atLeast is more than ${whose} concurrency. Lower it, or raise that.`)
}
