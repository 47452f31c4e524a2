import { LATEST_US } from './exact.ts'
import type { SlidingRule } from './rule.ts'

/** The most starts at distinct instants that are kept exactly. Beyond that the log uses sub-slots. */
export const EXACT_ENTRIES = 1024

/** Sub-slots per window. One more may be partly covered, so 64 of 65 parts stay usable: 98.46 %. */
export const SUB_SLOTS = 64

/**
 * State of a sliding window: the starts and their times.
 *
 * A log beyond its bound becomes a ring of sub-slots: one entry per sub-slot, dated by its last start, so that a partly
 * covered sub-slot counts whole. Both are the same kind of list, so a conversion loses no units.
 */
export interface SlidingState {
  kind: 'sliding'
  /** Instant, units, instant, units …, oldest first. */
  log: number[]
  /** Units in the log. */
  used: number
  /**
   * Units beyond the window's bound. The log holds at least `max` units while there is debt. Debt replaces units that
   * leave the log, so it is paid at the window's own pace.
   */
  debt: number
  /** Whether the log is a ring of sub-slots. */
  coarse: boolean
}

/** Creates an unused window. */
export function newSliding(): SlidingState {
  return { kind: 'sliding', log: [], used: 0, debt: 0, coarse: false }
}

/**
 * The first µs, perhaps past, at which `weight` units are granted if nothing is taken before. More than `max` is
 * granted by an empty window, which then goes into debt.
 */
export function slidingGrantUs(rule: SlidingRule, state: SlidingState, weight: number): number {
  const { log, used } = state
  const needed = state.debt + Math.min(weight, rule.max) + used - rule.max
  if (needed <= 0) return 0
  if (needed <= used) return instantOfUnit(log, needed) + rule.periodUs
  // All of the log has to leave and be replaced by debt, perhaps several times over.
  const excess = Math.max(0, used - rule.max)
  const rest = needed - used
  const cycles = Math.floor((rest - 1) / rule.max)
  const us = instantOfUnit(log, excess + rest - cycles * rule.max) + (cycles + 2) * rule.periodUs
  return Math.min(us, LATEST_US)
}

/**
 * Takes units at `startUs`, without asking whether there are enough. Units leave the log by the clock: one that leaves
 * by `startUs` still counts for an earlier start.
 */
export function chargeSliding(
  rule: SlidingRule,
  state: SlidingState,
  nowUs: number,
  weight: number,
  startUs: number = nowUs,
): void {
  expire(rule, state, nowUs)
  const used = startUs > nowUs ? slidingInUse(rule, state, startUs) : state.used
  const fitting = state.debt > 0 ? 0 : Math.min(weight, Math.max(0, rule.max - used))
  state.debt += weight - fitting
  if (fitting > 0) append(rule, state, startUs, fitting)
}

/** Gives back units that were taken at `chargedAtUs`, as far as they are still counted. */
export function refundSliding(
  rule: SlidingRule,
  state: SlidingState,
  nowUs: number,
  weight: number,
  chargedAtUs: number,
): void {
  expire(rule, state, nowUs)
  if (chargedAtUs + rule.periodUs <= nowUs) return
  const paid = Math.min(state.debt, weight)
  state.debt -= paid
  const { log } = state
  let rest = weight - paid
  for (let i = log.length - 2; i >= 0 && rest > 0; i -= 2) {
    const atUs = log[i] ?? 0
    if (atUs < chargedAtUs) break
    const same = state.coarse ? slotOf(rule, atUs) === slotOf(rule, chargedAtUs) : atUs === chargedAtUs
    if (!same) continue
    const back = Math.min(rest, log[i + 1] ?? 0)
    log[i + 1] = (log[i + 1] ?? 0) - back
    state.used -= back
    rest -= back
    if (log[i + 1] === 0) log.splice(i, 2)
  }
}

/** Units that count at `nowUs`, debt included. */
export function slidingInUse(rule: SlidingRule, state: SlidingState, nowUs: number): number {
  if (state.debt > 0) {
    const copy = { ...state, log: [...state.log] }
    expire(rule, copy, nowUs)
    return copy.used + copy.debt
  }
  let { used } = state
  for (let i = 0; i < state.log.length && (state.log[i] ?? 0) + rule.periodUs <= nowUs; i += 2)
    used -= state.log[i + 1] ?? 0
  return used
}

/** Units of debt at `nowUs`. */
export function slidingDebt(rule: SlidingRule, state: SlidingState, nowUs: number): number {
  return state.debt === 0 ? 0 : Math.min(state.debt, Math.max(0, slidingInUse(rule, state, nowUs) - rule.max))
}

/** Removes entries that left the window by `nowUs`, and pays debt from the freed units. */
export function expire(rule: SlidingRule, state: SlidingState, nowUs: number): void {
  if (state.debt > 0) payDebt(rule, state, nowUs)
  const { log } = state
  let gone = 0
  for (; gone < log.length && (log[gone] ?? 0) + rule.periodUs <= nowUs; gone += 2) state.used -= log[gone + 1] ?? 0
  if (gone > 0) log.splice(0, gone)
  if (log.length === 0) state.coarse = false
}

/** The state under another bound or length: what had left the old window does not come back. */
export function adoptSliding(from: SlidingRule, to: SlidingRule, state: SlidingState, nowUs: number): SlidingState {
  const next = { ...state, log: [...state.log] }
  expire(from, next, nowUs)
  const { debt } = next
  next.debt = 0
  expire(to, next, nowUs)
  if (debt > 0) chargeSliding(to, next, nowUs, debt)
  return next
}

/** The state after the clock went back by `byUs`: as full as at the last change. A debt is forgiven. */
export function reclockSliding(state: SlidingState, byUs: number, nowUs: number): SlidingState {
  const log = state.log.map((value, i) => (i % 2 === 0 ? Math.min(value - byUs, nowUs) : value))
  return { ...state, log, debt: 0 }
}

function append(rule: SlidingRule, state: SlidingState, nowUs: number, units: number): void {
  const { log } = state
  state.used += units
  const last = log.length - 2
  const lastUs = log[last] ?? -Infinity
  // An entry may be dated later than it was, never earlier: then it counts for longer.
  if (last >= 0 && (lastUs >= nowUs || (state.coarse && slotOf(rule, lastUs) === slotOf(rule, nowUs)))) {
    log[last] = Math.max(lastUs, nowUs)
    log[last + 1] = (log[last + 1] ?? 0) + units
    return
  }
  log.push(nowUs, units)
  if (log.length > 2 * EXACT_ENTRIES) coarsen(rule, state)
}

function coarsen(rule: SlidingRule, state: SlidingState): void {
  const ring: number[] = []
  for (let i = 0; i < state.log.length; i += 2) {
    const atUs = state.log[i] ?? 0
    const units = state.log[i + 1] ?? 0
    const last = ring.length - 2
    if (last >= 0 && slotOf(rule, ring[last] ?? 0) === slotOf(rule, atUs)) {
      ring[last] = atUs
      ring[last + 1] = (ring[last + 1] ?? 0) + units
    } else ring.push(atUs, units)
  }
  state.log = ring
  state.coarse = true
}

function slotOf(rule: SlidingRule, atUs: number): number {
  return Math.floor(atUs / Math.ceil(rule.periodUs / SUB_SLOTS))
}

/** Every unit that leaves the log before `nowUs` is replaced by one of debt, at the instant at which it left. */
function payDebt(rule: SlidingRule, state: SlidingState, nowUs: number): void {
  const { log } = state
  const { max, periodUs } = rule
  if (state.used === max && log.length > 0) {
    // Whole turns at once, so that a large debt costs no more than a small one.
    const turns = Math.min(Math.floor((nowUs - (log.at(-2) ?? 0)) / periodUs), Math.floor(state.debt / max))
    if (turns > 0) {
      for (let i = 0; i < log.length; i += 2) log[i] = (log[i] ?? 0) + turns * periodUs
      state.debt -= turns * max
    }
  }
  let gone = 0
  while (state.debt > 0 && gone < log.length && (log[gone] ?? 0) + periodUs <= nowUs) {
    const freeUs = (log[gone] ?? 0) + periodUs
    state.used -= log[gone + 1] ?? 0
    gone += 2
    const paid = Math.min(state.debt, Math.max(0, max - state.used))
    if (paid === 0) continue
    state.debt -= paid
    state.used += paid
    if (log.at(-2) === freeUs) log[log.length - 1] = (log.at(-1) ?? 0) + paid
    else log.push(freeUs, paid)
  }
  log.splice(0, gone)
}

/** The instant of the n-th unit of a log, counted from its oldest, from 1. */
function instantOfUnit(log: readonly number[], n: number): number {
  let count = 0
  for (let i = 0; i < log.length; i += 2) {
    count += log[i + 1] ?? 0
    if (count >= n) return log[i] ?? 0
  }
  return log.at(-2) ?? 0
}
