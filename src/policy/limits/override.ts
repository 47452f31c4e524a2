import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import { guardsOf, type LimitPolicy, type OnLimit } from './limit.ts'
import { normalisePolicy } from './normalise.ts'
import { readPolicyText } from './policy-text.ts'
import type { Policy } from './policy.ts'

/**
 * The values that an override changes in a limit's policy. All others stay as defined. It changes the numbers of a
 * rule, never its kind. A burst that equals the rate follows the rate. A guard stays; the default guard of a sliding
 * window follows its period.
 */
export interface PolicyChange {
  /** Units per period of a token bucket. */
  readonly rate?: number
  /** Period of a token bucket or a window. */
  readonly per?: Duration
  /** Units that may start back to back. */
  readonly burst?: number
  /** Units per window. */
  readonly max?: number
  /** Interval of a spacing, alone or beside another rule. */
  readonly every?: Duration
  readonly guard?: Duration
  /** Permits across the fleet; 0: nothing starts; null: no bound. */
  readonly concurrency?: number | null
  readonly onLimit?: OnLimit
  /** Null: all units are for all jobs. */
  readonly headroom?: { readonly units: number; readonly priority: number } | null
  /** Null: a job waits without bound. */
  readonly maxWait?: Duration | null
  readonly retries?: 'charge' | 'free'
  /** `shadow`: it tells what it would have done, and admits every start. */
  readonly mode?: 'enforce' | 'shadow'
}

/** An override or a pause: its target, period, author and reason. */
export interface OverrideEvent {
  /** A pause stops all starts. It wins over any override. */
  readonly kind: 'override' | 'pause'
  /** Numbers the changes of one limit, definitions included, from 1 on. */
  readonly revision: number
  readonly sinceUs: number
  /** One partition key; null: all keys of the limit. */
  readonly key: string | null
  /** Null: what stood before has ended. */
  readonly change: PolicyChange | null
  /** The first instant at which it no longer applies; null: it has no end. */
  readonly untilUs: number | null
  readonly by: string | null
  readonly reason: string | null
}

const NUMBERS = {
  rate: ['rate', 'per', 'burst', 'guard'],
  sliding: ['max', 'per', 'guard'],
  fixed: ['max', 'per', 'guard'],
  spacing: ['every', 'guard'],
} as const
const OPTIONS: readonly string[] = ['concurrency', 'onLimit', 'maxWait', 'retries', 'headroom', 'mode']

/**
 * Applies a change to a policy.
 *
 * @param what names the limit in messages.
 * @throws {SluiceError} `policy.invalid` for an empty change, a field that the rule lacks, or a value out of range
 */
export function applyOverride(policy: LimitPolicy, change: PolicyChange, what: string): LimitPolicy {
  const named = Object.entries(change).filter(([, value]) => value !== undefined)
  const allowed = changeable(policy)
  if (named.length === 0)
    throw new SluiceError(
      'policy.invalid',
      `${what}: the override changes nothing. Expected any of ${allowed.join(', ')}.`,
    )
  for (const [field] of named)
    if (!allowed.includes(field)) {
      const rule = policy.rule ? `a limit of kind ${policy.rule.kind}` : 'a limit of permits alone'
      throw new SluiceError(
        'policy.invalid',
        `${what}: an override cannot change ${field} of ${rule}. Expected ${allowed.join(', ')}. Define the limit with another policy to change ${field}.`,
      )
    }
  const lifted = named.map(([field, value]) => [field, value === null ? undefined : value] as const)
  const changed = normalisePolicy({ ...writePolicy(policy), ...Object.fromEntries(lifted) } as unknown as Policy, what)
  return policy.of ? { ...changed, of: policy.of } : changed
}

function changeable({ rule, spacing }: LimitPolicy): readonly string[] {
  return [...(rule ? NUMBERS[rule.kind] : []), ...(spacing ? ['every'] : []), ...OPTIONS]
}

/** Whether a change names only values that the policy has, so that an override can make it. */
export function isOfKind(policy: LimitPolicy, change: PolicyChange): boolean {
  const allowed = changeable(policy)
  return Object.keys(change).every((field) => allowed.includes(field))
}

/**
 * Reads a change that is written as text, for a limit with this policy: `'50/m'` changes the numbers of a window as
 * well as those of a rate. The change of a text with another kind of rule has its fields, and is not `isOfKind`.
 *
 * @param what names the limit in messages.
 * @throws {SluiceError} `policy.invalid`
 */
export function changeInText(text: string, { rule }: LimitPolicy, what: string): PolicyChange {
  const { rate, max, window, timezone, ...others } = readPolicyText(text, what)
  if (rate !== undefined) return rule && 'max' in rule ? { ...others, max: rate } : { ...others, rate }
  if (max === undefined) return others
  const ownZone = rule?.kind === 'fixed' && rule.window.align === 'calendar' ? rule.window.timezone : undefined
  const isSame = window === rule?.kind && timezone === ownZone
  return { ...others, max, ...(!isSame && { window, ...(timezone !== undefined && { timezone }) }) }
}

/**
 * The change that a caller gives, as an object or as a text. @param what names the limit in messages.
 * @throws {SluiceError} `policy.invalid`
 */
export function changeIn(change: unknown, policy: LimitPolicy, what: string): PolicyChange {
  if (typeof change === 'string') return changeInText(change, policy, what)
  if (typeof change === 'object' && change !== null) return change
  throw new SluiceError(
    'policy.invalid',
    `${what}: the override is invalid: ${show(change)}. Expected its changes, such as { rate: 5 } or '5/s'.`,
  )
}

/** Applies an older change to a policy. If the limit was redefined since, values that no longer fit are left out. */
export function applyFittingOverride(policy: LimitPolicy, change: PolicyChange): LimitPolicy {
  const behaviour = Object.fromEntries(Object.entries(change).filter(([field]) => OPTIONS.includes(field)))
  for (const part of [change, behaviour]) {
    try {
      return applyOverride(policy, part, 'an override')
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
    }
  }
  return policy
}

/** Writes a policy as a user would. A value derived from another stays open, so that it follows that one. */
export function writePolicy(policy: LimitPolicy): Readonly<Record<string, unknown>> {
  const {
    rule,
    spacing,
    concurrency,
    maxWaitUs,
    onLimit,
    retries,
    scope,
    backend,
    onMissingKey,
    headroom,
    calibrate,
    version,
  } = policy
  const { ruleUs: guardUs, spacingUs } = guardsOf(policy)
  const shared = {
    concurrency: concurrency ?? undefined,
    maxWait: maxWaitUs === null ? undefined : maxWaitUs / 1000,
    guard: policy.defaultGuard ? undefined : guardUs / 1000,
    every: spacing && (spacing.everyUs - spacingUs) / 1000,
    onLimit,
    retries,
    scope,
    backend,
    onMissingKey,
    headroom,
    mode: policy.mode,
    ...(calibrate && { calibrate: { ...calibrate, from: 'headers', budget: calibrate.budget ?? undefined } }),
    version,
  }
  if (rule?.kind === 'rate') {
    const burst = rule.burst === rule.rate ? undefined : rule.burst
    return { ...shared, rate: rule.rate, per: (rule.periodUs - guardUs) / 1000, burst, startEmpty: rule.startEmpty }
  }
  if (rule?.kind === 'sliding')
    return { ...shared, window: 'sliding', max: rule.max, per: (rule.periodUs - guardUs) / 1000 }
  if (rule?.kind === 'spacing') return { ...shared, every: (rule.everyUs - guardUs) / 1000 }
  if (rule?.kind !== 'fixed') return shared
  const { window, max } = rule
  if (window.align === 'epoch') return { ...shared, window: 'fixed', max, per: window.periodUs / 1000 }
  const per = { hour: '1h', day: '1d', week: '1w', month: 'P1M' }[window.unit]
  return { ...shared, window: 'fixed', max, per, timezone: window.timezone }
}
