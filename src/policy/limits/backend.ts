/** Limits whose budgets a backend keeps, outside the store of the jobs. */
import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import type { LimitPolicy } from './limit.ts'

const LEAST_SLACK_US = 5000
const MOST_SLACK_US = 250_000

/**
 * How long after its payment at a backend a start may begin: a hundredth of the period, from 5 to 250 ms, and at most
 * half of the period.
 */
export function slackUs(periodUs: number): number {
  return Math.floor(Math.min(MOST_SLACK_US, Math.max(LEAST_SLACK_US, periodUs / 100), periodUs / 2))
}

/** The slack of a policy; of one without a rule over time the longest. */
export function slackOf({ rule, spacing, guardUs = 0 }: LimitPolicy): number {
  const spacingUs = spacing ? spacing.everyUs - guardUs : Infinity
  if (rule === null) return slackUs(Infinity)
  if (rule.kind === 'spacing') return slackUs(rule.everyUs - guardUs)
  if (rule.kind !== 'fixed') return slackUs(Math.min(rule.periodUs - guardUs, spacingUs))
  return Math.min(rule.guardUs, slackUs(spacingUs))
}

/**
 * The backend that a policy names; null: none.
 * @throws {SluiceError} `policy.invalid` for an invalid name, or for an option that needs the budget in the store
 */
export function backendOf(fields: Readonly<Record<string, unknown>>, what: string): string | null {
  const { backend } = fields
  if (backend === undefined) return null
  if (typeof backend !== 'string' || !isName(backend))
    throw invalid(what, `backend is invalid: ${show(backend)}. Expected a name of budgets of new Sluice.`)
  for (const [field, only, why] of NOT_BESIDE)
    if (fields[field] !== undefined && fields[field] !== only)
      throw invalid(
        what,
        `${field} is invalid beside backend: ${show(fields[field])}. Expected '${only}', since ${why}.`,
      )
  return backend
}

const NOT_BESIDE = [
  ['scope', 'fleet', 'each worker keeps the budgets of such a scope itself'],
  ['onLimit', 'wait', 'only the backend knows when a job may start'],
  ['retries', 'charge', 'the backend charges every start'],
] as const

/** A policy as the store of the jobs applies it: its backend decides all but a pause. */
export function withoutRules(policy: LimitPolicy): LimitPolicy {
  const { rule: _rule, spacing: _spacing, headroom: _headroom, ...rest } = policy
  return { ...rest, rule: null, concurrency: policy.concurrency === 0 ? 0 : null }
}

function invalid(what: string, message: string): SluiceError {
  return new SluiceError('policy.invalid', `${what}: ${message}`)
}
