import { type Lateness, latenessOf, quantile } from './lateness.ts'
import { type Budget, type DemoRecord, startsOf } from './record.ts'
import { worstWindow } from './strict-window.ts'
import { type Utilisation, utilisations } from './utilisation.ts'

/** The demo's result for one budget. */
export interface BudgetReport {
  /** A tenant, or `total`. */
  readonly name: string
  /** Calls that the partner allows in any window. */
  readonly max: number
  /** The most calls that arrived in any half-open window, wherever it starts. */
  readonly worstWindow: number
  readonly calls: number
  /** Null where its backlog was too short for one whole window to be measured, and when calls were refused. */
  readonly utilisation: number | null
}

/** The demo's result for the urgent late jobs. */
export interface UrgentReport {
  readonly jobs: number
  readonly waitP50Ms: number
  readonly waitMaxMs: number
  /** The longest that one of them would have waited at the end of its tenant's backlog, as forecast when it came. */
  readonly atTheEndMaxMs: number
  /** Ordinary jobs of the same tenant that started while an urgent one waited. */
  readonly overtakenBy: number
}

/** The demo's promises and its results. */
export interface DemoSummary {
  readonly jobs: number
  readonly seconds: number
  readonly refused: number
  readonly lost: number
  readonly doubleRuns: number
  /** Of the double runs, those that were in flight when the worker was killed. */
  readonly doubleRunsInFlight: number
  /** The guard that the limits were declared with, ms. */
  readonly guardMs: number
  readonly kills: number
  readonly inFlightAtKill: number
  readonly total: BudgetReport
  readonly tenants: readonly BudgetReport[]
  readonly lowestUtilisation: number | null
  /** The share that the demo promises of each budget. */
  readonly leastUtilisation: number
  readonly urgent: UrgentReport
  /** Null when calls were refused. */
  readonly lateness: Lateness | null
  /** Every broken promise, in words; empty if there is none. */
  readonly broken: readonly string[]
}

/** The least share of a budget that must be in use while jobs wait for it. */
export const LEAST_UTILISATION = 0.98

/** The same where another server keeps the budgets: a start follows its payment there, and may come too late for it. */
export const LEAST_AT_A_SERVER = 0.95

/**
 * Checks the demo's promises against the partner's log and the store's record.
 * @param atTheEndMs by urgent job, its expected wait behind its tenant's backlog.
 * @param leastUtilisation of each budget, while jobs wait for it.
 */
export function checkPromises(
  record: DemoRecord,
  atTheEndMs: ReadonlyMap<string, number>,
  leastUtilisation: number = LEAST_UTILISATION,
): DemoSummary {
  const refused = record.calls.filter((call) => call.refused).length
  // A refusal closes budgets for a while, and the store forgets the refused start, so utilisation would mean nothing.
  const measured = refused === 0 ? utilisations(record) : null
  const reports = [...record.tenants].map(([name, budget]) => {
    const calls = record.calls.filter((call) => call.tenant === name)
    return reportOf(name, budget, calls, measured?.tenants.get(name))
  })
  const total = reportOf('total', record.total, record.calls, measured?.total)
  const shares = [total, ...reports].flatMap(({ utilisation }) => (utilisation === null ? [] : [utilisation]))
  const ends = record.calls.map((call) => call.arrivedUs)
  const summary: Omit<DemoSummary, 'broken'> = {
    jobs: record.acknowledged.length,
    seconds: ends.length === 0 ? 0 : (Math.max(...ends) - record.readyUs) / 1_000_000,
    refused,
    lost: lostOf(record),
    ...doublesOf(record),
    guardMs: record.total.guardUs / 1000,
    kills: record.outages.length,
    inFlightAtKill: record.outages.reduce((sum, { inFlight }) => sum + inFlight.length, 0),
    total,
    tenants: reports,
    lowestUtilisation: shares.length === 0 ? null : Math.min(...shares),
    leastUtilisation,
    urgent: urgentOf(record, atTheEndMs),
    lateness: refused === 0 ? latenessOf(record) : null,
  }
  return { ...summary, broken: brokenOf(summary) }
}

function reportOf(
  name: string,
  budget: Budget,
  calls: readonly { readonly arrivedUs: number }[],
  utilisation: Utilisation | undefined,
): BudgetReport {
  const arrivals = calls.map((call) => call.arrivedUs).sort((a, b) => a - b)
  const enough = utilisation !== undefined && utilisation.windows >= 1
  return {
    name,
    max: budget.max,
    worstWindow: worstWindow(arrivals, budget.perUs),
    calls: calls.length,
    utilisation: enough ? utilisation.share : null,
  }
}

/** Jobs that were acknowledged, and that the store does not have as completed or the partner never saw. */
function lostOf(record: DemoRecord): number {
  const served = new Set(record.calls.filter((call) => !call.refused).map((call) => call.job))
  const done = new Set(record.jobs.filter((job) => job.completed).map((job) => job.id))
  return record.acknowledged.filter((id) => !done.has(id) || !served.has(id)).length
}

function doublesOf(record: DemoRecord): { doubleRuns: number; doubleRunsInFlight: number } {
  const inFlight = new Set(record.outages.flatMap((outage) => outage.inFlight.map((job) => job.id)))
  const seen = new Set<string>()
  let doubleRuns = 0
  let doubleRunsInFlight = 0
  for (const { job, refused } of record.calls) {
    if (refused) continue
    if (seen.has(job)) doubleRuns++
    if (seen.has(job) && inFlight.delete(job)) doubleRunsInFlight++
    seen.add(job)
  }
  return { doubleRuns, doubleRunsInFlight }
}

function urgentOf(record: DemoRecord, atTheEndMs: ReadonlyMap<string, number>): UrgentReport {
  const urgent = record.jobs.filter((job) => job.urgent)
  const starts = startsOf(record)
  // A run that a kill interrupted had overtaken the backlog all the same, so its first start counts.
  const firstUs = new Map(starts.toReversed().map((start) => [start.job, start.startedUs]))
  const startUs = (id: string): number => firstUs.get(id) ?? Infinity
  const waits = urgent.map(({ id, createdUs }) => (startUs(id) - createdUs) / 1000).sort((a, b) => a - b)
  const overtaking = (tenant: string, fromUs: number, untilUs: number): number =>
    starts.filter(
      (start) => !start.urgent && start.tenant === tenant && start.startedUs > fromUs && start.startedUs < untilUs,
    ).length
  return {
    jobs: urgent.length,
    waitP50Ms: quantile(waits, 0.5),
    waitMaxMs: waits.at(-1) ?? 0,
    atTheEndMaxMs: Math.max(0, ...atTheEndMs.values()),
    overtakenBy: urgent.reduce((sum, job) => sum + overtaking(job.tenant, job.createdUs, startUs(job.id)), 0),
  }
}

function brokenOf(summary: Omit<DemoSummary, 'broken'>): string[] {
  const { refused, lost, doubleRuns, doubleRunsInFlight, urgent, total, tenants } = summary
  const broken: string[] = []
  if (refused > 0) broken.push(`the partner refused ${refused} calls`)
  const over = [total, ...tenants].filter((each) => each.worstWindow > each.max)
  const [worst] = over.toSorted((a, b) => b.worstWindow / b.max - a.worstWindow / a.max)
  if (worst)
    broken.push(
      `${over.length} budgets were exceeded, ${worst.name} with ${worst.worstWindow} calls in a window of ${worst.max}`,
    )
  const unused = [total, ...tenants].filter((each) => (each.utilisation ?? 1) < summary.leastUtilisation)
  const [least] = unused.toSorted((a, b) => (a.utilisation ?? 1) - (b.utilisation ?? 1))
  if (least)
    broken.push(
      `${unused.length} budgets were left unused while jobs waited, ${least.name} was used to ${((least.utilisation ?? 1) * 100).toFixed(1)} %`,
    )
  if (refused === 0 && summary.lowestUtilisation === null)
    broken.push('no backlog lasted over a whole window, so no use of a budget was measured')
  if (lost > 0) broken.push(`${lost} jobs were lost`)
  if (doubleRuns > doubleRunsInFlight)
    broken.push(`${doubleRuns - doubleRunsInFlight} jobs ran twice though no kill interrupted them`)
  if (urgent.jobs === 0) broken.push('no urgent job arrived while there was a backlog')
  if (urgent.overtakenBy > 0)
    broken.push(`${urgent.overtakenBy} ordinary jobs started before an urgent one of their tenant`)
  return broken
}
