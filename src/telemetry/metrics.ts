import type { Attributes, Meter, ObservableCallback } from '@opentelemetry/api'
import type { Sluice } from '../engine/engine.ts'
import type { RunCall, EnqueueCall, RunEnd } from '../engine/events/instrumentation.ts'
import { errorType, SYSTEM } from './attributes.ts'
import { measureFigures } from './figures.ts'
import { api } from './api.ts'

/** Histogram bounds of durations and waits, in seconds. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]

/** The most pairs of limit and queue in one gauge. Later pairs are left out. */
const SEEN_AT_MOST = 10_000

/**
 * The measures of one engine. Labels are names of limits, queues and tasks, and error types; never partition keys or
 * ids.
 */
export interface Measures {
  readonly sent: (call: EnqueueCall, error: Error | null) => void
  readonly processed: (call: RunCall, end: RunEnd, seconds: number) => void
  /** Removes the listeners. */
  readonly stop: () => void
}

/** Starts to measure an engine. @param withStore reads the store at every collection */
export function measure(sluice: Sluice, meter: Meter, withStore: boolean): Measures {
  const seconds = { unit: 's', valueType: api.ValueType.DOUBLE, advice: { explicitBucketBoundaries: SECONDS } }
  const sent = meter.createCounter('messaging.client.sent.messages', { unit: '{message}' })
  const duration = meter.createHistogram('messaging.process.duration', seconds)
  const stops = [
    ...listenToJobs(sluice, meter),
    ...listenToLimits(sluice, meter),
    ...measureFigures(sluice, meter, withStore),
  ]
  if (withStore) stops.push(gaugeWaiting(sluice, meter))
  return {
    sent: ({ task, queue, count }, error) =>
      sent.add(count, {
        ...SYSTEM,
        'messaging.operation.name': 'send',
        'messaging.destination.name': queue,
        'sluice.task': task,
        ...(error && { 'error.type': errorType(error) }),
      }),
    processed: ({ task, queue }, end, took) =>
      duration.record(took, {
        ...SYSTEM,
        'messaging.operation.name': 'process',
        'messaging.destination.name': queue,
        'sluice.task': task,
        ...(end.kind === 'threw' && { 'error.type': errorType(end.error) }),
        ...(end.kind === 'ended' && { 'error.type': end.by }),
      }),
    stop: () => {
      for (const stop of stops) stop()
    },
  }
}

function listenToJobs(sluice: Sluice, meter: Meter): (() => void)[] {
  const job = { unit: '{job}' }
  const started = meter.createCounter('messaging.client.consumed.messages', { unit: '{message}' })
  const completed = meter.createCounter('sluice.job.completed', job)
  const retried = meter.createCounter('sluice.job.retried', job)
  const discarded = meter.createCounter('sluice.job.discarded', job)
  const labels = (event: { readonly queue: string; readonly task: string }): Record<string, string> => ({
    ...SYSTEM,
    'messaging.destination.name': event.queue,
    'sluice.task': event.task,
  })
  return [
    sluice.on('job.started', (event) => started.add(1, { ...labels(event), 'messaging.operation.name': 'process' })),
    sluice.on('job.completed', (event) => completed.add(1, labels(event))),
    sluice.on('job.retrying', (event) => retried.add(1, { ...labels(event), 'error.type': errorType(event.error) })),
    sluice.on('job.discarded', (event) => discarded.add(1, { ...labels(event), 'error.type': errorType(event.error) })),
  ]
}

function listenToLimits(sluice: Sluice, meter: Meter): (() => void)[] {
  const wait = meter.createHistogram('sluice.limit.wait', {
    description: 'Time that jobs waited for the budget of a limit before they started',
    unit: 's',
    advice: { explicitBucketBoundaries: [0, ...SECONDS] },
  })
  const throttled = meter.createCounter('sluice.limit.throttled', {
    description: 'Jobs that had to wait for the budget of a limit',
    unit: '{job}',
  })
  const dropped = meter.createCounter('sluice.limit.dropped', { unit: '{job}' })
  const adjusted = meter.createCounter('sluice.limit.adjusted', { unit: '{adjustment}' })
  const down = meter.createUpDownCounter('sluice.limit.backend.down', {
    description: 'Backends of budgets that this process cannot reach',
    unit: '{backend}',
  })
  const blind = meter.createCounter('sluice.limit.backend.blind', {
    description: 'Starts without their budget, since its backend could not be reached',
    unit: '{start}',
  })
  const count = ({ limit, deferred }: { readonly limit: string; readonly deferred: number }): void => {
    if (deferred > 0) throttled.add(deferred, { 'sluice.limit': limit })
  }
  return [
    sluice.on('job.started', ({ limits, waitedFor, waitedMs, queue }) => {
      for (const limit of limits)
        wait.record(waitedFor?.limit === limit ? waitedMs / 1000 : 0, {
          'sluice.limit': limit,
          'messaging.destination.name': queue,
        })
    }),
    sluice.on('rate_limit.exceeded', count),
    sluice.on('rate_limit.throttled', count),
    sluice.on('rate_limit.released', count),
    sluice.on('rate_limit.backend_down', ({ backend }) => down.add(1, { 'sluice.backend': backend })),
    sluice.on('rate_limit.backend_up', ({ backend, granted }) => {
      down.add(-1, { 'sluice.backend': backend })
      blind.add(granted, { 'sluice.backend': backend })
    }),
    sluice.on('rate_limit.dropped', ({ limit }) => dropped.add(1, { 'sluice.limit': limit })),
    sluice.on('rate_limit.dynamic_adjusted', ({ limit }) => adjusted.add(1, { 'sluice.limit': limit })),
  ]
}

/** Counts the waiting jobs of the whole store, so every measuring process reports the same number. */
function gaugeWaiting(sluice: Sluice, meter: Meter): () => void {
  const waiting = meter.createObservableGauge('sluice.limit.waiting', {
    description: 'Jobs of the store that wait for the budget of a limit',
    unit: '{job}',
  })
  // A gauge that is no longer observed keeps its last value, so each seen pair reports 0 at least.
  const seen = new Map<string, Attributes>()
  const observe: ObservableCallback = async (result) => {
    const counts = new Map([...seen.keys()].map((name) => [name, 0]))
    for (const { limit, queue, waiting: count } of await sluice.limits.waitingByLimit()) {
      const name = JSON.stringify([limit, queue])
      if (seen.size < SEEN_AT_MOST) seen.set(name, { 'sluice.limit': limit, 'messaging.destination.name': queue })
      if (seen.has(name)) counts.set(name, count)
    }
    for (const [name, count] of counts) result.observe(count, seen.get(name))
  }
  waiting.addCallback(observe)
  return () => waiting.removeCallback(observe)
}
