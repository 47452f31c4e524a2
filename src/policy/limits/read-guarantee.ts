import { checkOptions, show } from '../../base/options.ts'
import type { Guarantee, LimitPolicy } from './limit.ts'
import { type Fields, invalid, normalisePolicy, whole } from './normalise.ts'
import type { Policy } from './policy.ts'

const OPTIONS = ['limit', 'atLeast', 'keys', 'overcommit'] as const
const PARTS = ['rate', 'per', 'burst', 'concurrency'] as const
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
  if (typeof of !== 'object' || of === null || Array.isArray(of))
    throw invalid(what, `of is invalid: ${show(of)}. Expected { limit, atLeast }.`)
  checkOptions(of, OPTIONS, `${what}, of`, { code: 'policy.invalid' })
  refuseCommon(own, common, what)
  const { atLeast, keys, overcommit = 'refuse' } = of as Fields
  if (overcommit !== 'refuse' && overcommit !== 'scale')
    throw invalid(what, `of.overcommit is invalid: ${show(overcommit)}. Expected 'refuse' or 'scale'.`)
  const least = readLeast(atLeast, what)
  const guarantee: Guarantee = {
    limit: common.limit,
    rule: least.rule?.kind === 'rate' ? least.rule : null,
    concurrency: least.concurrency,
    keys: keys === undefined ? null : whole(of as Fields, 'keys', `${what}, of`, 1, MOST_KEYS),
    overcommit,
  }
  refuseMore(guarantee, own.policy, 'its own', what)
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
  if (least.spacing || (least.rule && least.rule.kind !== 'rate'))
    throw invalid(
      what,
      `of.atLeast is invalid: ${show(atLeast)}. Expected a rate such as '5/s', or { concurrency: 1 }.`,
    )
  if (least.concurrency === 0)
    throw invalid(what, 'of.atLeast guarantees no permit. Expected concurrency of at least 1.')
  return least
}

/** A guarantee of starts needs a rate, one of permits needs permits, and neither may be more than the whole. */
function refuseMore({ rule, concurrency }: Guarantee, whole: LimitPolicy, whose: string, what: string): void {
  if (rule && whole.rule?.kind !== 'rate')
    throw invalid(
      what,
      `of.atLeast guarantees a rate, and ${whose} policy has none. Expected { rate, per } on both sides.`,
    )
  if (rule && whole.rule?.kind === 'rate') {
    if (rule.rate * whole.rule.periodUs > whole.rule.rate * rule.periodUs)
      throw invalid(what, `of.atLeast is more than ${whose} rate. Lower it, or raise that.`)
    if (rule.burst > whole.rule.burst)
      throw invalid(
        what,
        `of.atLeast has a burst of ${rule.burst}, and ${whose} burst is ${whole.rule.burst}. Lower it.`,
      )
  }
  if (concurrency !== null && whole.concurrency === null)
    throw invalid(what, `of.atLeast guarantees permits, and ${whose} policy has no concurrency. Add it to both sides.`)
  if (concurrency !== null && whole.concurrency !== null && concurrency > whole.concurrency)
    throw invalid(what, `of.atLeast is more than ${whose} concurrency. Lower it, or raise that.`)
}
