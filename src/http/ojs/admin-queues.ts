import { z } from 'zod'
import type { QueueBounds } from '../../store/contract/queues.ts'
import { MAX_STRIPES } from '../../jobs/lane.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { ownName, splitName } from '../tenant.ts'
import { requireQueues } from './jobs.ts'
import { pageOf } from './pages.ts'
import { countsOf, depthOf } from './counts.ts'
import { ownQueues, setPaused } from './queues.ts'
import { defined } from './rate-limits.ts'
import { PageQuery, PauseBody, QueueParams, RateLimit } from './schemas.ts'

/** Lists queues with the number of their jobs. */
export const adminListQueues: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/queues',
  name: 'adminListQueues',
  summary: 'List queues with the number of their jobs.',
  query: PageQuery,
  answers: { 200: 'The queues.' },
  async run(call) {
    const { items, pagination } = pageOf(await ownQueues(call), call.query)
    const counts = await call.server.counts.of()
    const throttled = await call.server.counts.throttled()
    const shown = items.map(({ name, paused }) => ({
      name: splitName(name).name,
      state: paused ? 'paused' : 'active',
      paused,
      counts: countsOf(counts.filter((row) => row.queue === name)),
      throttled: throttled.get(name) ?? 0,
    }))
    return ok({ items: shown, pagination })
  },
})

/** Reads one queue with the number of its jobs. */
export const adminGetQueue: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/queues/:name',
  name: 'adminGetQueue',
  summary: 'Read a queue.',
  params: QueueParams,
  answers: { 200: 'The queue.' },
  async run(call) {
    const { name } = call.params
    const stored = ownName(call.tenant, name)
    const record = (await ownQueues(call)).find((each) => each.name === stored)
    if (!record) throw notFound('queue', name)
    const counts = countsOf(await call.server.counts.of(stored))
    const { paused, bounds, limit, stripes } = record
    return ok({
      name,
      state: paused ? 'paused' : 'active',
      paused,
      counts,
      depth: depthOf(counts),
      throttled: (await call.server.counts.throttled()).get(stored) ?? 0,
      config: configJson(bounds, stripes),
      rate_limit: limit && splitName(limit).name,
    })
  },
})

/** Stops handing out jobs of a queue. */
export const adminPauseQueue: Operation = pauseOperation('pause', true)

/** Hands out the jobs of a queue again. */
export const adminResumeQueue: Operation = pauseOperation('resume', false)

/** Bounds a queue. */
export const configureQueue: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/admin/queues/:name/config',
  name: 'configureQueue',
  summary: 'Bound the number of jobs in a queue that have not started, or spread its lanes over stripes.',
  params: QueueParams,
  body: z.looseObject({
    backpressure: z
      .looseObject({
        max_depth: z.int().min(1).max(100_000_000),
        strategy: z.enum(['reject']).default('reject'),
        warning_threshold: z.number().gt(0).max(1).optional(),
      })
      .nullish(),
    stripes: z.int().min(1).max(MAX_STRIPES).optional(),
  }),
  answers: { 200: 'The bounds apply from now on.' },
  async run(call) {
    const { name } = call.params
    const { backpressure, stripes } = call.body
    requireQueues(call, [name])
    const store = await call.server.remote.store()
    const stored = ownName(call.tenant, name)
    await call.server.names.admit('queues', call.tenant, [stored])
    if (backpressure !== undefined)
      await store.boundQueue(
        stored,
        backpressure && { maxDepth: backpressure.max_depth, warnAt: backpressure.warning_threshold ?? null },
      )
    if (stripes !== undefined) await store.stripeQueue(stored, stripes)
    const record = (await store.queues()).find((each) => each.name === stored)
    return ok({ name, config: configJson(record?.bounds ?? null, record?.stripes ?? 1) })
  },
})

/** Limits the rate of all starts of a queue. */
export const limitQueue: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/admin/queues/:name/rate-limit',
  name: 'limitQueue',
  summary: 'Limit the rate of all starts of a queue; an empty object removes the limit.',
  params: QueueParams,
  body: RateLimit,
  answers: { 200: 'The limit applies from now on.' },
  async run(call) {
    const { name } = call.params
    const { remote, names } = call.server
    requireQueues(call, [name])
    const store = await remote.store()
    const queue = ownName(call.tenant, name)
    const lift = Object.keys(call.body).length === 0
    const limit = ownName(call.tenant, `queue:${name}`)
    const definitions = lift ? [] : defined(call.body, limit)
    await names.admit('queues', call.tenant, [queue])
    if (!lift) await names.admit('limits', call.tenant, [limit])
    if (!lift) await remote.define(definitions)
    await store.limitQueue(queue, lift ? null : limit)
    remote.notify()
    return ok({ name, queue: { name }, rate_limit: lift ? null : call.body })
  },
})

/** The bounds and the stripes of a queue, in the form of a change. */
function configJson(bounds: QueueBounds | null, stripes: number): object {
  const spread = stripes > 1 ? { stripes } : {}
  if (!bounds) return { backpressure: null, ...spread }
  const { maxDepth, warnAt } = bounds
  return {
    backpressure: { max_depth: maxDepth, strategy: 'reject', ...(warnAt !== null && { warning_threshold: warnAt }) },
    ...spread,
  }
}

function pauseOperation(verb: string, paused: boolean): Operation {
  return operation({
    method: 'POST',
    path: `/ojs/v1/admin/queues/:name/${verb}`,
    name: `admin_${verb}_queue`,
    summary: paused ? 'Stop handing out jobs of a queue.' : 'Hand out the jobs of a queue again.',
    params: QueueParams,
    body: PauseBody,
    answers: { 200: 'The state of the queue.' },
    run: async (call) => ok(await setPaused(call, call.params.name, paused)),
  })
}
