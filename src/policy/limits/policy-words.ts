/** Policies, numbers and lengths of time as a person reads them. */
import type { Rule } from '../rules/rule.ts'
import { type Guarantee, guardsOf, type LimitPolicy } from './limit.ts'

const HOUR_S = 3600
const DAY_S = 86_400

/** A number with commas, as in 5,200. */
export function groupDigits(value: number): string {
  return value.toLocaleString('en-US')
}

/** A policy in a few words, as in `60 per 1 min, burst 60, 4 at once`, which can be read as a policy again unless it has headroom, a scope or a share of another limit. A guard is told apart from the lengths that it lengthens. */
export function policyInWords(policy: LimitPolicy): string {
  const { rule, spacing, concurrency, headroom, scope } = policy
  const { ruleUs, spacingUs } = guardsOf(policy)
  const parts = [...(rule ? [ruleInWords(rule, ruleUs)] : []), ...(spacing ? [ruleInWords(spacing, spacingUs)] : [])]
  if (ruleUs > 0) parts.push(`guard ${period(ruleUs)}`)
  else if (rule?.kind === 'sliding') parts.push('no guard')
  if (concurrency !== null) parts.push(concurrency === 0 ? 'paused' : `${groupDigits(concurrency)} at once`)
  if (headroom) parts.push(`the last ${groupDigits(headroom.units)} for priority ${headroom.priority} and above`)
  if (policy.of) parts.push(`at least ${shareInWords(policy.of)} of ${policy.of.limit}`)
  return `${parts.join(', ')}${scope === 'worker' ? ', in each worker' : ''}`
}

function shareInWords({ rule, concurrency }: Guarantee): string {
  const permits = concurrency === null ? [] : [`${groupDigits(concurrency)} at once`]
  return [...(rule ? [`${groupDigits(rule.rate)} per ${period(rule.periodUs)}`] : []), ...permits].join(' and ')
}

function ruleInWords(rule: Rule, guardUs: number): string {
  if (rule.kind === 'rate')
    return `${groupDigits(rule.rate)} per ${period(rule.periodUs - guardUs)}, burst ${groupDigits(rule.burst)}`
  if (rule.kind === 'spacing') return `one every ${period(rule.everyUs - guardUs)}`
  if (rule.kind === 'sliding') return `${groupDigits(rule.max)} in any ${period(rule.periodUs - guardUs)}`
  const { window } = rule
  const length = window.align === 'epoch' ? period(window.periodUs) : `${window.unit} of ${window.timezone}`
  return `${groupDigits(rule.max)} in each ${length}`
}

const UNITS: readonly (readonly [string, number])[] = [
  ['d', DAY_S * 1e6],
  ['h', HOUR_S * 1e6],
  ['min', 60 * 1e6],
  ['s', 1e6],
  ['ms', 1e3],
]

/** A length of time exactly, in the largest unit that needs at most three decimals. */
export function period(us: number): string {
  for (const [unit, unitUs] of UNITS) if (us >= unitUs && (us * 1000) % unitUs === 0) return `${us / unitUs} ${unit}`
  return `${us} µs`
}
