import { z } from 'zod'
import type { QueueCount } from '../../store/contract/queues.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { checkTenant, isOwn, ownName, splitName } from '../tenant.ts'
import { countsOf, depthOf } from './counts.ts'
import { ownQueues } from './queues.ts'
import { QueueName } from './schemas.ts'

const MINUTE_US = 60_000_000
const POOL = 'pool:'

/** Counts queues, workers and jobs. */
export const adminStats: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/stats',
  name: 'adminStats',
  summary: 'Count queues, workers and jobs.',
  answers: { 200: 'The numbers.' },
  async run(call) {
    const { remote } = call.server
    const store = await remote.store()
    const { tenant } = call
    const sinceUs = (await remote.store()).nowUs() - MINUTE_US
    const ended = await (tenant === '' ? store.endedRuns(sinceUs) : store.endedRuns(sinceUs, ownName(tenant, '')))
    const workers = (await store.workers()).filter(
      ({ alive, name }) => alive && name !== null && (tenant === '' || isOwn(tenant, name)),
    )
    return ok({
      queues: (await ownQueues(call)).length,
      workers: workers.length,
      jobs: countsOf(await ownCounts(call)),
      throughput: { processed_per_minute: ended.completed, failed_per_minute: ended.discarded },
    })
  },
})

/** Counts the jobs of a tenant. */
export const tenantStats: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/tenants/:id/stats',
  name: 'tenantStats',
  summary: 'Count the jobs of a tenant.',
  params: z.object({ id: z.string().max(128) }),
  answers: { 200: 'The numbers.' },
  async run(call) {
    const tenant = checkTenant(call.params.id)
    if (call.tenant !== '' && call.tenant !== tenant) throw notFound('tenant', tenant)
    const rows = (await call.server.counts.of()).filter((row) => isOwn(tenant, row.queue))
    const jobs = countsOf(rows)
    return ok({
      tenant_id: tenant,
      total_jobs: rows.reduce((total, row) => total + row.jobs, 0),
      jobs,
      queues: new Set(rows.map((row) => row.queue)).size,
    })
  },
})

/** Describes how queues share starts. */
export const schedulingStats: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/scheduling/stats',
  name: 'schedulingStats',
  summary: 'Show how queues share starts.',
  answers: { 200: 'The numbers by queue.' },
  async run(call) {
    const counts = await ownCounts(call)
    const queues = (await ownQueues(call)).map(({ name }) => {
      const own = countsOf(counts.filter((row) => row.queue === name))
      return { name: splitName(name).name, depth: depthOf(own), active: own.active, completed: own.completed }
    })
    return ok({ stats: { strategy: 'turns', queues }, queues })
  },
})

/** Stores a pool of queues. The order of a worker's queues decides its fetch, so weights only advise workers. */
export const putPool: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/admin/pools/:name',
  name: 'putPool',
  summary: 'Store a pool of queues with their weights, for workers to read.',
  params: z.object({ name: QueueName }),
  body: z.looseObject({
    name: QueueName.optional(),
    strategy: z.enum(['weighted', 'round-robin', 'round_robin', 'strict', 'priority', 'fair']),
    queues: z.union([
      z.array(QueueName).max(1000),
      z.record(QueueName, z.looseObject({ weight: z.number().min(0).max(1_000_000).optional() })),
    ]),
  }),
  answers: { 200: 'The pool.' },
  async run({ server, params, tenant, body }) {
    const pool = { ...body, name: params.name }
    await (await server.remote.store()).keepSetting(`${POOL}${tenant}/${params.name}`, JSON.stringify(pool))
    return ok({ pool })
  },
})

/** Lists the stored pools. */
export const listPools: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/pools',
  name: 'listPools',
  summary: 'List pools of queues.',
  answers: { 200: 'The pools.' },
  async run({ server, tenant }) {
    const kept = await (await server.remote.store()).settings(`${POOL}${tenant}/`)
    return ok({ pools: kept.map(({ value }) => JSON.parse(value) as unknown) })
  },
})

async function ownCounts({ server, tenant }: Call<unknown, unknown, unknown>): Promise<QueueCount[]> {
  return (await server.counts.of()).filter((row) => isOwn(tenant, row.queue))
}
