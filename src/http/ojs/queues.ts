import type { QueueRecord } from '../../store/contract/queues.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'
import { countsOf, depthOf } from './counts.ts'
import { timeOf } from './job-json.ts'
import { requireQueues } from './jobs.ts'
import { pageOf } from './pages.ts'
import { PageQuery, PauseBody, QueueParams } from './schemas.ts'

/** The queues that the caller may see, by name. */
export async function ownQueues({ server, tenant, access }: Call<unknown, unknown, unknown>): Promise<QueueRecord[]> {
  const all = await (await server.remote.store()).queues()
  return all.filter(({ name }) => isOwn(tenant, name) && access.mayName(splitName(name).name))
}

/** Pauses or resumes a queue. */
export async function setPaused(
  call: Call<unknown, unknown, unknown>,
  name: string,
  paused: boolean,
): Promise<{ name: string; paused: boolean }> {
  requireQueues(call, [name])
  const { remote, names } = call.server
  const stored = ownName(call.tenant, name)
  await names.admit('queues', call.tenant, [stored])
  await (await remote.store()).pauseQueue(stored, paused)
  remote.notify()
  return { name, paused }
}

/** Lists the queues of the tenant. */
export const listQueues: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/queues',
  name: 'listQueues',
  summary: 'List queues.',
  query: PageQuery,
  answers: { 200: 'Every queue that a request has named.' },
  async run(call) {
    const { items, pagination } = pageOf(await ownQueues(call), call.query)
    const throttled = await call.server.counts.throttled()
    const queues = items.map(({ name, paused, createdUs }) => ({
      name: splitName(name).name,
      status: paused ? 'paused' : 'active',
      paused,
      throttled: throttled.get(name) ?? 0,
      ...(createdUs !== null && { created_at: timeOf(createdUs) }),
    }))
    return ok({ queues, pagination })
  },
})

/** Counts the jobs of a queue by state. */
export const queueStats: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/queues/:name/stats',
  name: 'queueStats',
  summary: 'Count the jobs of a queue.',
  params: QueueParams,
  answers: { 200: 'The jobs of the queue by state.' },
  async run(call) {
    const { name } = call.params
    requireQueues(call, [name])
    const stored = ownName(call.tenant, name)
    const store = await call.server.remote.store()
    const counts = countsOf(await call.server.counts.of(stored))
    const record = (await store.queues()).find((each) => each.name === stored)
    const paused = record?.paused ?? false
    const throttled = (await call.server.counts.throttled()).get(stored) ?? 0
    const shown = { name, paused, status: paused ? 'paused' : 'active', ...counts, throttled }
    return ok({
      ...shown,
      queue: shown,
      stats: {
        queue: name,
        depth: depthOf(counts),
        ...(record?.bounds && { max_depth: record.bounds.maxDepth }),
        ...counts,
        throttled,
      },
    })
  },
})

/** Stops handing out jobs of a queue. */
export const pauseQueue: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/queues/:name/pause',
  name: 'pauseQueue',
  summary: 'Stop handing out jobs of a queue.',
  params: QueueParams,
  body: PauseBody,
  answers: { 200: 'The queue is paused.' },
  run: async (call) => ok({ queue: await setPaused(call, call.params.name, true) }),
})

/** Hands out the jobs of a queue again. */
export const resumeQueue: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/queues/:name/resume',
  name: 'resumeQueue',
  summary: 'Hand out the jobs of a queue again.',
  params: QueueParams,
  body: PauseBody,
  answers: { 200: 'The queue is active.' },
  run: async (call) => ok({ queue: await setPaused(call, call.params.name, false) }),
})
