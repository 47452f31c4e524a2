import type { Duration } from '../../base/duration.ts'
import { durationUs } from '../../base/duration.ts'
import { normalisePolicy } from '../../policy/limits/normalise.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { unprocessable } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import type { RateLimitJson } from './schemas.ts'

/** Definitions of code and of admins have version 0 or more, so they replace those that come with jobs. */
const OF_JOBS = -1
const RULES = ['rate', 'throttle', 'concurrency', 'period', 'max_per_second'] as const
const PERIODS: Readonly<Record<string, Duration>> = { second: '1s', minute: '1m', hour: 'PT1H', day: 'P1D' }

/**
 * Reads the policy that a job brings: `rate` is a sliding window, `throttle` even spacing, `concurrency` permits.
 * `x_guard` replaces the default guard of the window. `x_policy` has the rules as text instead. Without a key the queue is the key. A job that only names a
 * limit of the server by `x_limit` brings none.
 *
 * @throws {Refusal} 422 @throws {SluiceError} `policy.invalid`
 */
export function broughtBy(json: RateLimitJson, queue: string, tenant: string): LimitDefinition[] {
  const key = json.key ?? (json.max_per_second === undefined ? undefined : `queue:${queue}`)
  if (key === undefined) {
    if (json.x_limit) return []
    throw unprocessable('rate_limit.key is missing. Expected the name of the limit.')
  }
  const definitions = definitionsOf(json, ownName(tenant, key), OF_JOBS)
  if (definitions.length === 0)
    throw unprocessable('rate_limit has no rule. Expected at least one of concurrency, rate and throttle.')
  return definitions
}

/** The limits that a rate limit defines under a name; none: it has no rule. */
export function definitionsOf(json: RateLimitJson, name: string, version: number): LimitDefinition[] {
  if (json.x_policy !== undefined) return [inText(json, json.x_policy, name, version)]
  const { concurrency, on_limit: onLimit } = json
  const rate = paceOf(
    json.rate ?? json.max_per_second,
    json.period ?? (json.max_per_second ? 'second' : undefined),
    'rate',
  )
  const throttle = paceOf(json.throttle, json.period, 'throttle')
  const guard = guardMs(json)
  const shared = {
    ...(concurrency !== undefined && { concurrency }),
    ...(onLimit && { onLimit }),
    ...(guard !== undefined && { guard }),
  }
  const define = (limit: string, policy: object): LimitDefinition => ({
    name: limit,
    policy: normalisePolicy(policy as Policy, `rate_limit ${name}`),
    version,
  })
  const window = rate && { window: 'sliding', max: rate.limit, per: rate.periodUs / 1000 }
  const spacing = throttle && { every: throttle.periodUs / throttle.limit / 1000 }
  if (!window && !spacing && concurrency === undefined) return []
  return [define(name, { ...window, ...spacing, ...shared })]
}

/** The limit whose rules are text. @throws {Refusal} 422 if the rules are given twice @throws {SluiceError} `policy.invalid` */
function inText(json: RateLimitJson, text: string, name: string, version: number): LimitDefinition {
  const twice = RULES.find((member) => json[member] !== undefined)
  if (twice !== undefined) throw unprocessable(`rate_limit has ${twice} beside x_policy. Write all rules in x_policy.`)
  const guard = guardMs(json)
  const policy: Policy = {
    policy: text,
    ...(json.on_limit && { onLimit: json.on_limit }),
    ...(guard !== undefined && { guard }),
  }
  return { name, policy: normalisePolicy(policy, `rate_limit ${name}`), version }
}

/** The guard that a rate limit names, in ms; undefined: none, so that a window has the default. */
export function guardMs({ x_guard: guard }: RateLimitJson): number | undefined {
  return guard === undefined ? undefined : durationUs(guard as Duration, 'x_guard of rate_limit') / 1000
}

function paceOf(
  pace: number | { limit?: number | undefined; period?: string | undefined; interval?: string | undefined } | undefined,
  alias: string | undefined,
  what: string,
): { limit: number; periodUs: number } | null {
  if (pace === undefined) return null
  const { limit = 1, period = alias, interval } = typeof pace === 'number' ? { limit: pace } : pace
  const text = interval ?? period
  if (text === undefined) throw unprocessable(`rate_limit.${what} has no period. Expected one such as PT1M.`)
  const periodUs = durationUs(PERIODS[text] ?? (text as Duration), `period of rate_limit.${what}`)
  if (periodUs === 0)
    throw unprocessable(`The period of rate_limit.${what} is invalid: zero. Expected a duration above zero.`)
  return { limit, periodUs }
}
