import type { BucketReport } from '../../limiter/contract/limiter.ts'
import { shownBucket } from '../budgets.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { LimitParams, LimitQuery } from './schemas.ts'

/** Lists the limits that a caller may use. */
export const listBudgets: Operation = operation({
  method: 'GET',
  path: '/limiter/v1/limits',
  name: 'listBudgets',
  summary: 'List the limits of the tenant, with their policies.',
  answers: { 200: 'The limits.' },
  async run({ server, tenant }) {
    const limits = await server.budgets.limits(tenant)
    return ok({ limits: [...limits].map(([limit, policy]) => ({ limit, policy })) })
  },
})

/** Shows a bucket. */
export const getBudget: Operation = operation({
  method: 'GET',
  path: '/limiter/v1/limits/:limit',
  name: 'getBudget',
  summary: 'Show what is left of a limit, or of one key of it.',
  params: LimitParams,
  query: LimitQuery,
  answers: { 200: 'The bucket.' },
  async run({ params, query, server, tenant }) {
    const bucket = server.budgets.bucket(tenant, { limit: params.limit, key: query.key })
    await server.budgets.ensure(tenant, bucket)
    const report = await server.budgets.call((backend) => backend.inspect(bucket))
    return ok({ ...shownBucket(bucket), ...(report && reportJson(report)) })
  },
})

function reportJson(report: BucketReport): Record<string, unknown> {
  const { policy, available, debt, capacity, active, nextInUs, closedForUs } = report
  return {
    policy,
    available,
    debt,
    capacity: Number.isFinite(capacity) ? capacity : null,
    active,
    next_in_ms: nextInUs === null ? null : nextInUs / 1000,
    closed_for_ms: closedForUs / 1000,
  }
}
