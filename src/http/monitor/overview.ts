import { z } from 'zod'
import type { WaitingRow } from '../../engine/api/limits.ts'
import type { QueueCount } from '../../store/contract/queues.ts'
import type { Call, Operation } from '../operation.ts'
import { type Attention, AttentionJson, attentionOf } from './attention.ts'
import { monitorOperation, Time, TimeOrNull } from './monitor-operation.ts'
import { noStates, QueueJson, queuesOf, StatesJson } from './queues.ts'
import { seenBy, seesKey, seesLimit } from './seen.ts'
import { workersSeen } from './workers.ts'

type AnyCall = Call<unknown, unknown, unknown>

const CAUSES = 20

const CauseJson = z.object({
  limit: z.string(),
  key: z.string().nullable(),
  waiting: z.number(),
  share: z.number().meta({ description: 'Of all jobs that wait for a budget; 0 to 1.' }),
  nextStart: TimeOrNull,
})

const OldestJson = z.object({
  id: z.string(),
  task: z.string(),
  queue: z.string(),
  createdAt: Time,
  waitsOn: z.object({ limit: z.string(), key: z.string().nullable() }).nullable(),
})

/** Shows how the whole store does. */
export const overview: Operation = monitorOperation({
  method: 'GET',
  path: '/overview',
  name: 'monitorOverview',
  summary: 'Show how the store does: jobs by state and queue, what waits for which budget, and what needs attention.',
  answer: z.object({
    now: Time,
    states: StatesJson,
    queues: z.array(QueueJson),
    perMinute: z.object({ started: z.number(), completed: z.number(), failed: z.number(), waited: z.number() }),
    waiting: z.object({ total: z.number(), causes: z.array(CauseJson) }),
    oldestWaiting: OldestJson.nullable().meta({ description: 'The job that is available for longest; null: none is.' }),
    workers: z.object({ alive: z.number(), active: z.number() }),
    attention: z.array(AttentionJson),
    counted: z.object({
      at: Time,
      exact: z.boolean().meta({ description: 'False: a large store is counted now and then.' }),
      estimated: z.boolean().meta({
        description: 'True: a large store is being counted, and some thousand of its jobs give the numbers meanwhile.',
      }),
    }),
  }),
  async run(call) {
    const { clock, monitor } = call.server
    const counted = await monitor.counts.get()
    const queues = await queuesOf(call)
    const states = noStates()
    for (const queue of queues)
      for (const [state, jobs] of Object.entries(queue.states)) states[state as keyof typeof states] += jobs
    const workers = (await workersSeen(call)).filter(({ alive }) => alive)
    const needs: Attention[] = await attentionOf(call, queues)
    return {
      now: new Date(clock.now()).toISOString(),
      states,
      queues,
      perMinute: await monitor.perMinute((stored) => seenBy(call).owns(stored)),
      waiting: await waitingOf(call),
      oldestWaiting: await oldestOf(call, counted.value),
      workers: { alive: workers.length, active: workers.reduce((sum, { active }) => sum + active, 0) },
      attention: needs,
      counted: {
        at: counted.at.toISOString(),
        exact: counted.fresh,
        estimated: counted.estimated || (await monitor.throttled.get()).estimated,
      },
    }
  },
})

async function waitingOf(call: AnyCall): Promise<{ total: number; causes: object[] }> {
  const seen = seenBy(call)
  const { value } = await call.server.monitor.throttled.get()
  const rows = value.rows.filter(
    ({ limit, key, queue }) => seen.owns(queue) && seesLimit(call, limit) && seesKey(call, limit, key),
  )
  const causes = byBucket(rows.map((row) => ({ ...row, nextStart: row.nextStartUs })))
  const total = seen.tenant === null ? value.waiting : causes.reduce((sum, { waiting }) => sum + waiting, 0)
  return {
    total,
    causes: causes.slice(0, CAUSES).map(({ limit, key, waiting, nextStart }) => ({
      limit: seen.name(limit),
      key: key === '' ? null : key,
      waiting,
      share: total === 0 ? 0 : waiting / total,
      nextStart: nextStart === null ? null : new Date(nextStart / 1000).toISOString(),
    })),
  }
}

type Cause = Pick<WaitingRow, 'limit' | 'waiting'> & { readonly key: string; readonly nextStart: number | null }

/** The oldest available job that the caller sees. It may have started since the last count: then the next count has it. */
async function oldestOf(call: AnyCall, counts: readonly QueueCount[]): Promise<object | null> {
  const seen = seenBy(call)
  const waiting = counts.filter(({ queue, state }) => state === 'available' && seen.owns(queue))
  if (waiting.length === 0) return null
  const seq = Math.min(...waiting.map(({ oldest }) => oldest))
  const [job] = await (await call.server.remote.store()).list({ from: seq, before: seq + 1, limit: 1 })
  if (job?.state !== 'available' || !seen.owns(job.queue)) return null
  const { id, task, queue, createdUs } = job
  const { waitsOn } = await call.server.sluice.jobs.explain(id)
  const isShown = waitsOn && seesLimit(call, waitsOn.limit) && seesKey(call, waitsOn.limit, waitsOn.key)
  return {
    id,
    task,
    queue: seen.name(queue),
    createdAt: new Date(createdUs / 1000).toISOString(),
    waitsOn: isShown ? { limit: seen.name(waitsOn.limit), key: waitsOn.key } : null,
  }
}

/** Sums over queues and workers, the longest first. */
function byBucket(rows: readonly Cause[]): Cause[] {
  const found = new Map<string, Cause>()
  for (const row of rows) {
    const name = JSON.stringify([row.limit, row.key])
    const known = found.get(name)
    const starts = [known?.nextStart, row.nextStart].filter((each) => each !== null && each !== undefined)
    found.set(name, {
      limit: row.limit,
      key: row.key,
      waiting: (known?.waiting ?? 0) + row.waiting,
      nextStart: starts.length === 0 ? null : Math.min(...starts),
    })
  }
  return [...found.values()].toSorted((a, b) => b.waiting - a.waiting)
}
