/** The figures that a server's `/metrics` has too, for OpenTelemetry's meters. */
import type { Attributes, Meter, ObservableCallback } from '@opentelemetry/api'
import { Costly } from '../base/costly.ts'
import { EventLoop } from '../base/event-loop.ts'
import { jobGauges, usedGauges, workerGauges } from '../engine/api/gauges.ts'
import { limitFigures } from '../engine/api/limit-figures.ts'
import type { Sluice } from '../engine/engine.ts'
import { type Counted, outcomeOf, SECONDS } from '../engine/events/counted.ts'
import { type EngineInternals, internalsOf } from '../engine/internals.ts'
import { api } from './api.ts'

const QUEUE = 'messaging.destination.name'
const TASK = 'sluice.task'
const LIMIT = 'sluice.limit'

type Observe = (series: readonly Counted<number>[]) => void

/** Measures an engine by its own counts. @param withStore reads the store at every collection. Returns what stops it. */
export function measureFigures(sluice: Sluice, meter: Meter, withStore: boolean): (() => void)[] {
  const engine = internalsOf(sluice)
  return [
    countTimes(engine, meter),
    ...countSums(engine, meter),
    ...observeProcess(engine, meter),
    ...(withStore ? observeStore(sluice, engine, meter) : []),
  ]
}

function countTimes({ figures }: EngineInternals, meter: Meter): () => void {
  const seconds = { unit: 's', valueType: api.ValueType.DOUBLE, advice: { explicitBucketBoundaries: [...SECONDS] } }
  const runs = meter.createHistogram('sluice.job.run', { ...seconds, description: 'The time of runs' })
  const claims = meter.createHistogram('sluice.claim.duration', { ...seconds, description: 'The time of claims' })
  return figures.listen({
    ran: ({ task }, isFailed, took) => runs.record(took, { [TASK]: task, outcome: outcomeOf(isFailed) }),
    claimed: (isFailed, took) => claims.record(took, { outcome: outcomeOf(isFailed) }),
  })
}

function countSums({ figures, settings }: EngineInternals, meter: Meter): (() => void)[] {
  const sum = (name: string, labels: readonly string[], read: () => readonly Counted<number>[]): (() => void) => {
    const counter = meter.createObservableCounter(name)
    const observe: ObservableCallback = (result) => {
      for (const { labels: values, value } of read()) result.observe(value, attributes(labels, values))
    }
    counter.addCallback(observe)
    return () => counter.removeCallback(observe)
  }
  return [
    sum('sluice.job.started', [QUEUE, TASK], () => figures.started.all),
    sum('sluice.job.failed', [QUEUE, TASK], () => figures.failed.all),
    sum('sluice.limit.units', [LIMIT], () => figures.units.all),
    sum('sluice.store.errors', ['code'], () =>
      [...settings.trouble.errors].map(([code, value]) => ({ labels: [code], value })),
    ),
  ]
}

function observeProcess({ settings, state }: EngineInternals, meter: Meter): (() => void)[] {
  const loop = new EventLoop(settings.clock)
  const delays = gauge(meter, 'sluice.event_loop.delay', 's', ['quantile'], async (observe) => {
    const { p50, p99, max } = loop.delays()
    observe([
      { labels: ['0.5'], value: p50 },
      { labels: ['0.99'], value: p99 },
      { labels: ['1'], value: max },
    ])
  })
  return [
    delays,
    () => loop.close(),
    gauge(meter, 'sluice.backend.up', '1', ['backend'], async (observe) =>
      observe(state().backends.map(({ name, isUp }) => ({ labels: [name], value: isUp ? 1 : 0 }))),
    ),
  ]
}

/** Figures of the whole store: every measuring process reports the same. */
function observeStore(sluice: Sluice, { open, settings }: EngineInternals, meter: Meter): (() => void)[] {
  const { clock } = settings
  const counts = new Costly(clock, async () => (await open()).store.queueCounts())
  const limits = new Costly(clock, async () =>
    limitFigures(sluice.limits, (await open()).store, { seriesOf: async () => new Map() }),
  )
  return [
    gauge(meter, 'sluice.jobs', '{job}', [QUEUE, 'sluice.job.state'], async (observe) =>
      observe(jobGauges((await counts.get()).value)),
    ),
    gauge(meter, 'sluice.queue.workers', '{worker}', [QUEUE], async (observe) =>
      observe(workerGauges(await (await open()).store.workers())),
    ),
    gauge(meter, 'sluice.limit.used', '1', [LIMIT], async (observe) => observe(usedGauges((await limits.get()).value))),
  ]
}

function gauge(
  meter: Meter,
  name: string,
  unit: string,
  labels: readonly string[],
  read: (observe: Observe) => Promise<void>,
): () => void {
  const measured = meter.createObservableGauge(name, { unit })
  const callback: ObservableCallback = (result) =>
    read((series) => {
      for (const { labels: values, value } of series) result.observe(value, attributes(labels, values))
    })
  measured.addCallback(callback)
  return () => measured.removeCallback(callback)
}

function attributes(names: readonly string[], values: readonly string[]): Attributes {
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']))
}
