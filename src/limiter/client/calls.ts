/** The arguments and answers of a limiter's calls. */
import type { Duration } from '../../base/duration.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { Permit } from './permit.ts'
import type { Use } from './uses.ts'

/** How long a call waits, and its place in the line. */
export interface AcquireOptions {
  /** `true` (default): without bound; `false`: an answer at once; or a duration. */
  wait?: Duration | boolean
  /** −100 to 100, default 0: higher goes first, and may use the headroom of limits that have one. */
  priority?: number
  /** Its abort ends the wait, and rejects with its reason. */
  signal?: AbortSignal
}

/** The options of `run`. */
export interface RunOptions extends AcquireOptions {
  /**
   * A start that was granted before, as by `confirm`: `run` takes no second one, and releases it. It must have taken
   * all units that the run names, or the run is refused with `option.invalid`.
   */
  permit?: Permit
}

/** The context of a function that `run` calls. */
export interface RunContext {
  /** Aborts with the caller's signal, or with `lease.lost`. */
  readonly signal: AbortSignal
  /** Corrects the cost of this start: positive units are taken too, negative ones return. */
  charge(use: Use, units: number): Promise<void>
  /** Reads an API's answer: a refusal (429) closes the bucket, headers correct limits with `calibrate`. */
  observe(answer: Answer): Promise<void>
}

/** The events of a limiter, with their payloads. */
export interface LimiterEvents {
  /** The backend cannot be reached. It is told once. */
  'rate_limit.backend_down': { readonly error: unknown }
  /** The backend answers again. `granted`: starts that went on without a budget meanwhile. */
  'rate_limit.backend_up': { readonly downMs: number; readonly granted: number }
  /** The backend lost the limits, and this process defined them again. Their buckets are new. */
  'rate_limit.backend_reset': Readonly<Record<string, never>>
  /** An answer closed a bucket (`remaining` null), or bounded it. */
  'rate_limit.dynamic_adjusted': {
    readonly limit: string
    readonly key: string
    readonly until: Date
    readonly remaining: number | null
  }
}

/** A booked start. */
export interface Reservation {
  readonly id: string
  /** Milliseconds from now, fractions included. */
  readonly startAfterMs: number
}

/** The answer at the start of a reservation: `go`, `wait` so long and confirm again, or it is `gone`. */
export type Confirmed =
  | { readonly kind: 'go'; readonly permit: Permit }
  | { readonly kind: 'wait'; readonly startAfterMs: number }
  | { readonly kind: 'gone' }
