import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { input, limit, NonRetryable, RateLimited, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { record, createEngineHarness } from './engine-harness.ts'

function file(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-engine-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return `sqlite:${join(directory, 'jobs.db')}`
}

test('a stop takes no more jobs and lets those that run finish', async () => {
  const { clock, at, start } = createEngineHarness()
  const ends: string[] = []
  const store = file()
  const work = task('work.item', input<string>(), {
    run: async (name) => {
      await clock.sleep('3s')
      ends.push(`${name}@${at()}`)
    },
  })
  const engine = await start({ tasks: [work], store, queues: { default: { concurrency: 1 } } })
  const running = await work.enqueue('running')
  const waiting = await work.enqueue('waiting')
  await clock.advance('1s')
  let stopped = -1
  const stopping = engine.stop().then(() => (stopped = at()))
  await clock.advance('20s')
  await stopping
  expect(ends).toEqual(['running@3'])
  expect(stopped).toBe(3)
  const reader = await start({ tasks: [], store, queues: {} })
  expect(await reader.jobs.get(running.id)).toMatchObject({ state: 'completed' })
  expect(await reader.jobs.get(waiting.id)).toMatchObject({ state: 'available', attempt: 0 })
})

test('a stop that has waited long enough aborts what runs, and gives back what does not end, with its attempt and permit', async () => {
  const { clock, at, start } = createEngineHarness()
  const store = file()
  const told: string[] = []
  const work = task('work.item', input<string>(), {
    limits: [limit('two', { concurrency: 2 })],
    retry: { attempts: 1 },
    run: async (name, ctx) => {
      told.push(`${name} starts ${ctx.attempt}@${at()}`)
      ctx.signal.addEventListener('abort', () => {
        told.push(`${name} aborted@${at()} ${(ctx.signal.reason as { code: string }).code}`)
      })
      await clock.sleep('1h')
    },
  })
  const engine = await start({ tasks: [work], store })
  const job = await work.enqueue('deaf')
  await clock.advance('1s')
  let stopped = -1
  const stopping = engine.stop({ within: '10s' }).then(() => (stopped = at()))
  await clock.advance('30s')
  await stopping
  expect(stopped).toBe(16)
  expect(told).toEqual(['deaf starts 1@0', 'deaf aborted@11 engine.stopped'])
  const next = await start({ tasks: [work], store })
  await clock.advance('1s')
  expect(told.at(-1)).toBe('deaf starts 1@31')
  expect(await next.jobs.get(job.id)).toMatchObject({ state: 'active', attempt: 1 })
  expect(await next.limits.inspect('two')).toMatchObject([{ active: 1 }])
})

test('a handler that heeds the signal ends before the grace is over', async () => {
  const { clock, at, start } = createEngineHarness()
  const work = task('work.item', {
    run: (_, ctx) =>
      new Promise<string>((resolve) => {
        ctx.signal.addEventListener('abort', () => resolve('saved what there was'))
      }),
  })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'job.completed')
  await work.enqueue()
  await clock.advance('1s')
  let stopped = -1
  const stopping = engine.stop({ within: '2s' }).then(() => (stopped = at()))
  await clock.advance('30s')
  await stopping
  expect(stopped).toBe(3)
  expect(events.length).toBe(1)
})

/** The reactions of handlers to an abort; each but the last ends at once. */
const ENDINGS: Readonly<Record<string, (signal: AbortSignal) => Promise<never>>> = {
  obeys: (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new DOMException('This operation was aborted', 'AbortError')))
    }),
  'rejects with the reason': (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    }),
  'throws an error of its own': (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('half done')))
    }),
  'throws NonRetryable': (signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new NonRetryable('no use')))
    }),
  'rejects with nothing': (signal) =>
    new Promise((_, reject) => {
      // oxlint-disable-next-line prefer-promise-reject-errors
      signal.addEventListener('abort', () => reject())
    }),
  ignores: () => new Promise(() => undefined),
}
const stores = await everyStore('runs that a stop aborts')
const table = stores.flatMap((on) =>
  Object.keys(ENDINGS).flatMap((how) => [1, 3].map((attempts) => [on.name, how, attempts, on] as const)),
)

test.each(table)(
  'on %s a run that a stop aborts and that %s is given back, of %i attempts',
  async (_, how, attempts, on) => {
    const { clock, start } = createEngineHarness()
    const store = on.create()
    const starts: number[] = []
    const told: string[] = []
    const work = task('work.item', {
      retry: { attempts },
      onError: () => void told.push('onError'),
      onRetry: () => void told.push('onRetry'),
      run: async (_input, ctx) => {
        starts.push(ctx.attempt)
        if (starts.length === 1) await ENDINGS[how]!(ctx.signal)
      },
    })
    const engine = await start({ tasks: [work], store })
    const events = record(engine, 'job.failed', 'job.retrying', 'job.discarded')
    const job = await work.enqueue()
    await clock.advance('1s')
    const stopping = engine.stop({ within: '2s' })
    await clock.advance('10s')
    await stopping
    expect(starts).toEqual([1])
    const next = await start({ tasks: [work], store })
    await clock.advance('1s')
    expect(starts).toEqual([1, 1])
    expect(await next.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
    expect([told, events]).toEqual([[], []])
  },
)

test('a push-back of a run that a stop aborts still closes the budget', async () => {
  const { clock, at, start } = createEngineHarness()
  const store = file()
  const starts: number[] = []
  const work = task('work.item', {
    limits: [limit('crm', { rate: 10, per: '1s' })],
    retry: { attempts: 1 },
    run: async (_input, ctx) => {
      starts.push(at())
      if (starts.length > 1) return
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve))
      throw new RateLimited({ retryAfter: '20s' })
    },
  })
  const engine = await start({ tasks: [work], store })
  await work.enqueue()
  await clock.advance('1s')
  const stopping = engine.stop({ within: 0 })
  await clock.advance(0)
  await stopping
  await start({ tasks: [work], store })
  await clock.advance('60s')
  expect(starts).toEqual([0, 21])
})

test('a stopped engine takes no calls, and a second stop is the first', async () => {
  const { start } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = await start({ tasks: [work] })
  const first = engine.stop()
  expect(engine.stop()).toBe(first)
  await first
  await expect(engine.enqueue(work, undefined)).rejects.toMatchObject({ code: 'engine.stopped' })
  await expect(work.enqueue()).rejects.toMatchObject({ code: 'task.no_engine' })
})

test('an engine that never started stops', async () => {
  const { create } = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = create({ tasks: [work] })
  await engine.stop()
  await expect(engine.start()).rejects.toMatchObject({ code: 'engine.stopped' })
})
