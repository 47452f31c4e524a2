import { z } from 'zod'
import type { Call } from '../operation.ts'
import { toldOverride } from '../told-overrides.ts'
import type { FailingTask } from './monitor.ts'
import type { QueueAnswer } from './queues.ts'
import { onlyKey, seenBy, seesLimit } from './seen.ts'

const KINDS = [
  'backend.down',
  'task.failing',
  'limit.unknown',
  'limit.unreadable',
  'limit.full',
  'limit.paused',
  'queue.unserved',
  'queue.paused',
  'schedule.late',
] as const

/** Something that a person should look at. */
export interface Attention {
  readonly kind: (typeof KINDS)[number]
  readonly severity: 'error' | 'warning' | 'info'
  readonly subject: {
    readonly backend?: string
    readonly limit?: string
    readonly queue?: string
    readonly task?: string
    readonly schedule?: string
  }
  readonly words: string
  readonly action: string
  readonly count: number
}

/** The same, in an answer. */
export const AttentionJson: z.ZodType = z.object({
  kind: z.enum(KINDS),
  severity: z.enum(['error', 'warning', 'info']),
  subject: z.object({
    backend: z.string().optional(),
    limit: z.string().optional(),
    queue: z.string().optional(),
    task: z.string().optional(),
    schedule: z.string().optional(),
  }),
  words: z.string(),
  action: z.string(),
  count: z.number(),
})

const MINUTE_MS = 60_000
const ORDER = { error: 0, warning: 1, info: 2 }

/** All that needs attention, the worst first. */
export async function attentionOf(
  call: Call<unknown, unknown, unknown>,
  queues: readonly QueueAnswer[],
): Promise<Attention[]> {
  const found: Attention[] = [
    ...(await ofBackends(call)),
    ...queues.flatMap(ofQueue),
    ...(await ofLimits(call)),
    ...(await ofSchedules(call)),
    ...(seenBy(call).tenant === null ? (await call.server.monitor.failingTasks()).map(ofTask) : []),
  ]
  return found.toSorted((a, b) => ORDER[a.severity] - ORDER[b.severity])
}

/** The backends that a process cannot reach. A tenant has none of its own. */
async function ofBackends(call: Call<unknown, unknown, unknown>): Promise<Attention[]> {
  const { backendsDown, limits } = call.server.monitor
  if (seenBy(call).tenant !== null) return []
  const down = await backendsDown.look()
  if (down.length === 0) return []
  const { value } = await limits.get()
  return down.map(({ backend, sinceMs, here, others }) => {
    const kept = value.filter(({ limit }) => limit.policy?.backend === backend)
    const waiting = kept.reduce((sum, { totals }) => sum + (totals?.waiting ?? 0), 0)
    return {
      kind: 'backend.down',
      severity: 'error',
      subject: { backend },
      words: `${processes(here, others)} cannot reach the backend ${backend} of budgets since ${new Date(sinceMs).toISOString()}, and ${waiting} jobs wait for the ${kept.length} limits that it keeps.`,
      action:
        'Check its address and that it runs. Other processes may reach it. Jobs start again by themselves once it is back.',
      count: waiting,
    }
  })
}

function processes(here: boolean, others: number): string {
  if (!here) return others === 1 ? 'Another process' : `${others} other processes`
  return others === 0 ? 'This process' : `This process and ${others === 1 ? 'another one' : `${others} others`}`
}

function ofQueue({ name, paused, served, states }: QueueAnswer): Attention[] {
  const waiting = states.available + states.scheduled + states.retryable
  if (waiting === 0) return []
  if (paused)
    return [
      {
        kind: 'queue.paused',
        severity: 'info',
        subject: { queue: name },
        words: `The queue ${name} is paused, and ${waiting} jobs wait in it.`,
        action: 'Resume the queue when its jobs may start.',
        count: waiting,
      },
    ]
  if (served || states.available === 0) return []
  return [
    {
      kind: 'queue.unserved',
      severity: 'error',
      subject: { queue: name },
      words: `No live worker serves the queue ${name}, and ${states.available} jobs wait in it.`,
      action: 'Start a worker for this queue, or move its jobs to another one.',
      count: states.available,
    },
  ]
}

async function ofLimits(call: Call<unknown, unknown, unknown>): Promise<Attention[]> {
  const seen = seenBy(call)
  const { value: all } = await call.server.monitor.limits.get()
  const found: Attention[] = []
  for (const { limit, totals } of all) {
    if (!seesLimit(call, limit.name)) continue
    const name = seen.name(limit.name)
    const waiting = totals?.waiting ?? 0
    if (limit.unreadable)
      found.push({
        kind: 'limit.unreadable',
        severity: 'error',
        subject: { limit: name },
        words: `The limit ${name} cannot be read, so nothing starts under it.`,
        action: 'Start an engine that defines it, or define it again.',
        count: waiting,
      })
    const pause = limit.overrides.find((each) => each.kind === 'pause' && each.key === null)
    const { by = null } = pause ? toldOverride(call, pause) : {}
    if (pause && waiting > 0)
      found.push({
        kind: 'limit.paused',
        severity: pause.until ? 'info' : 'warning',
        subject: { limit: name },
        words: `The limit ${name} is paused${by === null ? '' : ` by ${by}`}, and ${waiting} jobs wait for it.`,
        action: pause.until ? 'It ends by itself.' : 'Resume it when its jobs may start.',
        count: waiting,
      })
  }
  for (const { limit, started } of await call.server.monitor.fullLimits()) {
    const waiting = all.find((each) => each.limit.name === limit)?.totals?.waiting ?? 0
    if (waiting === 0 || !seesLimit(call, limit) || onlyKey(call, limit) !== null) continue
    const name = seen.name(limit)
    found.push({
      kind: 'limit.full',
      severity: 'info',
      subject: { limit: name },
      words: `The limit ${name} has been full for ten minutes: nearly all of its ${started} starts had to wait for it, and ${waiting} jobs wait now.`,
      action: 'Raise the limit if the other side allows more; what-if says how long the backlog then takes.',
      count: waiting,
    })
  }
  const known = new Set(all.map(({ limit }) => limit.name))
  const { value } = await call.server.monitor.throttled.get()
  for (const { limit, waiting, queue } of value.rows)
    if (!known.has(limit) && seen.owns(queue) && !found.some((each) => each.subject.limit === seen.name(limit)))
      found.push({
        kind: 'limit.unknown',
        severity: 'error',
        subject: { limit: seen.name(limit) },
        words: `${waiting} jobs wait for the limit ${seen.name(limit)}, which is not defined.`,
        action: 'Start an engine that defines it, or cancel these jobs.',
        count: waiting,
      })
  return found
}

function ofTask({ task, failed, completed }: FailingTask): Attention {
  return {
    kind: 'task.failing',
    severity: 'error',
    subject: { task },
    words: `${failed} of the last ${failed + completed} runs of the task ${task} failed.`,
    action: 'Look at the errors of its jobs, and mend what they have in common.',
    count: failed,
  }
}

async function ofSchedules(call: Call<unknown, unknown, unknown>): Promise<Attention[]> {
  const seen = seenBy(call)
  const nowMs = call.server.clock.now()
  return (await call.server.sluice.schedules.list())
    .filter(({ name, nextAt }) => seen.owns(name) && nextAt !== null && nowMs - nextAt.getTime() > MINUTE_MS)
    .map(({ name, nextAt }) => ({
      kind: 'schedule.late' as const,
      severity: 'warning' as const,
      subject: { schedule: seen.name(name) },
      words: `The schedule ${seen.name(name)} was due at ${nextAt?.toISOString()} and has not fired.`,
      action: 'Start an engine: schedules fire while one runs.',
      count: 1,
    }))
}
