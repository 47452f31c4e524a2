import { LATEST_US, quotient, remainder } from './exact.ts'
import type { RateRule } from './rule.ts'

/**
 * State of a token bucket, as the Generic Cell Rate Algorithm keeps it. The theoretical arrival time (TAT) is the
 * instant at which the bucket is full again. It is `tatUs + rem / rate` µs, since no whole number of µs holds 10/3 s.
 *
 * Source: ITU-T I.371 and ATM Forum Traffic Management 4.0, virtual scheduling. The weights and the remainder are our
 * own.
 */
export interface RateState {
  kind: 'rate'
  tatUs: number
  /** In 1/rate µs; 0 ≤ rem < rate. */
  rem: number
  /** The last instant at which units were taken. */
  lastUs: number
  /** The last instant at which units were taken from a full bucket. Units taken earlier have been refilled. */
  fullUs: number
  /** The least time to full that takings after `fullUs` met; Infinity: none yet. It bounds a refund. */
  slackUs: number
}

/** Creates an unused bucket: full, or with one token under `startEmpty`. */
export function newRate(rule: RateRule, nowUs: number): RateState {
  const state: RateState = { kind: 'rate', tatUs: nowUs, rem: 0, lastUs: nowUs, fullUs: nowUs, slackUs: Infinity }
  if (rule.startEmpty) addUnits(rule, state, rule.burst - 1)
  return state
}

/**
 * The first µs, perhaps past, at which `weight` units are granted if nothing is taken before. More than the burst is
 * granted by a full bucket, which then goes into debt: nothing freezes.
 */
export function rateGrantUs(rule: RateRule, state: RateState, weight: number): number {
  const spare = rule.burst - Math.min(weight, rule.burst)
  return state.tatUs - quotient(spare, rule.periodUs, -state.rem, rule.rate)
}

/** Takes units, without asking whether there are enough. */
export function chargeRate(rule: RateRule, state: RateState, nowUs: number, weight: number): void {
  if (isBehind(state, nowUs)) {
    state.tatUs = nowUs
    state.rem = 0
    state.fullUs = nowUs
    state.slackUs = Infinity
  } else if (nowUs !== state.lastUs) {
    state.slackUs = Math.min(state.slackUs, Math.max(0, state.tatUs - nowUs))
  }
  if (nowUs > state.lastUs) state.lastUs = nowUs
  addUnits(rule, state, weight)
}

/**
 * Gives back units taken at `chargedAtUs`, as far as the history allows. The bucket never gains more than if they had
 * not been taken. Exact for the last taking, a lower bound for earlier ones.
 */
export function refundRate(rule: RateRule, state: RateState, weight: number, chargedAtUs: number): void {
  if (chargedAtUs < state.fullUs || chargedAtUs > state.lastUs) return
  if (isLastOfOne(rule, state, weight, chargedAtUs)) {
    addUnits(rule, state, -weight)
    state.lastUs = Math.min(state.lastUs, state.tatUs)
    return
  }
  const fullUs = quotient(weight, rule.periodUs, 0, rule.rate)
  if (chargedAtUs < state.lastUs && state.slackUs <= fullUs) {
    state.tatUs -= state.slackUs
    state.slackUs = 0
    return
  }
  // The returned units move later takings closer to full.
  if (chargedAtUs < state.lastUs) state.slackUs -= fullUs + 1
  addUnits(rule, state, -weight)
}

/**
 * Whether a start of a bucket of one unit was its last: any later one would have moved the TAT further. So held starts
 * that are given back, the last first, leave no unit behind.
 */
function isLastOfOne(rule: RateRule, state: RateState, weight: number, chargedAtUs: number): boolean {
  if (rule.burst !== 1 || weight !== 1) return false
  return state.tatUs - quotient(1, rule.periodUs, -state.rem, rule.rate) <= chargedAtUs + 1
}

/** Whole units that may be taken at once. At rates above one per µs, slightly more than the burst. */
export function rateAvailable(rule: RateRule, state: RateState, nowUs: number): number {
  return Math.max(0, rule.burst - rateInUse(rule, state, nowUs))
}

/** Units missing from full, rounded up. More than the burst means debt. */
export function rateInUse(rule: RateRule, state: RateState, nowUs: number): number {
  if (isBehind(state, nowUs)) return 0
  return 0 - quotient(nowUs - state.tatUs, rule.rate, -state.rem, rule.periodUs)
}

/** Whether the bucket is full, so that a new one would count all starts alike. */
export function rateIsFull(state: RateState, nowUs: number): boolean {
  return isBehind(state, nowUs) || (state.tatUs === nowUs && state.rem === 0)
}

/**
 * After a penalty the bucket holds one token at `untilUs`, and at most its level before. It is applied when the penalty
 * ends, so that a policy change in between finds the original level.
 */
export function capAtOneToken(rule: RateRule, state: RateState, untilUs: number): void {
  const capped: RateState = {
    kind: 'rate',
    tatUs: untilUs,
    rem: 0,
    lastUs: untilUs,
    fullUs: untilUs,
    slackUs: Infinity,
  }
  addUnits(rule, capped, rule.burst - 1)
  if (capped.tatUs > state.tatUs || (capped.tatUs === state.tatUs && capped.rem > state.rem))
    Object.assign(state, capped)
}

/**
 * The state under another rate, period or burst. The level keeps its fraction, up to the new burst. Earlier units can
 * no longer be refunded.
 */
export function adoptRate(from: RateRule, to: RateRule, state: RateState, nowUs: number): RateState {
  // In units of 1 / (from.periodUs) tokens, exact: level = burst - lag / period.
  const period = BigInt(from.periodUs)
  const lag = BigInt(state.tatUs - nowUs) * BigInt(from.rate) + BigInt(state.rem)
  const level = BigInt(from.burst) * period - (lag > 0n ? lag : 0n)
  const most = BigInt(to.burst) * period
  const missing = level < most ? most - level : 0n
  const product = missing * BigInt(to.periodUs)
  // Rounded up to the next 1/rate µs, the side of too few.
  const added = (product + period - 1n) / period
  const rate = BigInt(to.rate)
  const tatUs = Math.min(nowUs + Number(added / rate), LATEST_US)
  return { kind: 'rate', tatUs, rem: Number(added % rate), lastUs: nowUs, fullUs: nowUs, slackUs: Infinity }
}

/** The state after the clock went back by `byUs`: as long to full as at the last change, and at most one burst. */
export function reclockRate(rule: RateRule, state: RateState, byUs: number, nowUs: number): RateState {
  const moved = { ...state, tatUs: state.tatUs - byUs, lastUs: state.lastUs - byUs, fullUs: state.fullUs - byUs }
  const emptyUs = nowUs + quotient(rule.burst, rule.periodUs, 0, rule.rate)
  const emptyRem = remainder(rule.burst, rule.periodUs, 0, rule.rate)
  if (moved.tatUs > emptyUs || (moved.tatUs === emptyUs && moved.rem > emptyRem)) {
    moved.tatUs = emptyUs
    moved.rem = emptyRem
  }
  return moved
}

/**
 * Whether the bucket has been full so long that a start counts from `nowUs` and not from the TAT. A start at the first
 * whole µs after the TAT counts from the TAT itself; the rounding would otherwise add up to a drift.
 */
export function isBehind(state: RateState, nowUs: number): boolean {
  return state.tatUs < nowUs - 1 || (state.tatUs === nowUs - 1 && state.rem === 0)
}

function addUnits(rule: RateRule, state: RateState, units: number): void {
  const addedUs = quotient(units, rule.periodUs, state.rem, rule.rate)
  state.rem = remainder(units, rule.periodUs, state.rem, rule.rate, addedUs)
  state.tatUs += addedUs
  if (state.tatUs > LATEST_US) {
    state.tatUs = LATEST_US
    state.rem = 0
  }
}
