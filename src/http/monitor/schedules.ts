import { z } from 'zod'
import type { ScheduleView } from '../../engine/api/schedules.ts'
import { firstDueUs, recurrenceOf } from '../../jobs/recurrence.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { monitorOperation, Name, Time, timeOf, TimeOrNull, Why, WhyQuery } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const NEXT = 5
const MISSED_AT_MOST = 100

const ScheduleJson = z.object({
  name: z.string(),
  task: z.string(),
  queue: z.string(),
  input: z.unknown(),
  cron: z.string().nullable(),
  timezone: z.string().nullable(),
  every: z.number().nullable().meta({ description: 'ms' }),
  until: TimeOrNull,
  maxRuns: z.number().nullable(),
  overlap: z.enum(['skip', 'allow']),
  onMissed: z.enum(['skip', 'catchUp']),
  state: z.enum(['active', 'paused', 'completed']),
  nextAt: TimeOrNull,
  lastAt: TimeOrNull,
  lastJob: z.string().nullable(),
  runs: z.number(),
  next: z.array(Time).meta({ description: 'The next due times, at most 5.' }),
  missed: z
    .array(Time)
    .meta({ description: 'Due times that have passed since the last job, and became none; at most 100.' }),
})
ScheduleJson.register(z.globalRegistry, { id: 'MonitorSchedule' })
const OfSchedule = z.object({ name: Name })

/** Lists the schedules. */
export const listSchedules: Operation = monitorOperation({
  method: 'GET',
  path: '/schedules',
  name: 'monitorSchedules',
  summary: 'List all schedules with their next due times.',
  answer: z.object({ schedules: z.array(ScheduleJson) }),
  async run(call) {
    const seen = seenBy(call)
    const all = await call.server.sluice.schedules.list()
    return { schedules: all.filter(({ name }) => seen.owns(name)).map((each) => scheduleJson(call, each)) }
  },
})

/** Shows one schedule. */
export const getSchedule: Operation = monitorOperation({
  method: 'GET',
  path: '/schedules/:name',
  name: 'monitorSchedule',
  summary: 'Show a schedule with its next due times.',
  params: OfSchedule,
  answer: ScheduleJson,
  run: async (call) => scheduleJson(call, await named(call)),
})

const pauseAt = (verb: 'pause' | 'resume', name: string, summary: string): Operation =>
  monitorOperation({
    method: 'PUT',
    path: `/schedules/:name/${verb}`,
    name,
    summary,
    params: OfSchedule,
    body: Why,
    answer: ScheduleJson,
    async run(call) {
      const { name } = await named(call)
      const changed = await call.server.sluice.schedules[verb](name)
      if (!changed) throw notFound('schedule', call.params.name)
      return scheduleJson(call, changed)
    },
  })

/** Stops further occurrences of a schedule. */
export const pauseSchedule: Operation = pauseAt(
  'pause',
  'monitorPauseSchedule',
  'Make no further jobs of a schedule until it is resumed. An occurrence that waits or runs goes on.',
)

/** Lets a schedule continue. */
export const resumeSchedule: Operation = pauseAt(
  'resume',
  'monitorResumeSchedule',
  'End a pause. Occurrences that were due meanwhile are skipped, or caught up with as onMissed says.',
)

/** Stores one job of a schedule. */
export const runSchedule: Operation = monitorOperation({
  method: 'POST',
  path: '/schedules/:name/run',
  name: 'monitorRunSchedule',
  summary: 'Store one job of a schedule now, under its limits. It counts as no run, and the due times stay.',
  params: OfSchedule,
  body: Why,
  status: 201,
  answer: z.object({ id: z.string().meta({ description: 'The id of the job.' }) }),
  async run(call) {
    const { name } = await named(call)
    const id = await call.server.sluice.schedules.run(name)
    if (id === null) throw notFound('schedule', call.params.name)
    call.server.remote.notify()
    return { id }
  },
})

/** Deletes a schedule. */
export const deleteSchedule: Operation = monitorOperation({
  method: 'DELETE',
  path: '/schedules/:name',
  name: 'monitorDeleteSchedule',
  summary: 'End and delete a schedule. An occurrence that waits or runs goes on.',
  params: OfSchedule,
  query: WhyQuery,
  answer: z.object({ deleted: z.boolean() }),
  async run(call) {
    const { name } = await named(call)
    return { deleted: await call.server.sluice.schedules.remove(name) }
  },
})

/** @throws {Refusal} 404 */
async function named(call: Call<{ readonly name: string }, unknown, unknown>): Promise<ScheduleView> {
  const seen = seenBy(call)
  const stored = seen.stored(call.params.name)
  const found = seen.owns(stored) ? await call.server.sluice.schedules.get(stored) : null
  if (!found) throw notFound('schedule', call.params.name)
  call.concerns(stored)
  return found
}

function scheduleJson(call: AnyCall, schedule: ScheduleView): object {
  const seen = seenBy(call)
  return {
    ...schedule,
    name: seen.name(schedule.name),
    queue: seen.name(schedule.queue),
    input: call.server.monitor.redact(schedule.input),
    until: timeOf(schedule.until),
    nextAt: timeOf(schedule.nextAt),
    lastAt: timeOf(schedule.lastAt),
    next: nextTimes(schedule),
    missed: missedTimes(schedule, call.server.clock.now()),
  }
}

function nextTimes(schedule: ScheduleView): string[] {
  const { nextAt, until, maxRuns, runs } = schedule
  if (!nextAt) return []
  const times = [nextAt.getTime(), ...timesAfter(schedule, nextAt, NEXT - 1)]
  const left = maxRuns === null ? NEXT : Math.max(0, maxRuns - runs)
  return times
    .filter((ms) => until === null || ms < until.getTime())
    .slice(0, left)
    .map((ms) => new Date(ms).toISOString())
}

/** Nothing is known of the time before the first job. */
function missedTimes(schedule: ScheduleView, nowMs: number): string[] {
  const { lastAt, until, state } = schedule
  if (!lastAt || state !== 'active') return []
  const before = Math.min(nowMs, schedule.nextAt?.getTime() ?? nowMs, until?.getTime() ?? Infinity)
  return timesAfter(schedule, lastAt, MISSED_AT_MOST)
    .filter((ms) => ms < before)
    .map((ms) => new Date(ms).toISOString())
}

/** The due times after another, in ms. */
function timesAfter({ cron, timezone, every }: ScheduleView, after: Date, count: number): number[] {
  const recurrence = cron === null ? null : recurrenceOf({ cron, ...(timezone !== null && { timezone }) }, 'a schedule')
  const times: number[] = []
  let lastMs = after.getTime()
  while (times.length < count) {
    const nextUs = recurrence
      ? firstDueUs(recurrence, 0, lastMs * 1000 + 1)
      : every === null
        ? null
        : (lastMs + every) * 1000
    if (nextUs === null) break
    lastMs = nextUs / 1000
    times.push(lastMs)
  }
  return times
}
