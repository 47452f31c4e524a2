import { SluiceError } from '../base/errors.ts'
import { checkOptions, show } from '../base/options.ts'
import { refuseOvercommitted } from '../policy/limits/guarantee.ts'
import type { Guarantee, LimitPolicy } from '../policy/limits/limit.ts'
import { guaranteeOf } from '../policy/limits/read-guarantee.ts'
import type { CommonLimit } from '../policy/limits/policy.ts'

/** A guaranteed share of another limit of the configuration. */
export interface ServedShare extends Omit<CommonLimit, 'limit'> {
  /** The name of the common limit. */
  readonly limit: string
  /** The path of the common limit's key. Default: its own `by`; without one it has a single budget. */
  readonly by?: string
}

/** The common limit of a limit, and the path of its key. */
export interface CommonUse {
  readonly limit: string
  readonly by: string | null
}

/** The parts of a limit that its share is checked against. */
interface Limited {
  readonly policy: LimitPolicy
  readonly shared: boolean
  readonly by: string | null
}

const OPTIONS = ['limit', 'by', 'atLeast', 'keys', 'overcommit']

/**
 * Reads `of` of a limit of the configuration.
 *
 * @param rules all limits, without their shares. @param shares the limits that have a share
 * @throws {SluiceError} `policy.invalid`, `limit.unknown`
 */
export function servedShare(
  name: string,
  of: unknown,
  rules: ReadonlyMap<string, Limited>,
  shares: ReadonlySet<string>,
): { readonly guarantee: Guarantee; readonly common: CommonUse } {
  const what = `limit ${name}`
  const own = rules.get(name) as Limited
  const common = commonOf(of, what)
  const { limit, by, ...rest } = common
  const other = rules.get(limit)
  if (!other)
    throw new SluiceError('limit.unknown', `${what}: of names the limit ${limit}, which the configuration lacks.`)
  if (limit !== name && shares.has(limit))
    throw new SluiceError(
      'policy.invalid',
      `${what}: of.limit is invalid: limit ${limit} has an of itself. Expected a limit without one.`,
    )
  if (own.shared && !other.shared)
    throw new SluiceError(
      'policy.invalid',
      `${what}: all tenants share it, but each tenant has a limit ${limit} of its own. Add shared to ${limit}, or remove it here.`,
    )
  const guarantee = guaranteeOf({ ...rest, limit }, { name, policy: own.policy }, { limit, policy: other.policy }, what)
  return { guarantee, common: { limit, by: by ?? other.by } }
}

function commonOf(of: unknown, what: string): ServedShare {
  if (typeof of !== 'object' || of === null || Array.isArray(of))
    throw new SluiceError('policy.invalid', `${what}: of is invalid: ${show(of)}. Expected { limit, atLeast }.`)
  checkOptions(of, OPTIONS, `${what}, of`, { code: 'policy.invalid' })
  const common = of as ServedShare
  if (typeof common.limit !== 'string')
    throw new SluiceError(
      'policy.invalid',
      `${what}: of.limit is invalid: ${show(common.limit)}. Expected the name of a limit.`,
    )
  return common
}

/**
 * Refuses shares that add up to more than their common limit. A limit that each tenant has of its own counts once.
 *
 * @throws {SluiceError} `policy.invalid`
 */
export function refuseTooManyShares(policies: ReadonlyMap<string, LimitPolicy>): void {
  const guarantees = [...policies.values()].flatMap(({ of }) => of ?? [])
  for (const [limit, all] of Map.groupBy(guarantees, (each) => each.limit)) {
    const common = policies.get(limit)
    if (common) refuseOvercommitted('limits of the server', limit, common, all)
  }
}
