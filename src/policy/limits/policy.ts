/** A limit's policy as a user writes it, in code or in JSON; `limit.ts` has what it comes to. */
import type { Duration } from '../../base/duration.ts'
import type { OnLimit, OnMissingKey } from './limit.ts'

/**
 * Where a budget is corrected from. `direction`: `down` (default) or `both`. `reset`: what the other side means by it, that until then no more
 * than what remains may start (`window`, default), or that its bucket is full again then (`refill`). `budget`: which budget of an answer that
 * names several, as `tokens` of x-ratelimit-remaining-tokens or `daily` of `RateLimit: "daily";r=1`; default: the scarcest.
 */
export type Calibrate =
  | 'headers'
  | { from: 'headers'; direction?: 'down' | 'both'; reset?: 'window' | 'refill'; budget?: string }

/** What happens where a limit refuses, and how it counts. */
export interface PolicyOptions {
  /** `wait` (default), go back to be scheduled at the expected start, or be dropped at once. */
  onLimit?: OnLimit
  /** A job that cannot start within this time is rejected; default: it waits without bound. */
  maxWait?: Duration
  /** Whether a retry pays again; default `charge`. */
  retries?: 'charge' | 'free'
  /** Lengthens windows, intervals and periods by how much the way to the other side may vary; default 0. */
  guard?: Duration
  /** One budget for the whole fleet (default), or one for each worker. */
  scope?: 'fleet' | 'worker'
  /**
   * What `null`, `undefined` and `''` as a key mean: `unlimited` (the limit does not apply this time), `fail` (`limit.key.missing`) or
   * `shared` (one budget for all such jobs). Default: `null` and `''` are unlimited; `undefined`, or a path that is not there, fails.
   */
  onMissingKey?: OnMissingKey
  /**
   * Keeps the last `units` of every bucket, and as many of its permits, for jobs at or above `priority` (as they were enqueued with it):
   * another starts only where so many remain after it. Fewer than the burst, max or concurrency; not for spacing alone.
   */
  headroom?: { units: number; priority: number }
  /** Have `ctx.observe(response)` and `RateLimited.from(response)` correct the budget by the headers of an answer; default: they do not. */
  calibrate?: Calibrate
  /** Of two definitions in different processes the higher version wins; a whole number, default 0. */
  version?: number
}

type No<K extends string> = { [P in K]?: never }

/**
 * `rate` units per period, up to `burst` (default: `rate`) back to back after a quiet time.
 * So a quiet key may start nearly 2 × `rate` in its first period: for a hard window on the other side use `window: 'sliding'`.
 */
export type Rate = { rate: number; per: Duration; burst?: number; startEmpty?: boolean; every?: Duration } & No<
  'window' | 'max' | 'timezone'
>

/** At most `max` units per window: any window of that length, or those aligned to the epoch or to a calendar. */
export type Window = {
  window: 'sliding' | 'fixed'
  max: number
  per: Duration
  timezone?: string
  every?: Duration
} & No<'rate' | 'burst' | 'startEmpty'>

/** Never two starts closer than `every`; beside a rate or a window both hold. */
export type Spacing = { every: Duration } & No<'rate' | 'window' | 'max' | 'per' | 'burst' | 'startEmpty' | 'timezone'>

/** At most `concurrency` jobs at once, over the whole fleet; 0 pauses. */
export type Slots = { concurrency: number } & No<
  'rate' | 'window' | 'max' | 'per' | 'burst' | 'startEmpty' | 'every' | 'timezone'
>

/** What a limit allows: one rule over time, a rate or a window also with `every`, with or without a bound on jobs at once, or that bound alone. */
export type Policy = PolicyOptions & (({ concurrency?: number } & (Rate | Window | Spacing)) | Slots)
