import { type DemoRecord, periodUs, startsOf } from './record.ts'

/** The used part of a budget while jobs waited for it. */
export interface Utilisation {
  /** Units in use times how long, over units that could have been: each start holds one unit for per + guard. 0 to 1. */
  readonly share: number
  /** The measured time in whole windows of the budget. Below 1 the share says little. */
  readonly windows: number
}

/** Utilisation of the total and of each tenant. */
export interface Utilisations {
  readonly total: Utilisation
  readonly tenants: ReadonlyMap<string, Utilisation>
}

interface Meter {
  readonly max: number
  readonly periodUs: number
  waiting: number
  inUse: number
  /** The end of the burst after a worker's start, which slots bound and not the budget; null: no burst yet. */
  openingUntilUs: number | null
  used: number
  wasted: number
}

type Change = readonly [atUs: number, order: number, apply: () => void]

/** Within one µs, freed units come first, then arrivals, then starts. */
const FREES = 0
const ARRIVES = 1
const STARTS = 2

/**
 * Replays the starts against the budgets. It sums the units in use, and the units that were free and wanted.
 *
 * A unit is free and wanted while its tenant has a job waiting and both the tenant's budget and the total have room.
 * Three things do not count: units that the total withheld from a tenant, times without a worker, and the burst after a
 * worker's start. That burst ends when the budget or the total is used up, after at most one window.
 */
export function utilisations(record: DemoRecord): Utilisations {
  const total = meter(record.total.max, periodUs(record.total))
  const tenants = new Map([...record.tenants].map(([name, budget]) => [name, meter(budget.max, periodUs(budget))]))
  let alive = false
  const changes = changesOf(record, total, tenants, (now) => (alive = now))
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  let lastUs = changes[0]?.[0] ?? 0
  for (const [atUs, , apply] of changes) {
    if (alive && atUs > lastUs) addUp(total, [...tenants.values()], lastUs, atUs)
    lastUs = atUs
    apply()
  }
  return {
    total: result(total),
    tenants: new Map([...tenants].map(([name, each]) => [name, result(each)])),
  }
}

function meter(max: number, period: number): Meter {
  return { max, periodUs: period, waiting: 0, inUse: 0, openingUntilUs: null, used: 0, wasted: 0 }
}

function changesOf(
  record: DemoRecord,
  total: Meter,
  tenants: ReadonlyMap<string, Meter>,
  setAlive: (alive: boolean) => void,
): Change[] {
  const changes: Change[] = [[record.readyUs, STARTS, (): void => setAlive(true)]]
  for (const { fromUs, untilUs } of record.outages) {
    changes.push([fromUs, FREES, (): void => setAlive(false)], [untilUs, STARTS, (): void => setAlive(true)])
    // A burst uses the units that became free in the meantime.
    for (const each of [total, ...tenants.values()]) changes.push([untilUs, FREES, (): void => reopen(each)])
  }
  for (const { tenant, sinceUs, startedUs } of startsOf(record)) {
    const own = tenants.get(tenant)
    if (!own) continue
    changes.push([sinceUs, ARRIVES, (): void => void own.waiting++])
    changes.push([startedUs, STARTS, (): void => begin(own, total, startedUs)])
    for (const each of [own, total]) changes.push([startedUs + each.periodUs, FREES, (): void => void each.inUse--])
  }
  return changes
}

function begin(own: Meter, total: Meter, nowUs: number): void {
  own.waiting--
  for (const each of [own, total]) {
    each.inUse++
    each.openingUntilUs ??= nowUs + each.periodUs
    if (each.inUse >= each.max) each.openingUntilUs = Math.min(each.openingUntilUs, nowUs)
  }
  // The total also ends the opening burst of a tenant that it stops.
  if (total.inUse >= total.max && own.openingUntilUs !== null) own.openingUntilUs = Math.min(own.openingUntilUs, nowUs)
}

function reopen(each: Meter): void {
  each.openingUntilUs = null
}

function addUp(total: Meter, tenants: readonly Meter[], fromUs: number, untilUs: number): void {
  const room = Math.max(0, total.max - total.inUse)
  let wanted = 0
  for (const each of tenants) {
    const free = Math.min(each.waiting, Math.max(0, each.max - each.inUse))
    wanted += free
    if (each.waiting > 0) count(each, room > 0 ? free : 0, fromUs, untilUs)
  }
  if (wanted > 0) count(total, Math.min(room, wanted), fromUs, untilUs)
}

function count(each: Meter, wasted: number, fromUs: number, untilUs: number): void {
  if (each.openingUntilUs === null) return
  const us = untilUs - Math.max(fromUs, each.openingUntilUs)
  if (us <= 0) return
  each.used += each.inUse * us
  each.wasted += wasted * us
}

function result({ used, wasted, max, periodUs: period }: Meter): Utilisation {
  const measured = used + wasted
  return { share: measured === 0 ? 1 : used / measured, windows: measured / (max * period) }
}
