import { expect, test } from 'vitest'
import { z } from 'zod'
import { input, limit, NonRetryable, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

test('a task hears of every repeated attempt once, and of the end once', async () => {
  const { clock, at, start } = createEngineHarness()
  const told: unknown[] = []
  const work = task('work.item', z.object({ n: z.number().default(7) }), {
    retry: { attempts: 3, backoff: 'exponential', initial: '2s', jitter: false },
    run: (_, ctx) => {
      throw new Error(`failure ${ctx.attempt}`)
    },
    onRetry: (error, job) => told.push([at(), 'retry', error.message, job.attempt, job.delayMs, job.input.n]),
    onError: (error, job) => told.push([at(), 'error', error.message, job.input.n]),
  })
  await start({ tasks: [work] })
  await work.enqueue({})
  await clock.advance('1m')
  expect(told).toEqual([
    [0, 'retry', 'failure 1', 1, 2000, 7],
    [2, 'retry', 'failure 2', 2, 4000, 7],
    [6, 'error', 'failure 3', 7],
  ])
})

test('a job that no retry can help is reported at once', async () => {
  const { clock, start } = createEngineHarness()
  const told: string[] = []
  const work = task('work.item', {
    run: () => {
      throw new NonRetryable('no')
    },
    onRetry: () => told.push('retry'),
    onError: (error) => told.push(error.name),
  })
  await start({ tasks: [work] })
  await work.enqueue()
  await clock.advance('1m')
  expect(told).toEqual(['NonRetryable'])
})

test('success and cancellation are no errors', async () => {
  const { clock, start } = createEngineHarness()
  const told: string[] = []
  const work = task('work.item', {
    run: () => undefined,
    onRetry: () => told.push('retry'),
    onError: () => told.push('error'),
  })
  const engine = await start({ tasks: [work] })
  await work.enqueue()
  const later = await work.enqueue(undefined, { delay: '1h' })
  await engine.jobs.cancel(later.id)
  await clock.advance('2h')
  expect(told).toEqual([])
})

test('a callback that throws does no harm: the state is written, the next job runs', async () => {
  const { clock, start, errors } = createEngineHarness()
  const work = task('work.item', {
    retry: { attempts: 2, backoff: 'none' },
    run: () => {
      throw new Error('no')
    },
    onRetry: () => {
      throw new Error('onRetry is broken')
    },
    onError: () => {
      throw new Error('onError is broken')
    },
  })
  const engine = await start({ tasks: [work] })
  const jobs = [await work.enqueue(), await work.enqueue()]
  await clock.advance('1m')
  for (const job of jobs) expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'discarded', attempt: 2 })
  expect(errors.filter((message) => message.includes('threw'))).toHaveLength(4)
})

test('onStarted is called at each attempt, onCompleted once with the result, each with the checked input', async () => {
  const { clock, start, errors } = createEngineHarness()
  const told: unknown[] = []
  const work = task('work.item', z.object({ n: z.string().transform(Number) }), {
    retry: { attempts: 2, backoff: 'none' },
    run: ({ n }, ctx) => {
      if (ctx.attempt === 1) throw new Error('not yet')
      return { twice: n * 2, on: new Date(0) }
    },
    onStarted: ({ input: given, attempt }) => void told.push(['started', given, attempt]),
    onCompleted: (result, { input: given }) => {
      told.push(['completed', given, result])
      throw new Error('onCompleted is broken')
    },
  })
  await start({ tasks: [work] })
  await work.enqueue({ n: '21' })
  await clock.advance('1m')
  expect(told).toEqual([
    ['started', { n: 21 }, 1],
    ['started', { n: 21 }, 2],
    ['completed', { n: 21 }, { twice: 42, on: '1970-01-01T00:00:00.000Z' }],
  ])
  expect(errors).toHaveLength(1)
})

test('a rejection by a limit carries its policy', async () => {
  const { clock, start } = createEngineHarness()
  const errors: unknown[] = []
  const crm = limit('crm', { rate: 1, per: '1h', onLimit: 'drop' })
  const work = task('work.item', { limits: [crm], run: () => undefined, onError: (error) => void errors.push(error) })
  await start({ tasks: [work] })
  await work.enqueue()
  await work.enqueue()
  await clock.advance('1s')
  expect(errors).toMatchObject([{ limit: 'crm', policy: { rule: { kind: 'rate', rate: 1 }, onLimit: 'drop' } }])
})

test('a unique key may be read at a path of the input', async () => {
  const { start } = createEngineHarness()
  const work = task('work.item', input<{ order: { id?: number } }>(), { run: () => undefined })
  await start({ tasks: [work] })
  const enqueue = (id: number, unique: object) => work.enqueue({ order: { id } }, { delay: '1h', unique })
  const first = await enqueue(1, { path: 'order.id' })
  expect(await enqueue(1, { path: 'order.id' })).toMatchObject({ id: first.id, duplicate: true })
  expect(await enqueue(2, { path: 'order.id' })).toMatchObject({ duplicate: false })
  expect(await enqueue(1, { key: '1' })).toMatchObject({ id: first.id, duplicate: true })
  for (const bad of [{ path: 'order.no' }, { path: 'order' }, { path: '' }, { path: 'order.id', key: 'x' }, {}])
    await expect(enqueue(1, bad)).rejects.toMatchObject({ code: 'unique.invalid' })
})
