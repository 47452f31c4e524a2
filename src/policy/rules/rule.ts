/**
 * The rules over time, once durations are microseconds and defaults are filled in. Everything in `policy/` is pure:
 * time is an argument, in integer microseconds of the store's clock.
 */
import type { CalendarUnit } from '../../base/duration.ts'

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

/** The alignment of a fixed rule's windows. */
export type WindowAlignment =
  | { readonly align: 'epoch'; readonly periodUs: number }
  | {
      readonly align: 'calendar'
      readonly unit: CalendarUnit
      /** IANA name. */
      readonly timezone: string
      /** The wall clock's reading minus the store's clock, in µs, for a store with a steady clock; 0 by default. */
      readonly wallOffsetUs?: number
    }

/** At most `max` units per aligned window: aligned to the epoch, or to the calendar of a time zone. */
export interface FixedRule {
  readonly kind: 'fixed'
  readonly max: number
  readonly window: WindowAlignment
  /** Starts closer than this to the end of a window wait for the next one, in µs; 0 by default. */
  readonly guardUs: number
}

/** Never two starts closer than `everyUs`, guard included. */
export interface SpacingRule {
  readonly kind: 'spacing'
  readonly everyUs: number
}

/** A rule over time. */
export type Rule = RateRule | SlidingRule | FixedRule | SpacingRule
