import { z } from 'zod'
import { addTallies, quantile, type Tallies } from '../../jobs/tally.ts'
import type { Operation } from '../operation.ts'
import { monitorOperation } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

const WINDOWS = {
  '10m': [10_000, 600_000],
  '1h': [10_000, 3_600_000],
  '6h': [60_000, 21_600_000],
  '1d': [60_000, 86_400_000],
  '2d': [60_000, 172_800_000],
} as const
const CAUSES = 5

/** Lists the tasks. */
export const listTasks: Operation = monitorOperation({
  method: 'GET',
  path: '/tasks',
  name: 'monitorTasks',
  summary: 'List the tasks with their run times, their failures and how long their jobs waited for budgets.',
  query: z.strictObject({ window: z.enum(Object.keys(WINDOWS) as [keyof typeof WINDOWS]).default('1h') }),
  answer: z.object({
    window: z.string(),
    tasks: z.array(
      z.object({
        task: z.string(),
        listed: z.boolean().meta({ description: 'A live worker lists it.' }),
        started: z.number(),
        completed: z.number(),
        failed: z.number(),
        failureRate: z.number().nullable(),
        p50Ms: z.number().nullable(),
        p95Ms: z.number().nullable(),
        p99Ms: z.number().nullable(),
        waited: z.number(),
        waitedMs: z.number(),
        waitP95Ms: z.number().nullable(),
        waits: z
          .array(z.object({ limit: z.string(), ms: z.number() }))
          .meta({ description: `The ${CAUSES} limits that its jobs waited for longest, in all.` }),
      }),
    ),
  }),
  async run(call) {
    const { window } = call.query
    // Tasks belong to no tenant.
    if ((seenBy(call).tenant ?? '') !== '') return { window, tasks: [] }
    const [step, lengthMs] = WINDOWS[window]
    const nowMs = call.server.clock.now()
    const store = await call.server.remote.store()
    const sums: Tallies = {}
    for (const { tallies } of await store.readSeries({ step, part: 'tasks', fromMs: nowMs - lengthMs, toMs: nowMs }))
      addTallies(sums, tallies)
    const listed = new Set((await store.workers()).flatMap(({ alive, tasks }) => (alive && tasks) || []))
    const names = [...new Set([...Object.keys(sums), ...listed])].toSorted()
    return {
      window,
      tasks: names.map((task) => {
        const { s = 0, c = 0, f = 0, w = 0, m = 0, r, h, b = {} } = Object.hasOwn(sums, task) ? (sums[task] ?? {}) : {}
        return {
          task,
          listed: listed.has(task),
          started: s,
          completed: c,
          failed: f,
          failureRate: c + f === 0 ? null : f / (c + f),
          p50Ms: quantile(r, 0.5),
          p95Ms: quantile(r, 0.95),
          p99Ms: quantile(r, 0.99),
          waited: w,
          waitedMs: Math.round(m),
          waitP95Ms: quantile(h, 0.95),
          waits: Object.entries(b)
            .map(([limit, ms]) => ({ limit, ms }))
            .toSorted((one, other) => other.ms - one.ms)
            .slice(0, CAUSES),
        }
      }),
    }
  },
})
