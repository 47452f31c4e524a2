/**
 * A limit's policy, normalised: what `limit(name, policy)` means once durations are microseconds and defaults are
 * filled in. Everything in `policy/` is pure: time is an argument, in integer microseconds of the store's clock.
 */
import { SluiceError } from '../../base/errors.ts'
import type { RateRule, Rule, SpacingRule } from '../rules/rule.ts'

/** The treatment of a job that its buckets refuse. */
export type OnLimit = 'wait' | 'reschedule' | 'drop'

/** The last units of a bucket, kept for jobs at or above a priority, and as many of its permits. */
export interface Headroom {
  /** Integer ≥ 1, less than the bucket holds. */
  readonly units: number
  /** −100 to 100, as jobs are given it: ageing lends no right to the reserve. */
  readonly priority: number
}

/** The effect of a missing key: no limit this time, an error, or one bucket that all such jobs share. */
export type OnMissingKey = 'unlimited' | 'fail' | 'shared'

/** How an API's answers correct a bucket. */
export interface Calibration {
  /** `down`: reports only reduce the bucket. `both`: they also refill it when the API has more left. */
  readonly direction: 'down' | 'both'
  /**
   * The meaning of the API's reset. `window`: only the remaining units may start until then. `refill`: the bucket is
   * full then.
   */
  readonly reset: 'window' | 'refill'
  /** The name of the budget to use if an answer has several; null: the scarcest. */
  readonly budget: string | null
}

/** The share of a common limit that each bucket of a limit has for certain. */
export interface Guarantee {
  /** The common limit's name. Jobs pay to it too. */
  readonly limit: string
  /** The guaranteed starts; null: permits alone are guaranteed. */
  readonly rule: RateRule | null
  /** The guaranteed permits; null: starts alone are guaranteed. */
  readonly concurrency: number | null
  /** How many buckets of the limit have the guarantee at once, ≥ 1; null: as many as the common limit can keep. */
  readonly keys: number | null
  /** Guarantees that add up to more than the common limit: an error, or all of them shrink. */
  readonly overcommit: 'refuse' | 'scale'
}

/** One limit's policy: at most one rule over time, beside a rate or a window a spacing, and at most one bound on jobs running at once. */
export interface LimitPolicy {
  readonly rule: Rule | null
  /** A spacing beside a rate or a window, which must also admit a start; absent: none. A spacing alone is the rule. */
  readonly spacing?: SpacingRule
  /** Permits held by active jobs across the fleet; 0 pauses; null: unbounded. */
  readonly concurrency: number | null
  readonly onLimit: OnLimit
  /** A job that cannot start within this many µs of becoming available is rejected; null: it waits without bound. */
  readonly maxWaitUs: number | null
  /** Whether a retry pays again. `free` waives the rule over time, never concurrency. */
  readonly retries: 'charge' | 'free'
  /** One budget for the whole fleet (the default), or one for each worker. */
  readonly scope?: 'fleet' | 'worker'
  /** The name of the backend that keeps its budgets; absent: the store of the jobs. */
  readonly backend?: string
  /** Absent: `null` and `''` are not limited this time, `undefined` is an error. */
  readonly onMissingKey?: OnMissingKey
  /** The guard included in the rule's period or interval, in µs; absent: 0. A fixed rule has its own guard. */
  readonly guardUs?: number
  /** The guard is the default of a sliding window: it follows the period, and a spacing beside the window has none. */
  readonly defaultGuard?: boolean
  /** Absent: all units are for all jobs. */
  readonly headroom?: Headroom
  /** The answers that correct the buckets; absent: none. */
  readonly calibrate?: Calibration
  /** The common limit, and the guaranteed share of it; absent: none. */
  readonly of?: Guarantee
  /** It charges and tells what it would have done, and admits every start; absent: it is enforced. */
  readonly mode?: 'shadow'
  /** In force only, of a limit in shadow mode: what it would do with a job that it refuses. No definition has it. */
  readonly shadowed?: { readonly onLimit: OnLimit; readonly maxWaitUs: number | null }
  /** In force only: units that starts within a guarantee find here; absent: 0. No definition has it. */
  readonly reserve?: number
  /** Among processes the higher version of a definition wins; absent: 0. */
  readonly version?: number
}

/** The guards in force, in µs: that of the rule, and that of a spacing beside it. */
export function guardsOf({ rule, guardUs = 0, defaultGuard }: LimitPolicy): { ruleUs: number; spacingUs: number } {
  const ruleUs = rule?.kind === 'fixed' ? rule.guardUs : guardUs
  return { ruleUs, spacingUs: defaultGuard ? 0 : ruleUs }
}

/** The guard of a bucket, for views. */
export interface GuardInForce {
  /** By how much it lengthens the window, the period or the interval. */
  readonly us: number
  /** It is the default of a sliding window: the policy names none. */
  readonly isDefault: boolean
}

/** The guard that a policy has; null: none. */
export function guardInForce(policy: LimitPolicy): GuardInForce | null {
  const { ruleUs: us } = guardsOf(policy)
  return us === 0 ? null : { us, isDefault: policy.defaultGuard === true }
}

/** Whether a policy keeps starts apart: a spacing, or a rate of which one unit may start at a time. */
export function isStrict({ rule, spacing, mode }: LimitPolicy): boolean {
  if (mode === 'shadow') return false
  return spacing !== undefined || rule?.kind === 'spacing' || (rule?.kind === 'rate' && rule.burst === 1)
}

/** How far a start of a strict policy keeps the next one off, in µs. */
export function gapUs({ rule, spacing }: LimitPolicy, weight: number): number {
  const everyUs = Math.max(spacing?.everyUs ?? 0, rule?.kind === 'spacing' ? rule.everyUs : 0)
  return rule?.kind === 'rate' && rule.burst === 1 ? Math.max(everyUs, (weight * rule.periodUs) / rule.rate) : everyUs
}

/** Whether a limit counts units over time. Spacing and permits count starts. */
export function countsUnits({ rule }: Pick<LimitPolicy, 'rule'>): boolean {
  return rule !== null && rule.kind !== 'spacing'
}

/**
 * Refuses to correct a charge of a limit that counts no units.
 * @param limit its name in the message
 * @throws {SluiceError} `option.invalid`
 */
export function checkCharge(limit: string, policy: LimitPolicy): void {
  if (!countsUnits(policy))
    throw new SluiceError(
      'option.invalid',
      `The limit ${limit} counts starts, not units: it takes no charge. Expected a limit with a rate or a window.`,
    )
}

/**
 * Refuses the same at a backend, where units that return to a limit of spacing give its last start back.
 * @throws {SluiceError} `option.invalid`
 */
export function checkCorrection(limit: string, policy: LimitPolicy, units: number): void {
  if (units >= 0 || policy.rule === null) checkCharge(limit, policy)
}

/** A declared limit. */
export interface LimitDefinition {
  readonly name: string
  readonly policy: LimitPolicy
  /** Compared between processes; 0 when not given. */
  readonly version: number
}

/**
 * The number of free permits, at least 0.
 *
 * @param concurrency the bound, 0 for a pause; null: unbounded, which gives Infinity.
 * @param active permits held; they may exceed a bound that was lowered.
 */
export function freePermits(concurrency: number | null, active: number): number {
  return concurrency === null ? Infinity : Math.max(0, concurrency - active)
}
