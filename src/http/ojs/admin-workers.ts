import { z } from 'zod'
import type { WorkerRecord } from '../../store/contract/workers.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'
import { timeOf } from './job-json.ts'
import { pageOf } from './pages.ts'
import { PageQuery, WorkerId } from './schemas.ts'

const Params = z.object({ id: WorkerId })

/** Lists workers, those of engines included. */
export const listWorkers: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/workers',
  name: 'listWorkers',
  summary: 'List workers.',
  query: PageQuery,
  answers: { 200: 'The workers.' },
  async run(call) {
    const workers = await ownWorkers(call)
    const { items, pagination } = pageOf(workers, call.query)
    const alive = workers.filter((worker) => worker.alive)
    const quiet = alive.filter((worker) => worker.directive !== 'running').length
    return ok({
      items: items.map(workerJson),
      pagination,
      summary: {
        total: workers.length,
        running: alive.length - quiet,
        quiet,
        stale: workers.length - alive.length,
      },
    })
  },
})

/** Makes a worker take no more jobs. */
export const quietWorker: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/admin/workers/:id/quiet',
  name: 'quietWorker',
  summary: 'Make a worker take no more jobs.',
  params: Params,
  body: z.unknown().optional(),
  answers: { 200: 'The answer to its next heartbeat tells the worker.' },
  async run({ server, tenant, params }) {
    const name = ownName(tenant, params.id)
    if (!(await (await server.remote.store()).setDirective(name, 'quiet'))) throw notFound('worker', params.id)
    server.remote.forget(name)
    return ok({ worker_id: params.id, id: params.id, state: 'quiet' })
  },
})

/** Removes a worker. Its jobs stay leased to it until the lease ends. */
export const deleteWorker: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/admin/workers/:id',
  name: 'deleteWorker',
  summary: 'Remove a worker.',
  params: Params,
  answers: { 200: 'The worker is removed.' },
  async run({ server, tenant, params }) {
    const name = ownName(tenant, params.id)
    if (!(await (await server.remote.store()).deregisterWorker(name))) throw notFound('worker', params.id)
    server.remote.forget(name)
    server.names.forget('workers', tenant, name)
    return ok({ worker_id: params.id, deleted: true })
  },
})

async function ownWorkers({ server, tenant }: Call<unknown, unknown, unknown>): Promise<WorkerRecord[]> {
  const all = await (await server.remote.store()).workers()
  return all.filter(({ name }) => (name === null ? tenant === '' : isOwn(tenant, name)))
}

function workerJson({
  worker,
  name,
  queues,
  directive,
  alive,
  aliveUntilUs,
  joinedUs,
  about,
  active,
}: WorkerRecord): object {
  const own = name === null ? `engine-${worker}` : splitName(name).name
  return {
    ...(about === null ? {} : (JSON.parse(about) as object)),
    id: own,
    worker_id: own,
    state: alive ? directive : 'stale',
    directive,
    queues: queues.map((queue) => splitName(queue).name),
    active_jobs: active,
    started_at: timeOf(joinedUs),
    ...(alive && { alive_until: timeOf(aliveUntilUs) }),
  }
}
