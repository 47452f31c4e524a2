import { z } from 'zod'
import type { WorkerRecord } from '../../store/contract/workers.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { monitorOperation, Name, Time, Why } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const WorkerJson = z.object({
  worker: z.number(),
  name: z.string().nullable().meta({ description: "Null: an engine's own worker." }),
  queues: z.array(z.string()),
  tasks: z.array(z.string()).nullable().meta({ description: 'Null: any.' }),
  alive: z.boolean(),
  joinedAt: Time,
  aliveUntil: Time,
  directive: z.enum(['running', 'quiet', 'terminate']),
  active: z.number(),
})

/** Lists the workers. */
export const listWorkers: Operation = monitorOperation({
  method: 'GET',
  path: '/workers',
  name: 'monitorWorkers',
  summary: 'List the workers: processes of engines, and remote ones.',
  answer: z.object({ workers: z.array(WorkerJson) }),
  run: async (call) => ({ workers: (await workersSeen(call)).map((each) => workerJson(call, each)) }),
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
    call.server.remote.forget(stored)
    return { done: true }
  },
})

/** The workers that a caller sees. Engines work for all tenants, so a tenant does not see them. */
export async function workersSeen(call: AnyCall): Promise<WorkerRecord[]> {
  const seen = seenBy(call)
  const all = await (await call.server.remote.store()).workers()
  return all.filter(({ name }) => (name === null ? (seen.tenant ?? '') === '' : seen.owns(name)))
}

function workerJson(call: AnyCall, worker: WorkerRecord): object {
  const seen = seenBy(call)
  const { name, queues, tasks, alive, directive, active, joinedUs, aliveUntilUs } = worker
  return {
    worker: worker.worker,
    name: name === null ? null : seen.name(name),
    queues: queues.map((queue) => seen.name(queue)),
    tasks: tasks && [...tasks],
    alive,
    joinedAt: timeOf(joinedUs),
    aliveUntil: timeOf(aliveUntilUs),
    directive,
    active,
  }
}

function timeOf(us: number): string {
  return new Date(us / 1000).toISOString()
}
