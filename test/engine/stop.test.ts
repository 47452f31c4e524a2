import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { record, setStage } from './stage.ts'

function file(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-engine-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return `sqlite:${join(directory, 'jobs.db')}`
}

test('a stop takes no more jobs and lets those that run finish', async () => {
  const { clock, at, start } = setStage()
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
  const { clock, at, start } = setStage()
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
  const { clock, at, start } = setStage()
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

test('a stopped engine takes no calls, and a second stop is the first', async () => {
  const { start } = setStage()
  const work = task('work.item', { run: () => undefined })
  const engine = await start({ tasks: [work] })
  const first = engine.stop()
  expect(engine.stop()).toBe(first)
  await first
  await expect(engine.enqueue(work, undefined)).rejects.toMatchObject({ code: 'engine.stopped' })
  await expect(work.enqueue()).rejects.toMatchObject({ code: 'task.no_engine' })
})

test('an engine that never started stops', async () => {
  const { create } = setStage()
  const work = task('work.item', { run: () => undefined })
  const engine = create({ tasks: [work] })
  await engine.stop()
  await expect(engine.start()).rejects.toMatchObject({ code: 'engine.stopped' })
})
