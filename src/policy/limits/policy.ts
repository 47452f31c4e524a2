/** A limit's policy as a user writes it, in code or in JSON; `limit.ts` has the normalised form. */
import type { Duration } from '../../base/duration.ts'
import type { LimitUse } from './limit-use.ts'
import type { OnLimit, OnMissingKey } from './limit.ts'

/**
 * The source that corrects a budget. `direction`: `down` (default) or `both`. `reset`: `window` (default) lets only the
 * remaining units start until the reset; `refill` means that the bucket is full then. `budget`: the budget to use if an
 * answer names several, as `tokens` of x-ratelimit-remaining-tokens or `daily` of `RateLimit: "daily";r=1`; default:
 * the scarcest.
 */
export type Calibrate =
  | 'headers'
  | { from: 'headers'; direction?: 'down' | 'both'; reset?: 'window' | 'refill'; budget?: string }

/** A limit that several share, and the part of it that each budget has for certain. */
export interface CommonLimit {
  /** The common limit, or a use of it: `outbound`, `outbound.by((input) => input.region)`. It has no `of` itself. */
  limit: LimitUse<never>
  /**
   * The guaranteed part: a rate, an interval, permits, or a rate with permits, such as `'5/s'`, `{ rate: 5, per: '1s' }`,
   * `{ every: '200ms' }` or `{ concurrency: 1 }`. At most the limit's own. A rate or an interval needs a rate, a sliding
   * window or `every` in the common limit; permits need permits on both sides. `burst` starts, by default `rate`, are
   * guaranteed back to back after a quiet time.
   */
  atLeast:
    | string
    | { rate: number; per: Duration; burst?: number; concurrency?: number }
    | { every: Duration; concurrency?: number }
    | { concurrency: number }
  /**
   * The number of keys that have the guarantee; 1 to 1,000,000. Counted by `overcommit`, and for the units that others
   * leave in the common limit. Default: 1 counts, and others leave half of the burst.
   */
  keys?: number
  /** If the guarantees add up to more than the common limit: an error (default), or each has less. */
  overcommit?: 'refuse' | 'scale'
}

/** How a limit counts, and how it treats a job that it refuses. */
export interface PolicyOptions {
  /** `wait` (default), go back to be scheduled at the expected start, or be dropped at once. */
  onLimit?: OnLimit
  /** Rejects a job that cannot start within this time; default: it waits without bound. */
  maxWait?: Duration
  /** Whether a retry pays again; default `charge`. */
  retries?: 'charge' | 'free'
  /**
   * Lengthens windows, intervals and periods to absorb jitter on the way to the API. Default: 2 % of a sliding window,
   * at most 20 ms; 0 for every other rule.
   */
  guard?: Duration
  /** One budget for the whole fleet (default), or one for each worker. */
  scope?: 'fleet' | 'worker'
  /**
   * The name of the backend that keeps its budgets, as `budgets` of `new Sluice` calls it; default: the store of the
   * jobs. Windows, intervals and periods are then longer by the greater of `guard` and a hundredth of the period, which
   * is at least 5 ms and at most 250 ms. Jobs that are refused wait: not with `onLimit`, `retries: 'free'` or `scope`.
   */
  backend?: string
  /**
   * The effect of a missing key: `unlimited` (the limit does not apply this time), `fail` (`limit.key.missing`) or
   * `shared` (one budget for all such jobs). By default `null` and `''` are unlimited; `undefined`, or an absent path,
   * fails.
   */
  onMissingKey?: OnMissingKey
  /**
   * Keeps the last `units` of every bucket, and as many of its permits, for jobs enqueued at or above `priority`. Other
   * jobs start only if that many remain afterwards. Must be below the burst, max or concurrency. Not for spacing alone.
   */
  headroom?: { units: number; priority: number }
  /**
   * Lets `ctx.observe(response)` and `RateLimited.from(response)` correct the budget by the headers of an answer;
   * default: off.
   */
  calibrate?: Calibrate
  /**
   * `enforce` (default), or `shadow`: the limit charges and tells what it would have done (`rate_limit.shadow`,
   * `limits.inspect`), and admits every start. A penalty and a pause still close it.
   */
  mode?: 'enforce' | 'shadow'
  /**
   * A common limit that each start pays to as well, and the share of it that is guaranteed. In `limit(name, policy)`, and
   * in the limits of a server's configuration, where `limit` is a name.
   */
  of?: CommonLimit
  /** The higher version wins if processes define the limit differently; a whole number, default 0. */
  version?: number
}

type No<K extends string> = { [P in K]?: never }

/**
 * `rate` units per period, up to `burst` (default: `rate`) back to back after a quiet time. So a quiet key may start
 * nearly 2 × `rate` in its first period. For an API with a hard window use `window: 'sliding'`.
 */
export type Rate = { rate: number; per: Duration; burst?: number; startEmpty?: boolean; every?: Duration } & No<
  'window' | 'max' | 'timezone' | 'policy'
>

/** At most `max` units per window: any window of that length, or those aligned to the epoch or to a calendar. */
export type Window = {
  window: 'sliding' | 'fixed'
  max: number
  per: Duration
  timezone?: string
  every?: Duration
} & No<'rate' | 'burst' | 'startEmpty' | 'policy'>

/** Keeps starts at least `every` apart. Beside a rate or a window, both must admit a start. */
export type Spacing = { every: Duration } & No<
  'rate' | 'window' | 'max' | 'per' | 'burst' | 'startEmpty' | 'timezone' | 'policy'
>

/** Runs at most `concurrency` jobs at once across the fleet; 0 pauses. */
export type Slots = { concurrency: number } & No<
  'rate' | 'window' | 'max' | 'per' | 'burst' | 'startEmpty' | 'every' | 'timezone' | 'policy'
>

/** The rules as text, such as `'100/m'`, `'15/min burst 5'`, `'1 per 200ms'` or `'5 at once'`, beside options. */
export type Written = { policy: string; startEmpty?: boolean; concurrency?: number } & No<
  'rate' | 'window' | 'max' | 'per' | 'burst' | 'every' | 'timezone'
>

/**
 * The rules of a limit: a rate or a window, each also with `every`; a spacing alone; or a bound on jobs at once.
 * `concurrency` may join any of them.
 */
export type Policy = PolicyOptions & (({ concurrency?: number } & (Rate | Window | Spacing)) | Slots | Written)
