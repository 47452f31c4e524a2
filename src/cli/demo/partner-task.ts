import { systemClock } from '../../base/clock.ts'
import type { Duration } from '../../base/duration.ts'
import { RateLimited } from '../../jobs/rate-limited.ts'
import { input } from '../../jobs/schema.ts'
import { type Task, task } from '../../engine/define/task.ts'
import { limit, type Limit, type LimitUse } from '../../policy/limits/define.ts'
import { PER, type Plan, PLAN_MAX, TOTAL_MAX } from './scenario.ts'

/** One call to the partner on behalf of a tenant. */
export interface PartnerCall {
  readonly tenant: string
}

/** The partner's budgets as Sluice's limits. */
export interface PartnerLimits {
  /** The cap over all tenants. */
  readonly total: Limit
  /** The limit of each plan, per tenant. */
  readonly plans: Readonly<Record<Plan, Limit>>
}

/** The name of the server that keeps the budgets outside the demo's store. */
export const SHARED = 'shared'

/**
 * Declares the partner's budgets.
 * @param guard by how much the way to the partner may vary.
 * @param isShared a server keeps them, and not the demo's store.
 */
export function partnerLimits(guard: Duration, isShared: boolean): PartnerLimits {
  const declare = (name: string, max: number): Limit =>
    limit(`partner-${name}`, { window: 'sliding', max, per: PER, guard, ...(isShared && { backend: SHARED }) })
  return {
    total: declare('total', TOTAL_MAX),
    plans: {
      starter: declare('starter', PLAN_MAX.starter),
      growth: declare('growth', PLAN_MAX.growth),
      scale: declare('scale', PLAN_MAX.scale),
    },
  }
}

/** The budget of a tenant on this plan. */
export function budgetOf({ plans }: PartnerLimits, plan: Plan): LimitUse<PartnerCall> {
  return plans[plan].by((call: PartnerCall) => call.tenant)
}

/** Names the job to the partner, so that its log shows repeated runs. */
export const JOB_HEADER = 'x-job'

/** Sends the handler's start to the partner's log, in µs of the host's monotonic clock. */
export const BEGAN_HEADER = 'x-began-us'

/**
 * The demo's task: one real call to the partner. The task limits the total; `enqueue` adds the limit of the tenant's
 * plan. @param partnerUrl the partner's address.
 */
export function partnerTask(partnerUrl: string, { total }: PartnerLimits): Task<PartnerCall, PartnerCall, undefined> {
  return task('partner.sync', input<PartnerCall>(), {
    limits: [total],
    async run({ tenant }, ctx): Promise<undefined> {
      const headers = { [JOB_HEADER]: ctx.job.id, [BEGAN_HEADER]: String(systemClock.monotonicUs()) }
      const reply = await fetch(`${partnerUrl}/tenants/${tenant}/sync`, { method: 'POST', headers, signal: ctx.signal })
      await reply.arrayBuffer()
      if (reply.status === 429) throw RateLimited.from(reply)
      if (!reply.ok) throw new Error(`The partner answered ${reply.status} for ${tenant}.`)
    },
  })
}
