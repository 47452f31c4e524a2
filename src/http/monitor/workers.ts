import { z } from 'zod'
import type { WorkerView } from '../../engine/api/workers.ts'
import type { WorkerRecord } from '../../store/contract/workers.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { monitorOperation, Name, Time, timeOf, Why } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const WorkerJson = z.object({
  worker: z.number(),
  name: z.string().nullable().meta({ description: "Null: an engine's own worker." }),
  host: z.string().nullable().meta({ description: 'Null: it has not said so.' }),
  pid: z.number().nullable(),
  queues: z.array(z.string()),
  tasks: z.array(z.string()).nullable().meta({ description: 'Null: any.' }),
  alive: z.boolean(),
  joinedAt: Time,
  aliveUntil: Time,
  directive: z.enum(['running', 'quiet', 'terminate']),
  slots: z.number().nullable().meta({ description: 'The most jobs that it runs at once; null: it has not said so.' }),
  active: z.number(),
  running: z
    .array(z.object({ id: z.string(), task: z.string(), queue: z.string(), attempt: z.number(), since: Time }))
    .meta({ description: 'Its running jobs, the longest first; at most 1,000 over all workers.' }),
})
WorkerJson.register(z.globalRegistry, { id: 'MonitorWorker' })

/** Lists the workers. */
export const listWorkers: Operation = monitorOperation({
  method: 'GET',
  path: '/workers',
  name: 'monitorWorkers',
  summary: 'List the workers: processes of engines, and remote ones, with what each runs.',
  answer: z.object({ workers: z.array(WorkerJson) }),
  run: async (call) => ({
    workers: (await call.server.sluice.workers.list())
      .filter(({ name }) => seesWorker(call, name))
      .map((each) => workerJson(call, each)),
  }),
})

/** Lets a remote worker take no more jobs. */
export const quietWorker: Operation = monitorOperation({
  method: 'PUT',
  path: '/workers/:name/quiet',
  name: 'monitorQuietWorker',
  summary: 'Let a remote worker take no more jobs.',
  params: z.object({ name: Name }),
  body: Why,
  answer: z.object({ done: z.boolean() }),
  async run(call) {
    const seen = seenBy(call)
    const stored = seen.stored(call.params.name)
    const isSet = seen.owns(stored) && (await (await call.server.remote.store()).setDirective(stored, 'quiet'))
    if (!isSet) throw notFound('worker', call.params.name)
    call.concerns(stored)
    call.server.remote.forget(stored)
    return { done: true }
  },
})

/** The workers that a caller sees. */
export async function workersSeen(call: AnyCall): Promise<WorkerRecord[]> {
  const all = await (await call.server.remote.store()).workers()
  return all.filter(({ name }) => seesWorker(call, name))
}

/** Whether a caller sees a worker. Engines work for all tenants, so a tenant does not see them. */
function seesWorker(call: AnyCall, name: string | null): boolean {
  const seen = seenBy(call)
  return name === null ? (seen.tenant ?? '') === '' : seen.owns(name)
}

function workerJson(
  call: AnyCall,
  { id, name, queues, tasks, running, joinedAt, aliveUntil, ...rest }: WorkerView,
): object {
  const seen = seenBy(call)
  return {
    ...rest,
    worker: id,
    name: name === null ? null : seen.name(name),
    queues: queues.map((queue) => seen.name(queue)),
    tasks: tasks && [...tasks],
    joinedAt: timeOf(joinedAt),
    aliveUntil: timeOf(aliveUntil),
    running: running
      .filter(({ queue }) => seen.owns(queue))
      .map(({ since, ...job }) => ({ ...job, queue: seen.name(job.queue), since: timeOf(since) })),
  }
}
