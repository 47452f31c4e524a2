import { MAX_DURATION_US } from '../../base/duration.ts'
import { LATEST_US } from './exact.ts'
import type { SpacingRule } from './rule.ts'

/** State of even spacing: when the next start may be. */
export interface SpacingState {
  kind: 'spacing'
  nextUs: number
}

/** Creates an unused spacing. The first start may happen at once, also under a later interval. */
export function newSpacing(nowUs: number): SpacingState {
  return { kind: 'spacing', nextUs: nowUs - 2 * MAX_DURATION_US }
}

/** Counts one start, of any weight. */
export function chargeSpacing(rule: SpacingRule, state: SpacingState, nowUs: number): void {
  state.nextUs = Math.min(Math.max(state.nextUs, nowUs) + rule.everyUs, LATEST_US)
}

/**
 * Takes one start back, if it was the last one. The one before it was at least `everyUs` earlier.
 * @param everyUs the interval that the start was taken with
 */
export function refundSpacing(
  rule: SpacingRule,
  state: SpacingState,
  chargedAtUs: number,
  everyUs: number = rule.everyUs,
): void {
  if (chargedAtUs === state.nextUs - rule.everyUs) state.nextUs = chargedAtUs - everyUs + rule.everyUs
}

/** The state under another interval: the last start stays where it was. */
export function adoptSpacing(from: SpacingRule, to: SpacingRule, state: SpacingState): SpacingState {
  return { kind: 'spacing', nextUs: Math.min(state.nextUs - from.everyUs + to.everyUs, LATEST_US) }
}

/** The state after the clock went back by `byUs`: at most one interval to wait. */
export function reclockSpacing(rule: SpacingRule, state: SpacingState, byUs: number, nowUs: number): SpacingState {
  return { kind: 'spacing', nextUs: Math.min(state.nextUs - byUs, nowUs + rule.everyUs) }
}
