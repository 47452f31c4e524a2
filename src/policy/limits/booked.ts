/**
 * The starts of a bucket that are booked and have not begun. Their units count from their booked instants. One that
 * begins later than the rule can bear moves all that were booked after it by as much, so that they do not begin together
 * with it. A bucket keeps this record only while starts are booked.
 */
import { laterStartUs } from '../rules/fixed-window.ts'
import { LATEST_US } from '../rules/exact.ts'
import type { RuleState } from '../rules/rule-state.ts'
import type { SpacingState } from '../rules/spacing.ts'
import type { RateState } from '../rules/token-bucket.ts'
import type { LimitPolicy } from './limit.ts'

/** The parts of a bucket that booked starts concern. */
interface BookableState {
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

/** The part of a reservation that is about one bucket. */
export interface BookedUse {
  /** `lateUs` of the bucket when it was booked. */
  readonly lateUs: number
  /** `backUs` of the bucket when it was booked. */
  readonly backUs: number
  /** How late the start may begin without any harm, in µs; null: at any time. */
  readonly graceUs: number | null
  /** Its charge, if an override of the bucket ends before it. Absent: none does. */
  readonly across?: Across
}

/** The charge of a start for after the end of an override: the state before and after it, as `charge-across.ts` has it. */
export interface Across {
  /** The last such end. */
  readonly endsUs: number
  readonly before: readonly number[]
  readonly after: readonly number[]
}

/** How long a reservation may stay unconfirmed after its start, in µs. */
export const RESERVATION_LAPSES_US = 600_000_000

const UNBOOKED: Booked = { lateUs: 0, backUs: 0, startedUs: 0, count: 0, untilUs: 0 }

/** Notes a start that is booked at `startUs`. Call it before its units are charged. */
export function noteBooked(policy: LimitPolicy, state: BookableState, startUs: number): BookedUse {
  const { lateUs, backUs, count, startedUs, untilUs } = state.booked ?? UNBOOKED
  const graceUs = graceOf(policy, state, startUs)
  const lapsesUs = startUs + RESERVATION_LAPSES_US
  state.booked = { lateUs, backUs, startedUs, count: count + 1, untilUs: Math.max(untilUs, lapsesUs) }
  return { lateUs, backUs, graceUs }
}

/** Notes that a booked start is over: it has begun, or was given back. */
export function forgetBooked(state: BookableState): void {
  const { booked } = state
  if (!booked) return
  booked.count--
  if (booked.count <= 0) delete state.booked
}

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

/** The instant of a booked start, as late starts have moved it. */
export function movedUs({ booked }: BookableState, { lateUs }: BookedUse, startUs: number): number {
  return startUs + Math.max(0, (booked?.lateUs ?? 0) - lateUs)
}

/**
 * By how much a booked start that begins now moves those after it, in µs. Null: it cannot begin, since a start that was
 * booked for later, or no booked one at all, has taken its place.
 */
export function moveOf(
  policy: LimitPolicy,
  state: BookableState,
  use: BookedUse,
  startUs: number,
  nowUs: number,
): number | null {
  if (use.graceUs === null) return 0
  const overUs = nowUs - movedUs(state, use, startUs) - graceLeft(state, use)
  if (overUs <= 0) return 0
  const { booked } = state
  const { rule } = policy
  if (!booked || rule?.kind === 'fixed') return null
  // Its units have left the window.
  if (rule?.kind === 'sliding' && overUs >= rule.periodUs) return null
  return startUs - use.lateUs < booked.startedUs ? null : overUs
}

/** Begins a booked start now, and moves those after it. Its units count from now on. @param byUs as `moveOf` says */
export function beginBooked(state: BookableState, use: BookedUse, startUs: number, byUs: number, nowUs: number): void {
  const { booked } = state
  if (state.rule?.kind === 'rate')
    metLate(state.rule, movedUs(state, use, startUs) + graceLeft(state, use) - nowUs, nowUs)
  if (!booked) return
  booked.startedUs = Math.max(booked.startedUs, startUs - use.lateUs)
  if (byUs > 0) {
    moveFrom(state, movedUs(state, use, startUs), byUs)
    booked.lateUs += byUs
  }
  forgetBooked(state)
}

/** How late a start may begin and leave the bucket as if it had begun in time, in µs; null: as late as one likes. */
function graceOf({ rule, spacing }: LimitPolicy, { rule: state }: BookableState, startUs: number): number | null {
  if (spacing) return 0
  if (rule === null) return null
  // Until the TAT, a start counts from there and not from its own instant.
  if (rule.kind === 'rate' && state?.kind === 'rate') return Math.max(0, state.tatUs - startUs)
  if (rule.kind === 'fixed') return Math.max(0, laterStartUs(rule.window, startUs, 1) - rule.guardUs - startUs - 1)
  return 0
}

/** A refund of earlier units must not reach further back than the units that begin now found the bucket to be full. */
function metLate(state: RateState, toFullUs: number, nowUs: number): void {
  state.slackUs = Math.min(state.slackUs, Math.max(0, toFullUs))
  state.lastUs = Math.max(state.lastUs, nowUs)
}

function graceLeft({ booked }: BookableState, { graceUs, backUs }: BookedUse): number {
  return Math.max(0, (graceUs ?? 0) - ((booked?.backUs ?? 0) - backUs))
}

/** Moves what was charged at `fromUs` or later. */
function moveFrom(state: BookableState, fromUs: number, byUs: number): void {
  const { rule, spacing } = state
  if (spacing) spacing.nextUs = later(spacing.nextUs, byUs)
  if (rule?.kind === 'spacing') rule.nextUs = later(rule.nextUs, byUs)
  if (rule?.kind === 'sliding')
    rule.log = rule.log.map((value, i) => (i % 2 === 0 && value >= fromUs ? later(value, byUs) : value))
  if (rule?.kind !== 'rate') return
  rule.tatUs = later(rule.tatUs, byUs)
  if (rule.lastUs >= fromUs) rule.lastUs = later(rule.lastUs, byUs)
  if (rule.fullUs >= fromUs) rule.fullUs = later(rule.fullUs, byUs)
}

function later(us: number, byUs: number): number {
  return Math.min(us + byUs, LATEST_US)
}
