/**
 * A limit's policy, normalised: what `limit(name, policy)` means once durations are microseconds and defaults are filled in.
 * Everything in `policy/` is pure: time is an argument, in integer microseconds of the store's clock.
 */
import type { CalendarUnit } from '../base/duration.ts'

/** Token bucket: `rate` units per period, up to `burst` back to back after a quiet time. */
export interface RateRule {
  readonly kind: 'rate'
  /** Units per period; integer ≥ 1. */
  readonly rate: number
  /** Period in µs, guard included. */
  readonly periodUs: number
  /** Units that may start back to back; integer ≥ 1. */
  readonly burst: number
  /** A new bucket begins with one token instead of a full burst. */
  readonly startEmpty: boolean
}

/** No half-open interval of `periodUs`, wherever it starts, holds more than `max` units. */
export interface SlidingRule {
  readonly kind: 'sliding'
  readonly max: number
  /** Window length in µs, guard included. */
  readonly periodUs: number
}

/** Where the windows of a fixed rule begin. */
export type WindowAlignment =
  | { readonly align: 'epoch'; readonly periodUs: number }
  | {
      readonly align: 'calendar'
      readonly unit: CalendarUnit
      /** IANA name. */
      readonly timezone: string
      /** What the wall clock shows minus the store's clock, in µs, for a store whose clock is steady; 0 by default. */
      readonly wallOffsetUs?: number
    }

/** At most `max` units per aligned window: aligned to the epoch, or to the calendar of a time zone. */
export interface FixedRule {
  readonly kind: 'fixed'
  readonly max: number
  readonly window: WindowAlignment
  /** Starts closer than this to the end of a window wait for the next one; 0 by default. */
  readonly guardUs: number
}

/** Never two starts closer than `everyUs`, guard included. */
export interface SpacingRule {
  readonly kind: 'spacing'
  readonly everyUs: number
}

/** A rule over time. */
export type Rule = RateRule | SlidingRule | FixedRule | SpacingRule

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
