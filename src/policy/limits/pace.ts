import type { LimitPolicy } from './limit.ts'

/** The pace of a limit at its full rate. It measures a penalty without a time of its own. */
export function paceOf(policy: LimitPolicy | null): { intervalUs: number; periodUs: number } {
  const pace = paceOfRule(policy?.rule ?? null)
  const everyUs = policy?.spacing?.everyUs ?? 0
  return { intervalUs: Math.max(pace.intervalUs, everyUs), periodUs: Math.max(pace.periodUs, everyUs) }
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
