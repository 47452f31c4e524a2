import { z } from 'zod'
import { type Duration, durationMs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { type JobState, STATES } from '../../jobs/job-state.ts'
import type { QueueCount, QueueRecord } from '../../store/contract/queues.ts'
import type { ThrottledRow } from '../../store/contract/waits.ts'
import type { WorkerRecord } from '../../store/contract/workers.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound, unprocessable } from '../refusal.ts'
import { monitorOperation, Name, Reason, TimeOrNull, Why } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** Jobs by state. */
export const StatesJson: z.ZodType = z.object(Object.fromEntries(STATES.map((state) => [state, z.number()])))

/** A queue with what stands in it. */
export const QueueJson: z.ZodType = z.object({
  name: z.string(),
  paused: z.boolean(),
  states: StatesJson,
  throttled: z.number().meta({ description: 'Jobs that wait for a budget.' }),
  bound: z.object({ maxDepth: z.number(), warnAt: z.number().nullable() }).nullable(),
  limit: z.string().nullable(),
  stripes: z.number(),
  createdAt: TimeOrNull,
  workers: z.number().meta({ description: 'Live workers that serve it.' }),
  served: z.boolean(),
})
QueueJson.register(z.globalRegistry, { id: 'MonitorQueue' })

/** A queue with what stands in it, as it is answered. */
export interface QueueAnswer {
  readonly name: string
  readonly paused: boolean
  readonly states: Record<JobState, number>
  readonly throttled: number
  readonly bound: { readonly maxDepth: number; readonly warnAt: number | null } | null
  readonly limit: string | null
  readonly stripes: number
  readonly createdAt: string | null
  readonly workers: number
  readonly served: boolean
}

const LONGEST_DRAIN_MS = 60_000

const OfQueue = z.object({ name: Name })

/** Lists the queues. */
export const listQueues: Operation = monitorOperation({
  method: 'GET',
  path: '/queues',
  name: 'monitorQueues',
  summary: 'List all queues with what stands in them.',
  answer: z.object({ queues: z.array(QueueJson) }),
  run: async (call) => ({ queues: await queuesOf(call) }),
})

/** Shows one queue. */
export const getQueue: Operation = monitorOperation({
  method: 'GET',
  path: '/queues/:name',
  name: 'monitorQueue',
  summary: 'Show a queue with what stands in it.',
  params: OfQueue,
  answer: QueueJson,
  run: async (call) => one(call, (await named(call)).name),
})

const pauseAt = (verb: 'pause' | 'resume', name: string, summary: string): Operation =>
  monitorOperation({
    method: 'PUT',
    path: `/queues/:name/${verb}`,
    name,
    summary,
    params: OfQueue,
    body: Why,
    answer: QueueJson,
    async run(call) {
      const queue = await named(call)
      await (await call.server.remote.store()).pauseQueue(queue.name, verb === 'pause')
      call.server.remote.notify()
      return one(call, queue.name)
    },
  })

/** Stops the starts of a queue. */
export const pauseQueue: Operation = pauseAt('pause', 'monitorPauseQueue', 'Stop all further starts of a queue.')

/** Lets the jobs of a queue start again. */
export const resumeQueue: Operation = pauseAt('resume', 'monitorResumeQueue', 'Let the jobs of a queue start again.')

/** Bounds a queue. */
export const boundQueue: Operation = monitorOperation({
  method: 'PUT',
  path: '/queues/:name/bound',
  name: 'monitorBoundQueue',
  summary: 'Bound how many jobs a queue holds that have not started; null lifts the bound.',
  params: OfQueue,
  body: z.strictObject({
    maxDepth: z.int().min(1).max(1_000_000_000).nullable(),
    warnAt: z.number().gt(0).max(1).nullable().optional(),
    reason: Reason,
  }),
  answer: QueueJson,
  async run(call) {
    const queue = await named(call)
    const { maxDepth, warnAt = null } = call.body
    await (await call.server.remote.store()).boundQueue(queue.name, maxDepth === null ? null : { maxDepth, warnAt })
    return one(call, queue.name)
  },
})

/** Waits until a queue is empty. */
export const drainQueue: Operation = monitorOperation({
  method: 'POST',
  path: '/queues/:name/drain',
  name: 'monitorDrainQueue',
  summary:
    'Wait until no job of a queue waits or runs, for at most a minute. It deletes nothing; ask again to wait longer.',
  params: OfQueue,
  body: z
    .strictObject({ timeout: z.string().min(1).max(64).optional().meta({ description: 'At most 1m; default 30s.' }) })
    .optional(),
  answer: z.object({ drained: z.boolean().meta({ description: 'False: the time was over.' }) }),
  async run(call) {
    const { name } = await named(call)
    const timeout = durationMs((call.body?.timeout ?? '30s') as Duration, 'timeout')
    if (timeout > LONGEST_DRAIN_MS) throw unprocessable('timeout is invalid. Expected at most 1m.')
    const letGo = call.server.heldOpen.take(call.access, 'polls')
    const signal = AbortSignal.any([call.gone(), call.server.closing])
    try {
      await call.server.sluice.queues.drain(name, { timeout, signal })
      return { drained: true }
    } catch (error) {
      if (!signal.aborted && !(error instanceof SluiceError && error.code === 'queue.drain.timeout')) throw error
      return { drained: false }
    } finally {
      letGo()
    }
  },
})

/** The queue that a call names. @throws {Refusal} 404 */
async function named(call: Call<{ readonly name: string }, unknown, unknown>): Promise<QueueRecord> {
  const { name } = call.params
  const seen = seenBy(call)
  const stored = seen.stored(name)
  const found = (await (await call.server.remote.store()).queues()).find((each) => each.name === stored)
  if (!found || !seen.owns(stored)) throw notFound('queue', name)
  call.concerns(stored)
  return found
}

async function one(call: AnyCall, stored: string): Promise<QueueAnswer> {
  const [found] = await queuesOf(call, stored)
  if (!found) throw notFound('queue', seenBy(call).name(stored))
  return found
}

/** All queues that the caller sees, or one. */
export async function queuesOf(call: AnyCall, only?: string): Promise<QueueAnswer[]> {
  const { remote, monitor } = call.server
  const store = await remote.store()
  const seen = seenBy(call)
  const records = (await store.queues()).filter(({ name }) => seen.owns(name) && (only === undefined || name === only))
  const counts = statesByQueue((await monitor.counts.get()).value)
  const throttled = waitsByQueue((await monitor.throttled.get()).value.rows)
  const workers = (await store.workers()).filter(({ alive }) => alive)
  return records.map((record) =>
    queueJson(record, {
      name: seen.name(record.name),
      states: counts.get(record.name) ?? noStates(),
      throttled: throttled.get(record.name) ?? 0,
      workers: serving(workers, record.name),
    }),
  )
}

function queueJson(
  { paused, bounds, limit, stripes, createdUs }: QueueRecord,
  { workers, ...figures }: Pick<QueueAnswer, 'name' | 'states' | 'throttled' | 'workers'>,
): QueueAnswer {
  return {
    ...figures,
    paused,
    bound: bounds && { maxDepth: bounds.maxDepth, warnAt: bounds.warnAt },
    limit,
    stripes,
    createdAt: createdUs === null ? null : new Date(createdUs / 1000).toISOString(),
    workers,
    served: workers > 0,
  }
}

/** The number of workers that serve a queue. */
function serving(workers: readonly WorkerRecord[], queue: string): number {
  return workers.filter(({ queues }) => queues.includes(queue)).length
}

/** No jobs, by state. */
export function noStates(): Record<JobState, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<JobState, number>
}

/** Jobs by state, of each queue. */
function statesByQueue(rows: readonly QueueCount[]): Map<string, Record<JobState, number>> {
  const found = new Map<string, Record<JobState, number>>()
  for (const { queue, state, jobs } of rows) {
    const states = found.get(queue) ?? noStates()
    found.set(queue, states)
    states[state] += jobs
  }
  return found
}

/** Jobs that wait for a budget, of each queue. A job in the wait lists of several workers counts once. */
function waitsByQueue(rows: readonly ThrottledRow[]): Map<string, number> {
  const sums = new Map<string, number>()
  for (const { queue, waiting, worker } of rows)
    if (worker === undefined) sums.set(queue, (sums.get(queue) ?? 0) + waiting)
  return sums
}
