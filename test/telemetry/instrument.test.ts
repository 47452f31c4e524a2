import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createHttpApp } from '../../src/exports/http.ts'
import { input, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { UnreliableBackend } from '../engine/unreliable-backend.ts'
import { readMetrics } from '../http/prometheus-text.ts'
import { everyStore } from '../stores.ts'
import { observe, withContext } from './telemetry-harness.ts'

const STORES = await everyStore('figures of OpenTelemetry')

withContext()

describe('traces', () => {
  test('a run belongs to the trace of its enqueue, is linked to it, and is active in the handler', async () => {
    const { clock, start } = createEngineHarness()
    let active: string | undefined
    const work = task('work.item', input<object>(), {
      run: async () => {
        await Promise.resolve()
        active = trace.getActiveSpan()?.spanContext().spanId
      },
    })
    const engine = await start({ tasks: [work] })
    const { named, tracer } = observe(engine)
    const job = await tracer.startActiveSpan('request', async (span) => {
      const enqueued = await work.enqueue({}, { meta: { traceparent: 'mine', trace: 'mine too' }, tags: ['t'] })
      span.end()
      return enqueued
    })
    await clock.advance('1s')
    const [request] = named('request')
    const [send] = named('send default')
    const [process] = named('process default')
    expect(send).toMatchObject({
      kind: SpanKind.PRODUCER,
      parentSpanContext: { spanId: request?.spanContext().spanId },
      attributes: {
        'messaging.system': 'sluice',
        'messaging.operation.type': 'send',
        'messaging.operation.name': 'send',
        'messaging.destination.name': 'default',
        'messaging.message.id': job.id,
        'sluice.task': 'work.item',
      },
    })
    expect(process).toMatchObject({
      kind: SpanKind.CONSUMER,
      parentSpanContext: { spanId: send?.spanContext().spanId },
      links: [{ context: { spanId: send?.spanContext().spanId } }],
      attributes: { 'messaging.operation.type': 'process', 'messaging.message.id': job.id, 'sluice.job.attempt': 1 },
    })
    expect(process?.spanContext().traceId).toBe(request?.spanContext().traceId)
    expect(active).toBe(process?.spanContext().spanId)
    // The user's own members of the job are untouched by the context that it carries.
    expect(await engine.jobs.get(job.id)).toMatchObject({
      meta: { traceparent: 'mine', trace: 'mine too' },
      tags: ['t'],
    })
  })

  test('the context is kept over a restart, and every attempt is a span of its own that says how it failed', async () => {
    const { clock, create, start } = createEngineHarness()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-trace-'))
    const store = join(folder, 'jobs.db')
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const work = task('work.item', {
      retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
      run: (_, ctx) => {
        if (ctx.attempt === 1) throw new TypeError('once')
      },
    })
    const first = create({ tasks: [work], store: `sqlite:${store}` })
    const { named } = observe(first)
    await work.enqueue()
    await first.stop()
    const second = await start({ tasks: [work], store: `sqlite:${store}` })
    const later = observe(second)
    await clock.advance('10s')
    const [failed, done] = later.named('process default')
    const traceId = named('send default')[0]?.spanContext().traceId
    expect([failed?.spanContext().traceId, done?.spanContext().traceId]).toEqual([traceId, traceId])
    expect(failed).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: 'once' },
      attributes: { 'error.type': 'TypeError', 'sluice.job.attempt': 1 },
    })
    expect(done).toMatchObject({ status: { code: SpanStatusCode.UNSET }, attributes: { 'sluice.job.attempt': 2 } })
  })

  test('a run may be a trace of its own that is only linked; a batch is one span', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<object>(), { run: () => undefined })
    const engine = await start({ tasks: [work] })
    const { named } = observe(engine, { runs: 'link' })
    await work.enqueueMany([{}, {}, {}])
    await clock.advance('1s')
    const [send, ...more] = named('send default')
    expect(more).toEqual([])
    expect(send?.attributes).toMatchObject({ 'messaging.batch.message_count': 3 })
    expect(send?.attributes).not.toHaveProperty('messaging.message.id')
    const runs = named('process default')
    expect(runs).toHaveLength(3)
    for (const run of runs) {
      expect(run.parentSpanContext).toBeUndefined()
      expect(run.links[0]?.context.spanId).toBe(send?.spanContext().spanId)
    }
  })

  test('a refused enqueue is a failed span; jobs enqueued without it run in traces of their own', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<object>(), { run: () => undefined })
    const engine = await start({ tasks: [work] })
    await work.enqueue({}, { delay: '1s', meta: { a: 1 } })
    const { named, points } = observe(engine)
    await expect(work.enqueue({}, { priority: 1000 })).rejects.toMatchObject({ code: 'priority.invalid' })
    await clock.advance('2s')
    expect(named('send default')[0]).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { 'error.type': 'priority.invalid' },
    })
    expect(named('process default')[0]).toMatchObject({ links: [] })
    expect(named('process default')[0]?.parentSpanContext).toBeUndefined()
    expect(await points('messaging.client.sent.messages')).toMatchObject([
      { attributes: { 'error.type': 'priority.invalid' }, value: 1 },
    ])
  })

  test('after it is taken off nothing is traced, and stored trace contexts do no harm', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<object>(), { run: () => 'done' })
    const engine = await start({ tasks: [work] })
    const { named, off, points } = observe(engine)
    const job = await work.enqueue({}, { delay: '1s' })
    off()
    await clock.advance('2s')
    expect(await job.result()).toBe('done')
    expect(named('process default')).toEqual([])
    expect(await points('messaging.client.consumed.messages')).toEqual([])
  })
})

describe('metrics', () => {
  test('waits, throttling and who waits are told by limit, never by key', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ key: string }>(), {
      limits: [limit('gate', { rate: 1, per: '10s' }).by((item) => item.key), limit('all', { rate: 99, per: '1s' })],
      run: () => undefined,
    })
    const engine = await start({ tasks: [work] })
    const { points } = observe(engine)
    await work.enqueueMany(['secret-A', 'secret-A', 'secret-A', 'secret-B', 'secret-B'].map((key) => ({ key })))
    await clock.advance('5s')
    const gate = { 'sluice.limit': 'gate', 'messaging.destination.name': 'default' }
    expect(await points('sluice.limit.waiting')).toEqual([{ attributes: gate, value: 3 }])
    await clock.advance('1m')
    expect(await points('sluice.limit.wait')).toMatchObject([
      { attributes: { 'sluice.limit': 'all' }, value: { count: 5, sum: 0 } },
      { attributes: gate, value: { count: 5, sum: 40, max: 20 } },
    ])
    expect(await points('sluice.limit.throttled')).toEqual([{ attributes: { 'sluice.limit': 'gate' }, value: 3 }])
    expect(await points('sluice.limit.waiting')).toEqual([{ attributes: gate, value: 0 }])
    const names = ['sluice.limit.wait', 'sluice.limit.throttled', 'messaging.process.duration']
    expect(JSON.stringify(await Promise.all(names.map(points)))).not.toContain('secret')
  })

  test('runs, retries and discards are counted by queue, task and kind of error', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ fails: boolean }>(), {
      retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
      run: ({ fails }) => {
        if (fails) throw new RangeError('a secret')
      },
    })
    const engine = await start({ tasks: [work] })
    const { points } = observe(engine)
    await work.enqueueMany([{ fails: true }, { fails: false }])
    await clock.advance('1m')
    const labels = { 'messaging.system': 'sluice', 'messaging.destination.name': 'default', 'sluice.task': 'work.item' }
    const failed = { ...labels, 'error.type': 'RangeError' }
    expect(await points('sluice.job.completed')).toEqual([{ attributes: labels, value: 1 }])
    expect(await points('sluice.job.retried')).toEqual([{ attributes: failed, value: 1 }])
    expect(await points('sluice.job.discarded')).toEqual([{ attributes: failed, value: 1 }])
    expect(await points('messaging.client.consumed.messages')).toMatchObject([{ attributes: labels, value: 3 }])
    const durations = await points('messaging.process.duration')
    expect(durations.map(({ attributes, value }) => [attributes, (value as { count: number }).count])).toEqual([
      [{ ...failed, 'messaging.operation.name': 'process' }, 2],
      [{ ...labels, 'messaging.operation.name': 'process' }, 1],
    ])
  })

  test('backends of budgets that cannot be reached are counted, and what starts without them', async () => {
    const { clock, start } = createEngineHarness()
    const backend = new UnreliableBackend(clock)
    const work = task('work.item', {
      limits: [limit('gate', { rate: 100, per: '1s', backend: 'shared' })],
      run: () => undefined,
    })
    const engine = await start({ tasks: [work], budgets: { shared: { backend, failMode: 'open' } } })
    const { points } = observe(engine)
    backend.isDown = true
    for (let n = 0; n < 3; n++) await work.enqueue()
    await clock.advance('1s')
    const attributes = { 'sluice.backend': 'shared' }
    expect(await points('sluice.limit.backend.down')).toEqual([{ attributes, value: 1 }])
    backend.isDown = false
    await clock.advance('1s')
    expect(await points('sluice.limit.backend.down')).toEqual([{ attributes, value: 0 }])
    expect(await points('sluice.limit.backend.blind')).toEqual([{ attributes, value: 3 }])
  })

  test('refusals of limits are counted', async () => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', {
      limits: [limit('gate', { rate: 1, per: '10s', onLimit: 'drop' })],
      retry: { attempts: 1 },
      run: () => undefined,
    })
    const engine = await start({ tasks: [work] })
    const { points } = observe(engine)
    await work.enqueue()
    await work.enqueue()
    await engine.limits.penalize('gate', undefined, '5s')
    await clock.advance('1s')
    expect(await points('sluice.limit.dropped')).toEqual([{ attributes: { 'sluice.limit': 'gate' }, value: 1 }])
    expect(await points('sluice.limit.adjusted')).toEqual([{ attributes: { 'sluice.limit': 'gate' }, value: 1 }])
  })

  test.each(STORES)('on $name the figures of an engine are those of the server’s /metrics', async (kind) => {
    const { clock, start } = createEngineHarness()
    const work = task('work.item', input<{ fails: boolean }>(), {
      limits: [limit('gate', { rate: 2, per: '10s' })],
      retry: { attempts: 1 },
      run: ({ fails }) => {
        if (fails) throw new RangeError('no')
      },
    })
    const engine = await start({ tasks: [work], store: kind.create() })
    const { points } = observe(engine)
    const app = createHttpApp({ sluice: engine, clock })
    onTestFinished(() => app.close())
    await work.enqueueMany([{ fails: true }, { fails: false }, { fails: false }])
    await clock.advance('1s')
    const served = readMetrics(await (await app.fetch(new Request('http://server/metrics'))).text())
    const sum = (found: readonly number[]): number => found.reduce((total, each) => total + each, 0)
    for (const [otel, prometheus] of [
      ['sluice.job.started', 'sluice_job_started_total'],
      ['sluice.job.completed', 'sluice_job_completed_total'],
      ['sluice.job.failed', 'sluice_job_failed_total'],
      ['sluice.job.discarded', 'sluice_job_discarded_total'],
      ['sluice.job.run', 'sluice_job_run_seconds_count'],
      ['sluice.limit.wait', 'sluice_limit_wait_seconds_count'],
      ['sluice.limit.units', 'sluice_limit_units_total'],
      ['sluice.limit.throttled', 'sluice_limit_throttled_total'],
      ['sluice.limit.waiting', 'sluice_limit_waiting'],
      ['sluice.limit.used', 'sluice_limit_used_ratio'],
      ['sluice.jobs', 'sluice_jobs'],
      ['sluice.queue.workers', 'sluice_queue_workers'],
    ] as const) {
      const found = await points(otel)
      const total = sum(
        found.map(({ value }) => (typeof value === 'number' ? value : (value as { count: number }).count)),
      )
      const there = sum((served.get(prometheus) ?? []).map(({ value }) => Number(value)))
      expect([otel, total]).toEqual([otel, there])
      expect([otel, total > 0]).toEqual([otel, true])
    }
    expect(await points('sluice.claim.duration')).toMatchObject([{ attributes: { outcome: 'completed' } }])
    expect(await points('sluice.event_loop.delay')).toHaveLength(3)
  })
})
