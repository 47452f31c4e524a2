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
  /** Units already taken in the window after it, by starts granted ahead; absent: none. */
  next?: number
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
  const windows = elapsed(rule.window, state.startUs, startUs)
  if (!state.next) return paidOff(rule, state.used, windows)
  return paidOff(rule, Math.max(0, state.used - rule.max) + state.next, windows - 1)
}

/** The part of a window's units that counts so many windows later. */
function paidOff({ max }: FixedRule, used: number, windows: number): number {
  if (windows === 0) return used
  return used <= max ? 0 : Math.max(0, used - max * windows)
}

/**
 * The first µs from `nowUs` at which `weight` units are granted if nothing is taken before. More than `max` is granted
 * by an unused window, and what exceeds it is paid by the windows that follow.
 */
export function fixedGrantUs(rule: FixedRule, state: FixedState, nowUs: number, weight: number): number {
  const at = Math.max(nowUs, aheadUs(rule, state, nowUs))
  const over = fixedInUse(rule, state, at) + Math.min(weight, rule.max) - rule.max
  const windows = over > 0 ? Math.ceil(over / rule.max) : 0
  const { endUs } = windowAt(rule.window, at)
  // Too near to the end: the call might arrive when the next window has begun, and count there.
  const laterUs = windows > 0 ? laterStartUs(rule.window, at, windows) : at > endUs - rule.guardUs ? endUs : at
  return laterUs > at && state.next ? fixedGrantUs(rule, state, laterUs, weight) : laterUs
}

/** Takes units at `startUs`, in the clock's window or the one after it, without asking whether there are enough. */
export function chargeFixed(
  rule: FixedRule,
  state: FixedState,
  nowUs: number,
  weight: number,
  startUs: number = nowUs,
): void {
  enter(rule, state, nowUs)
  if (wallStart(rule, startUs) <= state.startUs) state.used += weight
  else state.next = (state.next ?? 0) + weight
}

/** Moves on to the window of the clock. */
function enter(rule: FixedRule, state: FixedState, nowUs: number): void {
  const startUs = wallStart(rule, nowUs)
  if (startUs <= state.startUs) return
  state.used = fixedInUse(rule, state, nowUs)
  state.startUs = startUs
  state.beyond = 0
  delete state.next
}

/** Whether an instant lies in the window of the clock or in the one after it. */
export function isNear(rule: FixedRule, nowUs: number, atUs: number): boolean {
  return elapsed(rule.window, wallStart(rule, nowUs), wallStart(rule, atUs)) <= 1
}

/** Gives back units that were taken at `chargedAtUs`, if that was in a window that counts now. */
export function refundFixed(rule: FixedRule, state: FixedState, weight: number, chargedAtUs: number): void {
  const startUs = wallStart(rule, chargedAtUs)
  if (state.next && startUs > state.startUs) {
    if (elapsed(rule.window, state.startUs, startUs) === 1) state.next = Math.max(0, state.next - weight)
    return
  }
  if (startUs !== state.startUs) return
  const fromBeyond = Math.min(weight, state.beyond)
  state.beyond -= fromBeyond
  state.used = Math.max(0, state.used - weight + fromBeyond)
}

/** The state under another bound or other windows. A debt stays whole, and used units do not become one. */
export function adoptFixed(from: FixedRule, to: FixedRule, state: FixedState, nowUs: number): FixedState {
  if (state.next) return adoptNext(from, to, { ...state }, nowUs)
  const atUs = aheadUs(from, state, nowUs)
  const used = fixedInUse(from, state, atUs)
  const debt = Math.max(0, used - from.max)
  const taken = used - debt + (wallStart(from, atUs) <= state.startUs ? state.beyond : 0)
  const counted = Math.min(taken, to.max)
  return { kind: 'fixed', startUs: wallStart(to, atUs), used: counted + debt, beyond: taken - counted }
}

/**
 * With units taken in the window after the running one: they count in the new window of that instant, for which all
 * then wait.
 */
function adoptNext(from: FixedRule, to: FixedRule, state: FixedState, nowUs: number): FixedState {
  enter(from, state, nowUs)
  const { next = 0, ...here } = state
  const nextUs = windowAt(from.window, nowUs).endUs
  const startUs = wallStart(to, nextUs)
  const isSame = wallStart(to, nowUs) === here.startUs && windowAt(to.window, nowUs).endUs === nextUs
  if (isSame) return { ...adoptFixed(from, to, here, nowUs), ...(next > 0 && { next }) }
  if (next === 0 || startUs === wallStart(to, nowUs))
    return adoptFixed(from, to, { ...here, used: here.used + next }, nowUs)
  const debt = Math.max(0, here.used - from.max)
  const counted = Math.min(next, to.max)
  return { kind: 'fixed', startUs, used: counted + debt, beyond: next - counted }
}

/** The state after the clock went back. The used units count in the window of `nowUs`; a debt is forgiven. */
export function reclockFixed(rule: FixedRule, state: FixedState, nowUs: number): FixedState {
  const { next = 0, ...here } = state
  return { ...here, startUs: wallStart(rule, nowUs), used: Math.min(state.used + next, rule.max) }
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
