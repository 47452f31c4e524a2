/** One booked start of a bucket: how it is noted, moved by those before it, and begun. */
import { laterStartUs } from '../rules/fixed-window.ts'
import { LATEST_US } from '../rules/exact.ts'
import type { RateState } from '../rules/token-bucket.ts'
import { type BookableState, type Booked, RESERVATION_LAPSES_US } from './booked.ts'
import type { LimitPolicy } from './limit.ts'
import type { Timeline } from './timeline.ts'

/** The part of a reservation that is about one bucket. */
export interface BookedUse {
  /** `lateUs` of the bucket when it was booked. */
  readonly lateUs: number
  /** `backUs` of the bucket when it was booked. */
  readonly backUs: number
  /** How late the start may begin without any harm, in µs; null: at any time. */
  readonly graceUs: number | null
  /** Its charge; absent: of an earlier version, or of windows alone. */
  readonly charged?: Charged
}

/** The charge of a booked start, as `charge-across.ts` gives it back. */
export interface Charged {
  /** The last change of the limit before it. */
  readonly revision: number
  /** The clock then. */
  readonly atUs: number
  /** The bucket before and after it, as text. */
  readonly before: string
  readonly after: string
  /** The interval of the spacing at its instant; absent: the limit has none. */
  readonly everyUs?: number
  /** The last end of an override before its instant: the charge is of the rules after it. Absent: none ends. */
  readonly endsUs?: number
}

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
  const dueUs = movedUs(state, use, startUs)
  const overUs = nowUs - dueUs - Math.min(graceLeft(state, use), guardedUs(policy, dueUs))
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
  return rule.kind === 'fixed' ? guardedUs({ rule }, startUs) : 0
}

/** How late a start may begin within its fixed window, in µs; Infinity: another rule decides. */
function guardedUs({ rule }: Pick<LimitPolicy, 'rule'>, startUs: number): number {
  if (rule?.kind !== 'fixed') return Infinity
  return Math.max(0, laterStartUs(rule.window, startUs, 1) - rule.guardUs - startUs - 1)
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

/**
 * Whether the limit bears fewer starts in some time than at an earlier instant: a start of then that begins only now may
 * not follow others as closely as it was booked.
 */
export function isStricterSince(timeline: Timeline, key: string, atUs: number): boolean {
  const [from, to] = [timeline.earlier(key, atUs), timeline.at(key)]
  if (from.revision === to.revision) return false
  return from.policy !== null && to.policy !== null && isStricter(to.policy, from.policy)
}

/** A fixed window counts its starts wherever they lie in it. */
function isStricter({ rule, spacing }: LimitPolicy, { rule: from, spacing: before }: LimitPolicy): boolean {
  if ((spacing?.everyUs ?? 0) > (before?.everyUs ?? 0)) return true
  if (rule === null) return false
  if (rule.kind === 'spacing' && from?.kind === 'spacing') return rule.everyUs > from.everyUs
  if (rule.kind === 'sliding' && from?.kind === 'sliding') return rule.max < from.max || rule.periodUs > from.periodUs
  if (rule.kind === 'rate' && from?.kind === 'rate')
    return rule.burst < from.burst || rule.rate / rule.periodUs < from.rate / from.periodUs
  if (rule.kind === 'fixed' && from?.kind === 'fixed')
    return JSON.stringify(rule.window) !== JSON.stringify(from.window)
  return true
}
