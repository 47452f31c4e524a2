// The shared parts of tests of telemetry: the real SDK with exporters that keep all in memory.
import { context, propagation, type Tracer } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { Sluice } from '../../src/exports/index.ts'
import { instrument, type InstrumentOptions } from '../../src/exports/opentelemetry.ts'

/** Sets the context manager and the propagator of the process for the tests of a file. */
export function withContext(): void {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  })
  afterAll(() => {
    context.disable()
    propagation.disable()
  })
}

/** An engine under observation. */
export interface Observed {
  readonly off: () => void
  /** Every data point of a metric, as it stands. */
  readonly points: (name: string) => Promise<{ attributes: object; value: unknown }[]>
  /** The ended spans of a name. */
  readonly named: (name: string) => ReadableSpan[]
  /** All ended spans. */
  readonly spans: () => ReadableSpan[]
  readonly tracer: Tracer
}

/** Instruments an engine with providers of the test's own. */
export function observe(engine: Sluice, options: InstrumentOptions = {}): Observed {
  const spans = new InMemorySpanExporter()
  const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const meters = new MeterProvider({ readers: [reader] })
  const tracer = tracers.getTracer('test')
  const off = instrument(engine, { tracer, meter: meters.getMeter('test'), ...options })
  onTestFinished(async () => {
    off()
    await meters.shutdown()
    await tracers.shutdown()
  })
  const points = async (name: string): Promise<{ attributes: object; value: unknown }[]> => {
    exporter.reset()
    await reader.forceFlush()
    const found = exporter
      .getMetrics()
      .flatMap((each) => each.scopeMetrics)
      .flatMap((each) => each.metrics)
      .filter(({ descriptor }) => descriptor.name === name)
    return found.flatMap(({ dataPoints }) => dataPoints.map(({ attributes, value }) => ({ attributes, value })))
  }
  const named = (name: string): ReadableSpan[] => spans.getFinishedSpans().filter((span) => span.name === name)
  return { off, points, named, spans: () => spans.getFinishedSpans(), tracer }
}
