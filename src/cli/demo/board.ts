import { type BucketState, charge, deniedUntil, newBucket, view } from '../../policy/limits/bucket.ts'
import { useOf } from '../../policy/limits/define.ts'
import { expectedStartUs } from '../../policy/limits/start-time.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { PartnerLimits } from './partner-task.ts'
import type { Tenant } from './scenario.ts'

/** One row of the live table. */
export interface BoardRow {
  readonly name: string
  readonly plan: string
  readonly done: number
  readonly jobs: number
  readonly waiting: number
  /** Units that count in the current window. */
  readonly used: number
  readonly max: number
  /** When the next waiting job may start, in ms from now; null: no job waits. */
  readonly nextMs: number | null
  /** When the last job that waits now should start, in ms from now, as forecast by the budget alone. */
  readonly drainMs: number
}

/** The state of the demo at one moment. */
export interface BoardView {
  readonly total: BoardRow
  readonly tenants: readonly BoardRow[]
  /** When all should be done, in ms from now: the latest forecast of all budgets. */
  readonly etaMs: number
}

interface TenantLine {
  readonly name: string
  readonly plan: string
  readonly policy: LimitPolicy
  readonly bucket: BucketState
  jobs: number
  done: number
}

/**
 * Derives every budget from the partner's log, with the engine's own maths. It never reads the store, so that the
 * display does not slow the worker.
 */
export class Board {
  readonly #total: TenantLine
  readonly #tenants: ReadonlyMap<string, TenantLine>
  readonly #seen = new Set<string>()

  /** @param nowUs any steady clock, the same for all calls. */
  constructor(tenants: readonly Tenant[], { total, plans }: PartnerLimits, nowUs: number) {
    const line = (name: string, plan: string, policy: LimitPolicy): TenantLine => {
      return { name, plan, policy, bucket: newBucket(policy, nowUs), jobs: 0, done: 0 }
    }
    this.#total = line('total', '', useOf(total).policy)
    this.#tenants = new Map(tenants.map(({ name, plan }) => [name, line(name, plan, useOf(plans[plan]).policy)]))
  }

  /** Jobs that were acknowledged. */
  get jobs(): number {
    return this.#total.jobs
  }

  /** Jobs that the partner has seen. */
  get done(): number {
    return this.#total.done
  }

  /** Jobs of a tenant were acknowledged. */
  enqueued(tenant: string, count: number): void {
    for (const line of this.#linesOf(tenant)) line.jobs += count
  }

  /** Counts a call that the partner admitted. A repeated call uses budget, but does not complete another job. */
  called(tenant: string, job: string, nowUs: number): void {
    const first = !this.#seen.has(job)
    this.#seen.add(job)
    for (const line of this.#linesOf(tenant)) {
      charge(line.policy, line.bucket, nowUs, 1)
      if (first) line.done++
    }
  }

  /**
   * How long a job at the end of a tenant's backlog would wait, in ms: the later forecast of its budget's and the
   * total's.
   */
  waitAtTheEndMs(tenant: string, nowUs: number): number {
    return Math.max(0, ...this.#linesOf(tenant).map((line) => (forecastUs(line, 1, nowUs) - nowUs) / 1000))
  }

  /** Jobs of a tenant that have not been done. */
  waiting(tenant: string): number {
    const line = this.#tenants.get(tenant)
    return line ? line.jobs - line.done : 0
  }

  /** The state of all budgets. */
  view(nowUs: number): BoardView {
    const rows = [...this.#tenants.values()].map((line) => this.#row(line, nowUs))
    const all = this.#row(this.#total, nowUs)
    return { total: all, tenants: rows, etaMs: Math.max(all.drainMs, ...rows.map((row) => row.drainMs)) }
  }

  #row(line: TenantLine, nowUs: number): BoardRow {
    const { name, plan, policy, bucket, jobs, done } = line
    const waiting = jobs - done
    const { available, capacity } = view(policy, bucket, 0, nowUs)
    const starts = [line, this.#total].map((each) => deniedUntil(each.policy, each.bucket, 0, nowUs, 1) ?? nowUs)
    return {
      name,
      plan,
      done,
      jobs,
      waiting,
      used: capacity - available,
      max: capacity,
      nextMs: waiting === 0 ? null : (Math.max(...starts) - nowUs) / 1000,
      drainMs: (forecastUs(line, 0, nowUs) - nowUs) / 1000,
    }
  }

  #linesOf(tenant: string): TenantLine[] {
    const own = this.#tenants.get(tenant)
    return own ? [own, this.#total] : [this.#total]
  }
}

/** When the last of a budget's waiting jobs, and of `more` others, should start. */
function forecastUs({ policy, bucket, jobs, done }: TenantLine, more: number, nowUs: number): number {
  return expectedStartUs(policy, bucket, 0, nowUs, { count: jobs - done + more, weight: 1 }) ?? nowUs
}
