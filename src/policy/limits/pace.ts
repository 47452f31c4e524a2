import { SluiceError } from '../../base/errors.ts'
import type { LimitPolicy } from './limit.ts'

/** The most that a tenant may charge a budget that all share, by the time in which the limit gives so many units. */
const SHARED_CHARGE_US = 3_600_000_000

/** The pace of a limit at its full rate. It measures a penalty without a time of its own. */
export function paceOf(policy: LimitPolicy | null): { intervalUs: number; periodUs: number } {
  const pace = paceOfRule(policy?.rule ?? null)
  const everyUs = policy?.spacing?.everyUs ?? 0
  return { intervalUs: Math.max(pace.intervalUs, everyUs), periodUs: Math.max(pace.periodUs, everyUs) }
}

/** How long a start counts at most, where there is no debt. Then its units are back by themselves. */
export function countsForUs(policy: LimitPolicy | null): number {
  const { intervalUs, periodUs } = paceOf(policy)
  return policy?.rule?.kind === 'rate' ? Math.max(periodUs, policy.rule.burst * intervalUs) : periodUs
}

/**
 * Refuses a tenant's charge that would close a budget of all tenants for hours.
 * @param limit its name in the message
 * @throws {SluiceError} `option.invalid`
 */
export function checkShared(limit: string, policy: LimitPolicy, units: number): void {
  const most = unitsWithin(policy, SHARED_CHARGE_US)
  if (units > most)
    throw new SluiceError(
      'option.invalid',
      `charge is invalid: ${units} units of ${limit}, which all tenants share. Expected at most ${most}, as it gives in an hour or in one period.`,
    )
}

/** The units that a limit gives in a time at its full rate, and at least in one period. */
function unitsWithin(policy: LimitPolicy, us: number): number {
  const { intervalUs, periodUs } = paceOf(policy)
  return Math.ceil(Math.max(us, periodUs) / Math.max(1, intervalUs))
}

function paceOfRule(rule: LimitPolicy['rule']): { intervalUs: number; periodUs: number } {
  if (!rule) return { intervalUs: 1_000_000, periodUs: 1_000_000 }
  if (rule.kind === 'spacing') return { intervalUs: rule.everyUs, periodUs: rule.everyUs }
  if (rule.kind === 'fixed') {
    const periodUs = rule.window.align === 'epoch' ? rule.window.periodUs : CALENDAR_US[rule.window.unit]
    return { intervalUs: Math.ceil(periodUs / rule.max), periodUs }
  }
  return {
    intervalUs: Math.ceil(rule.periodUs / (rule.kind === 'rate' ? rule.rate : rule.max)),
    periodUs: rule.periodUs,
  }
}

const CALENDAR_US = { hour: 3_600_000_000, day: 86_400_000_000, week: 604_800_000_000, month: 2_678_400_000_000 }
