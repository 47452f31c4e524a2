/**
 * The remaining budget that an API reports: a bound beside the rules of the bucket. It never allows more than they do.
 */
import type { Rule } from '../rules/rule.ts'
import { capacityOf, grantable, type RuleState } from '../rules/rule-state.ts'

/** The units that may start before `untilUs`. It bounds the bucket's own rules, and is void from then on. */
export interface Allowance {
  readonly units: number
  readonly untilUs: number
  /** The time of the last report. It does not cover units taken before. */
  readonly sinceUs: number
}

/** An API's report about its budget. */
export interface BudgetReport {
  /** The units left, without those that the API cannot have counted yet; integer ≥ 0. */
  readonly remaining: number
  /** When the budget renews, by the store's clock. A past instant marks a stale report, which is ignored. */
  readonly resetUs: number
}

/** Two answers of one window name its end alike, but for the way that they took and the server's rounding to whole seconds. */
const SAME_WINDOW_US = 1_500_000

/**
 * When a number of units may start: now, or once the allowance is void. The API counts a free retry like any other
 * call.
 */
export function allowedAtUs(allowance: Allowance | undefined, nowUs: number, units: number): number {
  return allowance && Math.max(1, units) > allowance.units ? Math.max(nowUs, allowance.untilUs) : nowUs
}

/** The allowance after units were taken, or given back (below 0). It does not cover units taken before its report. */
export function spend(allowance: Allowance, units: number, takenAtUs: number): Allowance {
  if (takenAtUs < allowance.sinceUs) return allowance
  return { ...allowance, units: Math.max(0, allowance.units - units) }
}

/**
 * The allowance after a report. Within one window it only shrinks, since answers overtake each other. A window that
 * ends later replaces it. A report that allows as much as the rules do adds no allowance.
 */
export function applyReport(
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

/** A lower bound of the units that a rule grants from now until an instant. It ignores debt. */
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
