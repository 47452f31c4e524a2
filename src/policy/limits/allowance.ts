/** What the other side says is left of a budget: a bound beside the rules of the bucket, which it never widens. */
import type { Rule } from '../rules/rule.ts'
import { capacityOf, grantable, type RuleState } from '../rules/rule-state.ts'

/** So many units may start before `untilUs`, whatever the bucket's own rules allow; from then on it is void. */
export interface Allowance {
  readonly units: number
  readonly untilUs: number
  /** When it was last told: what was taken before is not in it. */
  readonly sinceUs: number
}

/** What the other side said of its budget. */
export interface BudgetReport {
  /** Units left of it, without those that it cannot have counted yet; integer ≥ 0. */
  readonly remaining: number
  /** When it is renewed, by the store's clock; in the past: what was told is stale, and means nothing. */
  readonly resetUs: number
}

/** Two answers of one window name its end alike, but for the way that they took and the server's rounding to whole seconds. */
const SAME_WINDOW_US = 1_500_000

/** When a start of so many units is allowed: now, or once the allowance is void. A free retry meets the other side like any other. */
export function allowedAtUs(allowance: Allowance | undefined, nowUs: number, units: number): number {
  return allowance && Math.max(1, units) > allowance.units ? Math.max(nowUs, allowance.untilUs) : nowUs
}

/** The allowance after units were taken, or given back (below 0): what was taken before it was told is no part of it. */
export function spend(allowance: Allowance, units: number, takenAtUs: number): Allowance {
  if (takenAtUs < allowance.sinceUs) return allowance
  return { ...allowance, units: Math.max(0, allowance.units - units) }
}

/**
 * The allowance after the other side said something. Within one window of its it only shrinks, since answers overtake each other; a
 * window that ends later replaces it. One that says no more than the rules allow anyway is none.
 */
export function tell(
  known: Allowance | undefined,
  { remaining, resetUs }: BudgetReport,
  rule: Rule | null,
  state: RuleState | null,
  nowUs: number,
): Allowance | undefined {
  if (resetUs <= nowUs) return known
  if (!known) {
    const most = rule === null || state === null ? Infinity : mostBefore(rule, state, nowUs, resetUs)
    return remaining >= most ? undefined : { units: remaining, untilUs: resetUs, sinceUs: nowUs }
  }
  if (resetUs > known.untilUs + SAME_WINDOW_US) return { units: remaining, untilUs: resetUs, sinceUs: nowUs }
  if (remaining >= known.units) return known
  return { ...known, units: remaining, sinceUs: nowUs }
}

/** At least as many units as a rule can grant from now until an instant; what is in debt is not looked at. */
function mostBefore(rule: Rule, state: RuleState, nowUs: number, untilUs: number): number {
  const spanUs = untilUs - nowUs
  if (rule.kind === 'rate') return grantable(rule, state, nowUs) + Math.ceil((spanUs * rule.rate) / rule.periodUs) + 1
  if (rule.kind === 'spacing') return Math.ceil(spanUs / rule.everyUs) + 1
  const periodUs =
    rule.kind === 'sliding'
      ? rule.periodUs
      : rule.window.align === 'epoch'
        ? rule.window.periodUs
        : SHORTEST_CALENDAR_US
  return grantable(rule, state, nowUs) + (Math.floor(spanUs / periodUs) + 1) * capacityOf(rule)
}

const SHORTEST_CALENDAR_US = 1_800_000_000
