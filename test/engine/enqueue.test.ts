import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { input, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

describe('a job starts', () => {
  test('after its delay, at the exact instant', async () => {
    const { clock, at, start } = createEngineHarness()
    const seconds: number[] = []
    const work = task('work.item', { run: () => void seconds.push(at()) })
    const engine = await start({ tasks: [work] })
    const job = await work.enqueue(undefined, { delay: '7.5s' })
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'scheduled' })
    await clock.advance('1m')
    expect(seconds).toEqual([7.5])
  })

  test('at its time, which a past one is at once', async () => {
    const { clock, at, start } = createEngineHarness()
    const seconds: [string, number][] = []
    const work = task('work.item', input<string>(), { run: (name) => void seconds.push([name, at()]) })
    await start({ tasks: [work] })
    await work.enqueue('later', { runAt: new Date(clock.now() + 90_000) })
    await work.enqueue('past', { runAt: new Date(clock.now() - 90_000) })
    await clock.advance('2m')
    expect(seconds).toEqual([
      ['past', 0],
      ['later', 90],
    ])
  })

  test('sooner when the wall clock is put forward past its time', async () => {
    const { clock, at, start } = createEngineHarness()
    const seconds: number[] = []
    const work = task('work.item', { run: () => void seconds.push(at()) })
    await start({ tasks: [work] })
    await work.enqueue(undefined, { runAt: new Date(clock.now() + 3_600_000) })
    await clock.advance('10s')
    clock.step('2h')
    await clock.advance('10s')
    expect(seconds).toHaveLength(1)
    expect(seconds[0]).toBeLessThanOrEqual(15)
  })

  test('never once it has expired', async () => {
    const { clock, start } = createEngineHarness()
    const told: string[] = []
    let runs = 0
    const work = task('work.item', {
      limits: [limit('gate', { rate: 1, per: '1m' })],
      run: () => void runs++,
      onError: (error) => told.push((error as { code?: string }).code ?? ''),
    })
    const engine = await start({ tasks: [work] })
    await work.enqueue()
    const job = await work.enqueue(undefined, { expiresAt: new Date(clock.now() + 30_000) })
    await clock.advance('29s')
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'available' })
    await clock.advance('2m')
    expect(runs).toBe(1)
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', attempt: 0 })
    expect(told).toHaveLength(1)
  })

  test('with the output of its schema, though its input is what was stored', async () => {
    const { clock, start } = createEngineHarness()
    const seen: unknown[] = []
    const dated = task('work.dated', z.object({ on: z.string().transform((text) => new Date(text)) }), {
      run: ({ on }) => void seen.push(on),
    })
    const engine = await start({ tasks: [dated] })
    const job = await dated.enqueue({ on: '2026-05-01' })
    await clock.advance('1s')
    expect(seen).toEqual([new Date('2026-05-01')])
    expect((await engine.jobs.get(job.id))?.input).toEqual({ on: '2026-05-01' })
  })
})

describe('a job goes', () => {
  test('to the queue of its call, else of its task, else the default one', async () => {
    const { start } = createEngineHarness()
    const plain = task('work.plain', { run: () => undefined })
    const own = task('work.own', { queue: 'reports', run: () => undefined })
    const engine = await start({ tasks: [plain, own] })
    const jobs = [
      await plain.enqueue(undefined, { delay: '1h' }),
      await own.enqueue(undefined, { delay: '1h' }),
      await own.enqueue(undefined, { delay: '1h', queue: 'mail' }),
    ]
    const queues = await Promise.all(jobs.map(async (job) => (await engine.jobs.get(job.id))?.queue))
    expect(queues).toEqual(['default', 'reports', 'mail'])
  })

  test('with its meta and tags', async () => {
    const { start } = createEngineHarness()
    const work = task('work.item', { run: () => undefined })
    const engine = await start({ tasks: [work] })
    const job = await work.enqueue(undefined, { meta: { by: 'kim' }, tags: ['a', 'b'] })
    expect(await engine.jobs.get(job.id)).toMatchObject({ meta: { by: 'kim' }, tags: ['a', 'b'] })
  })

  test('with a weight that holds for every rule which names none', async () => {
    const { clock, at, start } = createEngineHarness()
    const seconds: number[] = []
    const run = (): void => void seconds.push(at())
    const tokens = limit('tokens', { rate: 10, per: '10s' })
    const work = task('work.item', { limits: [tokens, limit('one', { every: '1s' })], run })
    const fixed = task('work.fixed', { limits: [tokens.weight(2)], run })
    const engine = await start({ tasks: [work, fixed] })
    await work.enqueue(undefined, { weight: 7 })
    await fixed.enqueue(undefined, { weight: 9 })
    await clock.advance(0)
    expect((await engine.limits.inspect('tokens'))[0]?.available).toBe(1)
    await work.enqueue(undefined, { weight: 7 })
    await clock.advance('1m')
    expect(seconds).toEqual([0, 0, 6])
  })
})

test('limits of one call are added to the task’s', async () => {
  const { clock, at, start } = createEngineHarness()
  const seconds: number[] = []
  const extra = limit('extra', { rate: 1, per: '1m' })
  const work = task('work.item', {
    limits: [limit('gate', { rate: 1, per: '1s' })],
    run: () => void seconds.push(at()),
  })
  const engine = await start({ tasks: [work], limits: [extra] })
  const job = await work.enqueue(undefined, { limits: [extra.key('acme')] })
  expect((await engine.jobs.explain(job.id)).limits).toEqual([
    { limit: 'extra', key: 'acme', weight: 1 },
    { limit: 'gate', key: null, weight: 1 },
  ])
  await work.enqueue(undefined, { limits: [extra.key('acme')] })
  await work.enqueue()
  await clock.advance('2m')
  expect(seconds).toEqual([0, 1, 60])
})

test('calls are stored without start, and run once an engine starts', async () => {
  const { clock, at, create } = createEngineHarness()
  const seconds: number[] = []
  const work = task('work.item', { run: () => void seconds.push(at()) })
  const engine = create({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('5s')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'available', attempt: 0 })
  await engine.start()
  await clock.advance('1s')
  expect(seconds).toEqual([5])
})

test('many calls are stored all or none', async () => {
  const { start } = createEngineHarness()
  const work = task('work.item', z.object({ n: z.number() }), { run: () => undefined })
  const engine = await start({ tasks: [work] })
  const bad = [{ n: 1 }, { n: 'two' }] as { n: number }[]
  await expect(async () => work.enqueueMany(bad)).rejects.toMatchObject({ code: 'input.invalid' })
  expect(await engine.jobs.list()).toEqual([])
  const jobs = await work.enqueueMany([{ n: 1 }, { n: 2 }, { n: 3 }])
  expect(new Set(jobs.map((job) => job.id)).size).toBe(3)
})

describe('a task that several engines list', () => {
  test('must be told which of them', async () => {
    const { clock, start } = createEngineHarness()
    const ran: string[] = []
    const work = task('work.item', input<string>(), { run: (name) => void ran.push(name) })
    const one = await start({ tasks: [work] })
    const two = await start({ tasks: [work] })
    await expect(work.enqueue('which')).rejects.toMatchObject({ code: 'task.ambiguous' })
    const job = await two.enqueue(work, 'second')
    await clock.advance('1s')
    expect(ran).toEqual(['second'])
    expect(await one.jobs.get(job.id)).toBeNull()
    await two.stop()
    await work.enqueue('the one that is left')
    await clock.advance('1s')
    expect(ran).toEqual(['second', 'the one that is left'])
  })

  test('or none lists, cannot be enqueued', async () => {
    const { start } = createEngineHarness()
    const work = task('work.item', { run: () => undefined })
    await expect(work.enqueue()).rejects.toMatchObject({ code: 'task.no_engine' })
    const engine = await start({ tasks: [] })
    await expect(engine.enqueue(work, undefined)).rejects.toMatchObject({ code: 'task.unknown' })
    await engine.stop()
  })
})

test('jobs that were stored survive the engine that stored them', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-engine-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const { clock, create, start } = createEngineHarness()
  const store = `sqlite:${join(directory, 'jobs.db')}`
  const ran: number[] = []
  const work = task('work.item', input<number>(), { run: (n) => void ran.push(n) })
  const writer = create({ tasks: [work], store })
  for (let n = 0; n < 5; n++) await work.enqueue(n)
  await writer.stop()
  await start({ tasks: [work], store })
  await clock.advance('1s')
  expect(ran).toEqual([0, 1, 2, 3, 4])
})
