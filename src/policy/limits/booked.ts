/**
 * The starts of a bucket that are booked and have not begun. Their units count from their booked instants. One that
 * begins later than the rule can bear moves all that were booked after it by as much, so that they do not begin together
 * with it. A bucket keeps this record only while starts are booked.
 */
import type { RuleState } from '../rules/rule-state.ts'
import type { SpacingState } from '../rules/spacing.ts'

/** The parts of a bucket that booked starts concern. */
export interface BookableState {
  rule: RuleState | null
  spacing?: SpacingState
  booked?: Booked
}

/** The record of the booked starts of a bucket. */
export interface Booked {
  /** By how much late starts have moved the booked ones, in µs. It only grows. */
  lateUs: number
  /** By how much units that were given back have moved the TAT of a rate back, in µs. It only grows. */
  backUs: number
  /** The latest instant that a start took, without that move. */
  startedUs: number
  /** Starts that are booked and have not begun. */
  count: number
  /** The record ends then, even if some never begin. */
  untilUs: number
}

/** How long a reservation may stay unconfirmed after its start, in µs. */
export const RESERVATION_LAPSES_US = 600_000_000

/** Notes a start that was not booked. */
export function noteStart({ booked }: BookableState, nowUs: number): void {
  if (booked) booked.startedUs = Math.max(booked.startedUs, nowUs - booked.lateUs)
}

/** Does what moves the TAT of a rate back: a booked start may then begin less late. */
export function noteBack<T>(state: BookableState, work: () => T): T {
  const { rule, booked } = state
  const before = booked && rule && { ...rule }
  const result = work()
  if (booked && before) state.booked = movedBack(booked, before, state.rule)
  return result
}

/** The record after the state of the rule has changed. */
export function movedBack(booked: Booked, from: RuleState | null, to: RuleState | null): Booked {
  if (from?.kind !== 'rate' || to?.kind !== 'rate') return booked
  return { ...booked, backUs: booked.backUs + Math.max(0, from.tatUs - to.tatUs) }
}
