import { z } from 'zod'
import { durationMs, type Duration } from '../../base/duration.ts'
import { quantile, type Tally } from '../../jobs/tally.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import { SERIES_STEPS } from '../../store/contract/series.ts'
import type { Call, Operation } from '../operation.ts'
import { invalid } from '../refusal.ts'
import { monitorOperation, Time } from './monitor-operation.ts'
import { seenBy, seesKey, storedLimit } from './seen.ts'
import { untilOf } from './until.ts'

type AnyCall = Call<unknown, unknown, unknown>
type SeriesCall = Call<
  unknown,
  {
    readonly limit?: string | undefined
    readonly key?: string | undefined
    readonly queue?: string | undefined
    readonly task?: string | undefined
  },
  unknown
>

const METRICS = {
  started: { unit: 'jobs', of: ({ s = 0 }: Tally) => s },
  completed: { unit: 'jobs', of: ({ c = 0 }: Tally) => c },
  failed: { unit: 'jobs', of: ({ f = 0 }: Tally) => f },
  denied: { unit: 'jobs', of: ({ d = 0 }: Tally) => d },
  waitedMs: { unit: 'ms', of: ({ m = 0 }: Tally) => m },
  units: { unit: 'units', of: ({ u = 0 }: Tally) => u },
  runP50: { unit: 'ms', of: ({ r }: Tally) => quantile(r, 0.5) },
  runP95: { unit: 'ms', of: ({ r }: Tally) => quantile(r, 0.95) },
  runP99: { unit: 'ms', of: ({ r }: Tally) => quantile(r, 0.99) },
  waitP50: { unit: 'ms', of: ({ h }: Tally) => quantile(h, 0.5) },
  waitP95: { unit: 'ms', of: ({ h }: Tally) => quantile(h, 0.95) },
  waitP99: { unit: 'ms', of: ({ h }: Tally) => quantile(h, 0.99) },
  /** Of what the limit allows in a step. */
  budget: { unit: 'share', of: ({ u = 0 }: Tally, perStep: number | null) => perStep && u / perStep },
} as const satisfies Readonly<
  Record<string, { unit: string; of: (tally: Tally, perStep: number | null) => number | null }>
>
type Metric = keyof typeof METRICS
const NAMES = Object.keys(METRICS) as Metric[]
const STEPS: Readonly<Record<string, number>> = { '10s': 10_000, '1m': 60_000, '15m': 900_000 }
const POINTS_AT_MOST = 3000
const POINTS_BY_DEFAULT = 720

const Text = z.string().min(1).max(2048).optional()
const Point = z.tuple([z.number(), z.number().nullable()])

/** Shows counts over time. */
export const series: Operation = monitorOperation({
  method: 'GET',
  path: '/series',
  name: 'monitorSeries',
  summary: 'Show counts over time, of all or of one limit, key, queue or task. The step at work is not counted yet.',
  query: z.strictObject({
    metric: z
      .string()
      .max(300)
      .meta({ description: `One or several of ${NAMES.join(', ')}, with commas.` }),
    limit: Text,
    key: Text,
    queue: Text,
    task: Text,
    from: z.string().max(64).default('1h').meta({ description: 'An instant in RFC 3339, or so long ago.' }),
    to: z.string().max(64).optional(),
    step: z.enum(['10s', '1m', '15m']).optional(),
  }),
  answer: z.object({
    step: z.number().meta({ description: 'ms' }),
    from: Time,
    to: Time,
    budget: z.number().nullable().meta({
      description:
        'Units that the limit allows in a step, by its policy without overrides; of one key, if it has keys. Null: no limit is asked for, or its policy has no rate.',
    }),
    series: z.array(
      z.object({ metric: z.enum(NAMES), unit: z.enum(['jobs', 'ms', 'units', 'share']), points: z.array(Point) }),
    ),
  }),
  async run(call) {
    const metrics = metricsIn(call.query.metric)
    const nowMs = call.server.clock.now()
    const fromMs = instantOf(call.query.from, nowMs)
    const toMs = call.query.to === undefined ? nowMs : instantOf(call.query.to, nowMs)
    if (!(fromMs < toMs)) throw invalid('from is invalid: it is not before to.')
    const step = stepOf(call.query.step, fromMs, toMs, nowMs)
    if ((toMs - fromMs) / step > POINTS_AT_MOST)
      throw invalid(`The range has more than ${POINTS_AT_MOST} steps. Expected a longer step or a shorter range.`)
    const { part, name } = partOf(call)
    const budget = await budgetOf(call, step, metrics)
    const begin = Math.floor(fromMs / step) * step
    const rows = await (await call.server.remote.store()).readSeries({ step, part, fromMs: begin, toMs })
    const byTime = new Map(
      rows.map(({ at, tallies }) => [at, Object.hasOwn(tallies, name) ? tallies[name] : undefined]),
    )
    const times = Array.from({ length: Math.ceil((toMs - begin) / step) }, (_, i) => begin + i * step)
    return {
      step,
      from: new Date(begin).toISOString(),
      to: new Date(toMs).toISOString(),
      budget,
      series: metrics.map((metric) => ({
        metric,
        unit: METRICS[metric].unit,
        points: times.map((at) => [at, METRICS[metric].of(byTime.get(at) ?? {}, budget)]),
      })),
    }
  },
})

function metricsIn(text: string): Metric[] {
  return text.split(',').map((name) => {
    const metric = NAMES.find((each) => each === name)
    if (metric !== undefined) return metric
    throw invalid(`metric is invalid: ${JSON.stringify(name)}. Expected ${NAMES.join(', ')}.`)
  })
}

/** Units that the limit of a call allows in a step. @throws {Refusal} 400 for a share of a budget that is not named */
async function budgetOf(call: SeriesCall, step: number, metrics: readonly Metric[]): Promise<number | null> {
  const { limit, key } = call.query
  const isShare = metrics.includes('budget')
  if (isShare && limit === undefined) throw invalid('metric budget needs limit.')
  if (limit === undefined) return null
  const stored = storedLimit(call, limit)
  const figures = (await call.server.monitor.limits.get()).value.find((each) => each.limit.name === stored)
  if (!figures) return null
  if (isShare && key === undefined && figures.bucket === null && figures.totals)
    throw invalid(`metric budget needs key: the limit ${limit} has a budget for each key.`)
  const { policy } = figures.limit
  if ((!policy.rule && !policy.spacing) || policy.scope === 'worker') return null
  return (step * 1000) / paceOf(policy).intervalUs
}

/** @throws {SluiceError} `duration.invalid` */
function instantOf(text: string, nowMs: number): number {
  const at = untilOf(text)
  const ms = at instanceof Date ? at.getTime() : nowMs - durationMs(at as Duration, 'from and to')
  if (Number.isFinite(ms)) return ms
  throw invalid(`${JSON.stringify(text)} is no instant. Expected RFC 3339, or so long ago.`)
}

function stepOf(asked: string | undefined, fromMs: number, toMs: number, nowMs: number): number {
  if (asked !== undefined) return STEPS[asked] as number
  const fits = SERIES_STEPS.find(
    ({ step, keptMs }) => fromMs >= nowMs - keptMs && (toMs - fromMs) / step <= POINTS_BY_DEFAULT,
  )
  return (fits ?? SERIES_STEPS.at(-1) ?? { step: 900_000 }).step
}

/** @throws {Refusal} 400, 404 */
function partOf(call: SeriesCall): {
  readonly part: string
  readonly name: string
} {
  const { limit, key, queue, task } = call.query
  if ([limit, queue, task].filter((each) => each !== undefined).length > 1)
    throw invalid('limit, queue and task exclude each other. Expected one of them.')
  if (key !== undefined && limit === undefined) throw invalid('key needs limit.')
  if (limit !== undefined) {
    const stored = storedLimit(call, limit)
    if (!seesKey(call, stored, key ?? null)) throw invalid('key is not the own one of the tenant.')
    return key === undefined ? { part: 'limits', name: stored } : { part: `keys:${stored}`, name: key }
  }
  if (queue !== undefined) return { part: 'queues', name: ownQueue(call, queue) }
  // Tasks and sums belong to all tenants.
  if ((seenBy(call).tenant ?? '') !== '')
    throw invalid('A tenant sees the series of its queues and limits. Expected queue or limit.')
  return task === undefined ? { part: 'all', name: 'all' } : { part: 'tasks', name: task }
}

function ownQueue(call: AnyCall, queue: string): string {
  const seen = seenBy(call)
  const stored = seen.stored(queue)
  if (!seen.owns(stored)) throw invalid('queue is not one of the tenant.')
  return stored
}
