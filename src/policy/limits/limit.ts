/**
 * A limit's policy, normalised: what `limit(name, policy)` means once durations are microseconds and defaults are filled in.
 * Everything in `policy/` is pure: time is an argument, in integer microseconds of the store's clock.
 */
import type { Rule, SpacingRule } from '../rules/rule.ts'

/** What happens to a job that its buckets refuse. */
export type OnLimit = 'wait' | 'reschedule' | 'drop'

/** The last units of a bucket, kept for jobs at or above a priority; its permits likewise. */
export interface Headroom {
  /** Integer ≥ 1, less than the bucket holds. */
  readonly units: number
  /** −100 to 100, as jobs are given it: ageing lends no right to the reserve. */
  readonly priority: number
}

/** What a use without a partition key means: not limited this time, an error, or the one bucket that all such jobs share. */
export type OnMissingKey = 'unlimited' | 'fail' | 'shared'

/** How the other side's answers correct a bucket. */
export interface Calibration {
  /** `down`: it only ever allows less than its rules; `both`: it is also refilled when the other side has more left. */
  readonly direction: 'down' | 'both'
  /** What the other side's reset means: until then no more than what remains (`window`), or when it is full again (`refill`). */
  readonly reset: 'window' | 'refill'
  /** Which of several budgets in one answer is this one; null: the scarcest. */
  readonly budget: string | null
}

/** One limit's policy: at most one rule over time, beside a rate or a window a spacing, and at most one bound on jobs running at once. */
export interface LimitPolicy {
  readonly rule: Rule | null
  /** Beside a rate or a window, which must admit a start too; absent: none. A spacing alone is the rule. */
  readonly spacing?: SpacingRule
  /** Permits held by active jobs, fleet-wide; 0 pauses; null: unbounded. */
  readonly concurrency: number | null
  readonly onLimit: OnLimit
  /** A job that cannot start within this many µs of becoming available is rejected; null: waits without bound. */
  readonly maxWaitUs: number | null
  /** Whether a retry pays again. `free` waives the rule over time, never concurrency. */
  readonly retries: 'charge' | 'free'
  /** Whether the budget is one for the whole fleet (absent: it is) or one for each worker. */
  readonly scope?: 'fleet' | 'worker'
  /** Absent: `null` and `''` are not limited this time, `undefined` is an error. */
  readonly onMissingKey?: OnMissingKey
  /** How much of the rule's period or interval is guard, in µs; absent: 0. A fixed rule has its own. */
  readonly guardUs?: number
  /** Absent: every unit is for every job. */
  readonly headroom?: Headroom
  /** What of the other side's answers corrects the buckets; absent: nothing. */
  readonly calibrate?: Calibration
  /** Between processes the higher version of a definition wins; absent: 0. */
  readonly version?: number
}

/** A declared limit. */
export interface LimitDefinition {
  readonly name: string
  readonly policy: LimitPolicy
  /** Compared between processes; 0 when not given. */
  readonly version: number
}
