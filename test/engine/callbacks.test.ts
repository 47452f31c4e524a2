import { expect, test } from 'vitest'
import { z } from 'zod'
import { NonRetryable, task } from '../../src/exports/index.ts'
import { setStage } from './stage.ts'

test('a task is told of every repeated attempt once, and of the end once', async () => {
  const { clock, at, start } = setStage()
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

test('a job that cannot be helped is told of at once, without a retry', async () => {
  const { clock, start } = setStage()
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
  const { clock, start } = setStage()
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

test('a callback that throws harms nobody: the state is written, the next job runs', async () => {
  const { clock, start, errors } = setStage()
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
  expect(errors.length).toBe(4)
})
