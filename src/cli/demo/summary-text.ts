import { PER } from './scenario.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import { inWords } from '../words.ts'
import type { Paint } from './paint.ts'
import type { BudgetReport, DemoSummary } from './promises.ts'

/** Formats the summary as lines of text. */
export function summaryLines(summary: DemoSummary, paint: Paint): string[] {
  const { refused, lost, urgent, kills, total, tenants, lowestUtilisation, broken } = summary
  const line = (kept: boolean, name: string, text: string): string =>
    `${kept ? paint('green', '✓') : paint('red', '✗')} ${name.padEnd(20)} ${text}`
  const all = [total, ...tenants]
  const unexplained = summary.doubleRuns - summary.doubleRunsInFlight
  const kill =
    kills === 0 ? '' : `, ${summary.doubleRunsInFlight} more of the ${summary.inFlightAtKill} in flight at the kill`
  return [
    '',
    paint('bold', `${groupDigits(summary.jobs)} jobs of ${tenants.length} tenants in ${summary.seconds.toFixed(1)} s`),
    line(refused === 0, 'refused calls', `${refused} of ${groupDigits(total.calls)}`),
    line(all.every(withinBudget), 'worst window', worstText(total, tenants)),
    line((lowestUtilisation ?? 0) >= summary.leastUtilisation, 'budget used', usedText(summary)),
    line(lost === 0, 'jobs lost', String(lost)),
    line(unexplained === 0, 'double runs', `${unexplained}${kill}`),
    line(urgent.jobs > 0 && urgent.overtakenBy === 0, 'late urgent jobs', urgentText(summary)),
    `  ${'start lateness'.padEnd(20)} ${latenessText(summary)}`,
    ...broken.map((each) => paint('red', `broken: ${each}`)),
  ]
}

function withinBudget({ worstWindow, max }: BudgetReport): boolean {
  return worstWindow <= max
}

function worstText(total: BudgetReport, tenants: readonly BudgetReport[]): string {
  const fullest = tenants.toSorted((a, b) => b.worstWindow / b.max - a.worstWindow / a.max || b.calls - a.calls)
  const some = fullest.slice(0, 3).map(({ name, worstWindow, max }) => `${name} ${worstWindow}/${max}`)
  const over = tenants.filter((each) => !withinBudget(each)).length
  return `${over} of ${tenants.length} tenants above their budget in any ${PER}; ${some.join(', ')}; total ${total.worstWindow}/${total.max}`
}

function usedText({ total, tenants, lowestUtilisation, leastUtilisation, guardMs }: DemoSummary): string {
  if (lowestUtilisation === null) return 'not measured'
  const measured = tenants.filter((each) => each.utilisation !== null)
  const least = measured.toSorted((a, b) => (a.utilisation ?? 1) - (b.utilisation ?? 1))[0]
  const percent = (share: number | null): string => (share === null ? 'not measured' : `${(share * 100).toFixed(2)} %`)
  return (
    `while jobs waited: total ${percent(total.utilisation)}, lowest of ${measured.length} tenants ${percent(least?.utilisation ?? null)}` +
    `${least ? ` (${least.name})` : ''}; at least ${leastUtilisation * 100} % of max × ${PER} / (${PER} + ${guardMs}ms) is promised`
  )
}

function urgentText({ urgent }: DemoSummary): string {
  return (
    `${urgent.jobs} waited p50 ${inWords(urgent.waitP50Ms)}, at most ${inWords(urgent.waitMaxMs)} (behind the backlog: ` +
    `${inWords(urgent.atTheEndMaxMs)}); ${urgent.overtakenBy} ordinary jobs of their tenants started before them`
  )
}

function latenessText({ lateness }: DemoSummary): string {
  if (lateness === null) return 'not measured'
  return (
    `p50 ${lateness.p50Ms.toFixed(1)} ms, p99 ${lateness.p99Ms.toFixed(1)} ms from the instant that the budgets allowed to the handler's ` +
    `first line, over ${groupDigits(lateness.starts)} starts that had to wait`
  )
}
