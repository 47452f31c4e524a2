import type { Duration } from '../../base/duration.ts'

/** The demo's tenants, their calls, and the events during the run. */
export interface Scenario {
  readonly tenants: readonly Tenant[]
  /** When urgent jobs arrive for every tenant that still has a backlog, in ms from the first start. */
  readonly urgentAtMs: readonly number[]
  /** The share of all jobs after which `--kill` kills the worker. */
  readonly killAfter: number
  /** When to give up, in ms from the first start. */
  readonly deadlineMs: number
}

/** A customer of ours with a plan at the partner. */
export interface Tenant {
  readonly name: string
  readonly plan: Plan
  readonly jobs: number
}

/** A tenant's plan with the partner. */
export type Plan = 'starter' | 'growth' | 'scale'

/** Calls that the partner allows in any window, by plan. */
export const PLAN_MAX: Readonly<Record<Plan, number>> = { starter: 10, growth: 24, scale: 400 }

/** Calls that the partner allows in any window over all tenants: less than the 902 that their plans add up to. */
export const TOTAL_MAX = 750

/** The partner's window: half open, wherever it starts. */
export const PER = '5s'

/**
 * The default guard. It covers jitter from a start to the partner: garbage collection, a busy machine, a new
 * connection.
 */
export const GUARD: Duration = '250ms'

const NAMES =
  'acme alder aspen beech birch cedar cherry cypress ebony elder elm fir ginkgo hazel hemlock holly ivy juniper larch laurel ' +
  'lilac linden maple myrtle oak olive palm pear pine plane plum poplar quince rowan spruce tamarack teak walnut willow yew'

/** Every fifth tenant pays for more than a starter does. */
const GROWTH_EVERY = 5

/**
 * The tenants and their jobs. Each backlog lasts several windows of its tenant's budget. The first tenant has as many
 * jobs as all others together.
 */
export function scenarioOf({ fast }: { readonly fast: boolean }): Scenario {
  const windows = fast ? [1.2, 1.7, 2.4] : [3, 4, 5.5, 6.5, 8]
  const [first = '', ...names] = NAMES.split(' ')
  const others = names.map((name, i): Tenant => {
    const plan = i % GROWTH_EVERY === 0 ? 'growth' : 'starter'
    // A separate stride, so that plans and backlog depths combine freely.
    const depth = windows[Math.floor(i / 2) % windows.length] ?? 1
    return { name, plan, jobs: Math.round(PLAN_MAX[plan] * depth) }
  })
  const half = others.reduce((sum, tenant) => sum + tenant.jobs, 0)
  return {
    tenants: [{ name: first, plan: 'scale', jobs: half }, ...others],
    urgentAtMs: fast ? [3_000] : [8_000, 18_000],
    killAfter: fast ? 0.5 : 0.45,
    deadlineMs: 120_000,
  }
}
