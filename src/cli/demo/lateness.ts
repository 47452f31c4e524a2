import { type DemoRecord, periodUs, type Start, startsOf } from './record.ts'

/** How late handlers started, in ms. */
export interface Lateness {
  /** Starts that had waited for a budget. Budgets do not delay the others. */
  readonly starts: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/**
 * Measures the delay between the instant that its budgets allowed and the handler's start.
 *
 * The budgets allow a start when its unit becomes free. A tenant's n-th start may follow its (n − max)-th after one
 * period; the n-th start of all, the (n − total)-th. The later of the two counts. Only delayed starts count, and none
 * that became possible while no worker was alive.
 */
export function latenessOf(record: DemoRecord): Lateness {
  const beganUs = new Map(record.calls.map(({ job, beganUs: us }) => [job, us]))
  const lost = new Set(record.outages.flatMap(({ inFlight }) => inFlight.map(keyOf)))
  const late: number[] = []
  const all: Start[] = []
  const byTenant = new Map<string, Start[]>()
  for (const start of startsOf(record)) {
    const own = byTenant.get(start.tenant) ?? []
    byTenant.set(start.tenant, own)
    const budget = record.tenants.get(start.tenant)
    const began = beganUs.get(start.job)
    const allowedUs = Math.max(
      budget ? freedUs(own, budget.max, periodUs(budget)) : 0,
      freedUs(all, record.total.max, periodUs(record.total)),
    )
    all.push(start)
    own.push(start)
    if (began === undefined || allowedUs <= start.sinceUs || lost.has(keyOf({ ...start, id: start.job }))) continue
    if (record.outages.some(({ fromUs, untilUs }) => allowedUs >= fromUs && allowedUs < untilUs)) continue
    late.push((began - allowedUs) / 1000)
  }
  late.sort((a, b) => a - b)
  return { starts: late.length, p50Ms: quantile(late, 0.5), p99Ms: quantile(late, 0.99), maxMs: late.at(-1) ?? 0 }
}

/** The smallest value that at least `share` of a sorted list does not exceed; 0 for an empty list. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
}

/** When the unit that the next start takes came free. */
function freedUs(starts: readonly Start[], max: number, period: number): number {
  const before = starts[starts.length - max]
  return before === undefined ? 0 : before.startedUs + period
}

function keyOf({ id, startedUs }: { readonly id: string; readonly startedUs: number | null }): string {
  return `${id} ${startedUs}`
}
