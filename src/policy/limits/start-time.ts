/** When waiting jobs will start by the limit's own rule alone, if nothing else delays them. */
import { type BucketState, charge, deniedUntil } from './bucket.ts'
import { quotient } from '../rules/exact.ts'
import { fixedGrantUs, fixedInUse, type FixedState, laterStartUs } from '../rules/fixed-window.ts'
import { freePermits, type LimitPolicy } from './limit.ts'
import type { FixedRule, RateRule, SlidingRule, SpacingRule } from '../rules/rule.ts'
import type { SpacingState } from '../rules/spacing.ts'
import { expire, slidingGrantUs, type SlidingState } from '../rules/sliding-window.ts'
import { capAtOneToken, isBehind, type RateState } from '../rules/token-bucket.ts'

/** Waiting jobs of one bucket, all of one weight. */
export interface Backlog {
  readonly count: number
  readonly weight: number
}

/** Waiting jobs of which only sums are known. The last of them is the job in question. */
export interface Load {
  /** Jobs that cost units. */
  readonly starts: number
  readonly units: number
  /** Units of the last job. */
  readonly last: number
}

/**
 * When the last of a list of waiting jobs starts, if each starts as soon as the bucket admits it. Null: it depends on
 * returning permits.
 *
 * A backlog of one weight has a closed form, however long: O(1), for a sliding window O(its log). Different weights are
 * summed for a rate and a spacing, and followed job by job for windows.
 *
 * @param line weights of the waiting jobs in order, ending with the job in question; or their number, including it. A
 * job of weight 0 (a free retry) starts with the one before it.
 */
export function expectedStartUs(
  policy: LimitPolicy,
  state: BucketState,
  active: number,
  nowUs: number,
  line: readonly number[] | Backlog,
): number | null {
  const count = 'count' in line ? line.count : line.length
  if (count === 0) return nowUs
  if (freePermits(policy.concurrency, active) < count) return null
  return ruleStartUs(policy, state, nowUs, line)
}

/** The same by the rule over time alone, as if permits were always free: no job can start sooner. */
export function ruleStartUs(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  line: readonly number[] | Backlog,
): number {
  const { allowance, ...bare } = state
  if (allowance && allowance.untilUs > nowUs) {
    const [fitting, left] = splitOff(line, allowance.units)
    const { after, lastUs } = startAll(policy, bare, nowUs, left ? fitting : { count: 0, weight: 1 })
    // Those that the rule alone lets start so late start without regard to the report.
    return left && lastUs < allowance.untilUs
      ? ruleStartUs(policy, after, allowance.untilUs, left)
      : ruleStartUs(policy, bare, nowUs, line)
  }
  if (policy.spacing && state.spacing) return spacedStartUs(policy, state, nowUs, line)
  const openUs = Math.max(nowUs, state.closedUntilUs)
  const { rule } = policy
  if (rule === null || state.rule === null) return openUs
  const weights = 'count' in line ? null : line.filter((weight) => weight > 0)
  const backlog = 'count' in line ? line : sameWeights(weights ?? [])
  if (backlog?.count === 0 || backlog?.weight === 0) return openUs
  if (rule.kind === 'rate' || rule.kind === 'spacing')
    return loadStartUs(policy, state, nowUs, loadOf(backlog ?? weights ?? []))
  if (backlog === null) return followedStartUs(policy, state, openUs, weights ?? [])
  if (rule.kind === 'fixed' && state.rule.kind === 'fixed') return fixedStartUs(rule, state.rule, openUs, backlog)
  if (rule.kind === 'sliding' && state.rule.kind === 'sliding') return slidingStartUs(rule, state.rule, openUs, backlog)
  return openUs
}

/**
 * The same from sums alone: exact for a rate and a spacing. For windows it is a lower bound: units are laid out as if
 * each were a job, so no window stays partly empty because the next job does not fit.
 */
export function loadStartUs(policy: LimitPolicy, state: BucketState, nowUs: number, load: Load): number {
  const { allowance, ...bare } = state
  if (allowance && allowance.untilUs > nowUs) {
    const aloneUs = loadStartUs(policy, bare, nowUs, load)
    if (load.units <= allowance.units) return aloneUs
    // How many fit is not known: each costs a unit at least.
    const spent = Math.min(allowance.units, load.units - load.last)
    const starts = Math.max(Math.min(1, load.starts), load.starts - spent)
    const after: BucketState = structuredClone(bare)
    if (spent > 0) charge(policy, after, Math.max(nowUs, after.closedUntilUs), spent)
    // They may be a part of the first start that is left.
    if (bare.spacing) after.spacing = bare.spacing
    const left = { ...load, starts, units: load.units - spent }
    return Math.max(aloneUs, loadStartUs(policy, after, allowance.untilUs, left))
  }
  if (policy.spacing && state.spacing && load.starts > 0) {
    const { alone, opened, spacedUs } = withoutSpacing(policy.spacing, policy, state, state.spacing, {
      count: load.starts,
      weight: 1,
    })
    return Math.max(loadStartUs(alone, opened, Math.max(nowUs, state.spacing.nextUs), load), spacedUs(nowUs))
  }
  const openUs = Math.max(nowUs, state.closedUntilUs)
  const { rule } = policy
  if (rule === null || state.rule === null || load.starts === 0) return openUs
  if (rule.kind === 'spacing' && state.rule.kind === 'spacing')
    return Math.max(openUs, state.rule.nextUs) + (load.starts - 1) * rule.everyUs
  if (rule.kind === 'rate' && state.rule.kind === 'rate')
    return rateStartUs(rule, afterPenalty(rule, state, state.rule), openUs, load.units - load.last, load.last)
  if (rule.kind === 'rate' || rule.kind === 'spacing') return openUs
  const count = load.units - load.last + Math.min(load.last, rule.max)
  return ruleStartUs(policy, state, nowUs, { count, weight: 1 })
}

/**
 * The same with a spacing beside the rule. For a rate and one weight the later of both is exact. Both begin with the
 * first start, and a start that the spacing delays finds its unit waiting. Other lists are followed job by job while
 * that is cheap. Beyond that the later of both is a lower bound.
 */
function spacedStartUs(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  line: readonly number[] | Backlog,
): number {
  const weights = 'count' in line ? null : line.filter((weight) => weight > 0)
  const backlog = 'count' in line ? line : sameWeights(weights ?? [])
  const count = backlog?.count ?? weights?.length ?? 0
  if (!policy.spacing || !state.spacing || count === 0 || backlog?.weight === 0) {
    const { spacing: _, ...alone } = policy
    return ruleStartUs(alone, state, nowUs, { count: 0, weight: 1 })
  }
  const bothUs = (from: BucketState, atUs: number, rest: readonly number[] | Backlog, starts: number): number => {
    if (!policy.spacing || !from.spacing) return atUs
    const first = 'count' in rest ? rest.weight : (rest[0] ?? 1)
    const { alone, opened, spacedUs } = withoutSpacing(policy.spacing, policy, from, from.spacing, {
      count: starts,
      weight: first,
    })
    return Math.max(ruleStartUs(alone, opened, Math.max(atUs, from.spacing.nextUs), rest), spacedUs(atUs))
  }
  if (policy.rule?.kind === 'rate' && backlog) return bothUs(state, nowUs, backlog, count)
  const copy = structuredClone(state)
  const unbounded: LimitPolicy = { ...policy, concurrency: null }
  let atUs = Math.max(nowUs, state.closedUntilUs)
  const followed = Math.min(count, FOLLOWED_AT_MOST)
  for (let i = 0; i < followed; i++) {
    const weight = backlog?.weight ?? weights?.[i] ?? 1
    atUs = deniedUntil(unbounded, copy, 0, atUs, weight) ?? atUs
    charge(unbounded, copy, atUs, weight)
  }
  const left = count - followed
  if (left === 0) return atUs
  return bothUs(copy, atUs, backlog ? { ...backlog, count: left } : (weights ?? []).slice(followed), left)
}

/** Whether `expectedStartUs` is exact for this many jobs of one weight, despite a spacing beside the rule. */
export function isFollowed({ rule, spacing }: LimitPolicy, starts: number): boolean {
  return !spacing || rule?.kind === 'rate' || starts <= FOLLOWED_AT_MOST
}

const FOLLOWED_AT_MOST = 1000
/** Starts within a reported budget that are followed one by one: a scan asks this for each waiting job. */
const REPORTED_AT_MOST = 100

/** The start by the rule alone, from the spacing's first start on, and the start by the spacing alone. */
function withoutSpacing(
  spacing: SpacingRule,
  policy: LimitPolicy,
  state: BucketState,
  current: SpacingState,
  starts: Backlog,
): { alone: LimitPolicy; opened: BucketState; spacedUs: (nowUs: number) => number } {
  const { spacing: _rule, ...alone } = policy
  const { spacing: _state, ...rest } = state
  const openUs = Math.max(state.closedUntilUs, current.nextUs)
  return {
    alone,
    opened: rest,
    spacedUs: (nowUs) => {
      const firstUs = ruleStartUs(alone, rest, Math.max(nowUs, openUs), { count: 1, weight: starts.weight })
      return Math.max(nowUs, openUs, firstUs) + (starts.count - 1) * spacing.everyUs
    },
  }
}

/** The jobs that an API's allowance has units for, and those behind them; null: all of them fit. */
function splitOff(
  line: readonly number[] | Backlog,
  units: number,
): readonly [fitting: readonly number[] | Backlog, left: readonly number[] | Backlog | null] {
  if ('count' in line) {
    const count = Math.floor(units / Math.max(1, line.weight))
    return [{ ...line, count }, count < line.count ? { ...line, count: line.count - count } : null]
  }
  let sum = 0
  const from = line.findIndex((weight) => (sum += Math.max(1, weight)) > units)
  return from < 0 ? [line, null] : [line.slice(0, from), line.slice(from)]
}

/** The bucket after the starts of a line, and the last of them. Windows take those beyond the first hundred at once. */
function startAll(
  policy: LimitPolicy,
  state: BucketState,
  nowUs: number,
  line: readonly number[] | Backlog,
): { readonly after: BucketState; readonly lastUs: number } {
  const { rule, spacing } = policy
  const after = structuredClone(state)
  const alone: LimitPolicy = { ...policy, concurrency: null }
  const count = 'count' in line ? line.count : line.length
  // For a rate, and for starts of one unit, all may start at once; for a spacing the last alone.
  const isEven = 'count' in line && line.weight <= 1
  const inOne = !spacing && (isEven || rule?.kind === 'rate' || rule?.kind === 'spacing')
  const followed = inOne ? 0 : Math.min(count, REPORTED_AT_MOST)
  let atUs = Math.max(nowUs, state.closedUntilUs)
  for (let i = 0; i < followed; i++) {
    const weight = 'count' in line ? line.weight : (line[i] ?? 1)
    atUs = deniedUntil(alone, after, 0, atUs, weight) ?? atUs
    charge(alone, after, atUs, weight)
  }
  if (followed === count) return { after, lastUs: atUs }
  const rest = 'count' in line ? { ...line, count: count - followed } : line.slice(followed)
  const lastUs = ruleStartUs(policy, after, atUs, rest)
  const { units } = loadOf(rest)
  if (units > 0) charge(alone, after, rule?.kind === 'spacing' ? lastUs : atUs, units)
  return { after, lastUs }
}

/** Starts at exact instants keep the bucket from being full, so what goes before only adds up. */
function rateStartUs(rule: RateRule, state: RateState, openUs: number, unitsBefore: number, weight: number): number {
  const behind = isBehind(state, openUs)
  const tatUs = behind ? openUs : state.tatUs
  const rem = behind ? 0 : state.rem
  const units = unitsBefore + Math.min(weight, rule.burst) - rule.burst
  return Math.max(openUs, tatUs - quotient(-units, rule.periodUs, -rem, rule.rate))
}

function afterPenalty(rule: RateRule, state: BucketState, current: RateState): RateState {
  if (state.closedUntilUs === 0) return current
  const copy = { ...current }
  capAtOneToken(rule, copy, state.closedUntilUs)
  return copy
}

function fixedStartUs(rule: FixedRule, state: FixedState, openUs: number, { count, weight }: Backlog): number {
  const firstUs = fixedGrantUs(rule, state, openUs, weight)
  // A job above the bound takes whole windows, the last of them only in part, which no other such job may use.
  if (weight > rule.max) {
    const windows = (count - 1) * Math.ceil(weight / rule.max)
    return windows === 0 ? firstUs : laterStartUs(rule.window, firstUs, windows)
  }
  const inFirst = Math.floor((rule.max - fixedInUse(rule, state, firstUs)) / weight)
  if (count <= inFirst) return firstUs
  return laterStartUs(rule.window, firstUs, Math.ceil((count - inFirst) / Math.floor(rule.max / weight)))
}

/**
 * A window with a backlog repeats itself: the job `floor(max / weight)` places behind another starts one period later.
 * So only the starts of the first such turn are worked out, in as many groups as the log has entries.
 */
function slidingStartUs(rule: SlidingRule, current: SlidingState, openUs: number, backlog: Backlog): number {
  const { count, weight } = backlog
  const { max, periodUs } = rule
  const firstUs = Math.max(openUs, slidingGrantUs(rule, current, weight))
  if (weight > max) return firstUs + (count - 1) * Math.ceil(weight / max) * periodUs
  const state = { ...current, log: [...current.log] }
  expire(rule, state, firstUs)
  const turn = Math.floor(max / weight)
  const place = ((count - 1) % turn) + 1
  const turns = Math.floor((count - 1) / turn)
  let atUs = firstUs
  let started = 0
  let { used } = state
  for (let i = 0; ; i += 2) {
    const now = Math.max(0, Math.floor((max - used) / weight))
    started += now
    used += now * weight
    if (started >= place) return atUs + turns * periodUs
    if (i >= state.log.length) return atUs + turns * periodUs
    atUs = (state.log[i] ?? 0) + periodUs
    used -= state.log[i + 1] ?? 0
  }
}

/** Follows a list of different weights through a copy of the bucket. */
function followedStartUs(policy: LimitPolicy, state: BucketState, openUs: number, line: readonly number[]): number {
  const copy = structuredClone(state)
  const alone: LimitPolicy = { ...policy, concurrency: null }
  let atUs = openUs
  for (const weight of line) {
    atUs = deniedUntil(alone, copy, 0, atUs, weight) ?? atUs
    charge(alone, copy, atUs, weight)
  }
  return atUs
}

function loadOf(line: readonly number[] | Backlog): Load {
  if ('count' in line) return { starts: line.count, units: line.count * line.weight, last: line.weight }
  return { starts: line.length, units: line.reduce((sum, weight) => sum + weight, 0), last: line.at(-1) ?? 1 }
}

function sameWeights(line: readonly number[]): Backlog | null {
  const [weight = 1] = line
  return line.every((other) => other === weight) ? { count: line.length, weight } : null
}
