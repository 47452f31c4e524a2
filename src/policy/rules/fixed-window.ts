import { calendarStartUs, calendarWindow, windowsBetween } from './calendar.ts'
import { LATEST_US } from './exact.ts'
import type { FixedRule, WindowAlignment } from './rule.ts'

/** State of a fixed window: which one, and the units taken in it. More than the rule's bound is debt of the windows to come. */
export interface FixedState {
  kind: 'fixed'
  /** The start of the window that `used` counts; by the wall clock for calendar windows. */
  startUs: number
  used: number
  /** Units of this window alone that its bound, lowered since, has no room for: they count again when it is raised. */
  beyond: number
}

/** A window, in the store's time. */
interface Edges {
  readonly startUs: number
  readonly endUs: number
}

/** The window in which an instant lies. */
function windowAt(window: WindowAlignment, nowUs: number): Edges {
  if (window.align === 'epoch') {
    const startUs = Math.floor(nowUs / window.periodUs) * window.periodUs
    return { startUs, endUs: startUs + window.periodUs }
  }
  const offsetUs = window.wallOffsetUs ?? 0
  const { startUs, endUs } = calendarWindow(window.unit, window.timezone, nowUs + offsetUs)
  return { startUs: startUs - offsetUs, endUs: endUs - offsetUs }
}

/** The start of the n-th window after the one that holds `nowUs`; 0: that window itself. */
export function laterStartUs(window: WindowAlignment, nowUs: number, n: number): number {
  const { startUs, endUs } = windowAt(window, nowUs)
  if (n === 0) return startUs
  if (n === 1) return endUs
  if (window.align === 'epoch') return Math.min(startUs + n * window.periodUs, LATEST_US)
  const offsetUs = window.wallOffsetUs ?? 0
  const { unit, timezone } = window
  const { index } = calendarWindow(unit, timezone, nowUs + offsetUs)
  // Dates end where the state's instants end.
  const reach = Math.min(n, MOST_WINDOWS)
  return Math.min(calendarStartUs(unit, timezone, index + reach) - offsetUs, LATEST_US)
}

const MOST_WINDOWS = 2_000_000

/** Creates an unused window. */
export function newFixed(rule: FixedRule, nowUs: number): FixedState {
  return { kind: 'fixed', startUs: wallStart(rule, nowUs), used: 0, beyond: 0 }
}

/** The units that count in the window of `nowUs`. More than the bound means debt. */
export function fixedInUse(rule: FixedRule, state: FixedState, nowUs: number): number {
  const startUs = wallStart(rule, nowUs)
  // A state ahead of the clock counts as it is.
  if (startUs <= state.startUs) return state.used
  if (state.used <= rule.max) return 0
  return Math.max(0, state.used - rule.max * elapsed(rule.window, state.startUs, startUs))
}

/**
 * The first µs from `nowUs` at which `weight` units are granted if nothing is taken before.
 * More than `max` is granted by an unused window, and what exceeds it is paid by the windows that follow.
 */
export function fixedGrantUs(rule: FixedRule, state: FixedState, nowUs: number, weight: number): number {
  const at = Math.max(nowUs, aheadUs(rule, state, nowUs))
  const over = fixedInUse(rule, state, at) + Math.min(weight, rule.max) - rule.max
  const windows = over > 0 ? Math.ceil(over / rule.max) : 0
  if (windows > 0) return laterStartUs(rule.window, at, windows)
  // Too near to the end: the call might arrive when the next window has begun, and count there.
  const { endUs } = windowAt(rule.window, at)
  return at > endUs - rule.guardUs ? endUs : at
}

/** Takes units, without asking whether there are enough. */
export function chargeFixed(rule: FixedRule, state: FixedState, nowUs: number, weight: number): void {
  const startUs = wallStart(rule, nowUs)
  state.used = fixedInUse(rule, state, nowUs) + weight
  if (startUs <= state.startUs) return
  state.startUs = startUs
  state.beyond = 0
}

/** Gives back units that were taken at `chargedAtUs`, if that was in the window that counts now. */
export function refundFixed(rule: FixedRule, state: FixedState, weight: number, chargedAtUs: number): void {
  if (wallStart(rule, chargedAtUs) !== state.startUs) return
  const fromBeyond = Math.min(weight, state.beyond)
  state.beyond -= fromBeyond
  state.used = Math.max(0, state.used - weight + fromBeyond)
}

/** The state under another bound or other windows. A debt stays whole, and used units do not become one. */
export function adoptFixed(from: FixedRule, to: FixedRule, state: FixedState, nowUs: number): FixedState {
  const used = fixedInUse(from, state, nowUs)
  const debt = Math.max(0, used - from.max)
  const taken = used - debt + (wallStart(from, nowUs) <= state.startUs ? state.beyond : 0)
  const counted = Math.min(taken, to.max)
  return { kind: 'fixed', startUs: wallStart(to, nowUs), used: counted + debt, beyond: taken - counted }
}

/** The state after the clock went back. The used units count in the window of `nowUs`; a debt is forgiven. */
export function reclockFixed(rule: FixedRule, state: FixedState, nowUs: number): FixedState {
  return { ...state, startUs: wallStart(rule, nowUs), used: Math.min(state.used, rule.max) }
}

/** The store's instant at which a state that is ahead of the clock begins to be of the present. */
function aheadUs(rule: FixedRule, state: FixedState, nowUs: number): number {
  if (state.used === 0 || wallStart(rule, nowUs) >= state.startUs) return nowUs
  return state.startUs - wallOffsetUs(rule)
}

function elapsed(window: WindowAlignment, fromUs: number, toUs: number): number {
  if (window.align === 'epoch') return Math.floor(toUs / window.periodUs) - Math.floor(fromUs / window.periodUs)
  return windowsBetween(window.unit, window.timezone, fromUs, toUs)
}

function wallStart(rule: FixedRule, nowUs: number): number {
  return windowAt(rule.window, nowUs).startUs + wallOffsetUs(rule)
}

function wallOffsetUs(rule: FixedRule): number {
  return rule.window.align === 'calendar' ? (rule.window.wallOffsetUs ?? 0) : 0
}
