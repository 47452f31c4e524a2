import { expect, test } from 'vitest'
import { JobCancelled, limit, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

test('a waiting job that is cancelled is gone at once, and a second cancel says that it has ended', async () => {
  const { clock, start } = createEngineHarness()
  let runs = 0
  const work = task('work.item', { run: () => void runs++ })
  const engine = await start({ tasks: [work] })
  const events = record(engine, 'job.cancelled')
  const job = await work.enqueue(undefined, { delay: '10s' })
  expect(await engine.jobs.cancel(job.id)).toBe(true)
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'cancelled', attempt: 0 })
  expect(await engine.jobs.cancel(job.id)).toBe(false)
  await clock.advance('1m')
  expect(runs).toBe(0)
  expect(events.map(({ event }) => event.id)).toEqual([job.id])
  await expect(engine.jobs.cancel('no-such-job')).rejects.toMatchObject({ code: 'job.not_found' })
})

test('a running job that is cancelled has its signal aborted, ends, and is not repeated', async () => {
  const { clock, at, start } = createEngineHarness()
  const aborted: number[] = []
  const work = task('work.item', {
    retry: { attempts: 5, backoff: 'none' },
    run: (_, ctx) =>
      new Promise((_resolve, reject) => {
        ctx.signal.addEventListener('abort', () => {
          aborted.push(at())
          reject(ctx.signal.reason as Error)
        })
      }),
  })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  const result = job.result().catch((error: unknown) => error)
  await clock.advance('3s')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'active', attempt: 1 })
  expect(await engine.jobs.cancel(job.id)).toBe(true)
  await clock.advance('1m')
  expect(aborted).toEqual([3])
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'cancelled', attempt: 1 })
  expect(await result).toBeInstanceOf(JobCancelled)
})

test('a cancelled run frees its slot and its permit though its handler does not listen', async () => {
  const { clock, at, start } = createEngineHarness()
  const starts: number[] = []
  const work = task('work.deaf', {
    limits: [limit('one', { concurrency: 1 })],
    run: async () => {
      starts.push(at())
      await clock.sleep('1h')
    },
  })
  const engine = await start({ tasks: [work], queues: { default: { concurrency: 1 } } })
  const first = await work.enqueue()
  await work.enqueue()
  await clock.advance('5s')
  await engine.jobs.cancel(first.id)
  await clock.advance('1s')
  expect(starts).toEqual([0, 5])
  expect(await engine.limits.inspect('one')).toMatchObject([{ active: 1, waiting: 0 }])
})

test('a job cancelled between two attempts does not run again', async () => {
  const { clock, start } = createEngineHarness()
  let runs = 0
  const work = task('work.failing', {
    retry: { attempts: 5, backoff: 'fixed', initial: '10s', jitter: false },
    run: () => {
      runs++
      throw new Error('no')
    },
  })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('5s')
  expect(await engine.jobs.cancel(job.id)).toBe(true)
  await clock.advance('5m')
  expect(runs).toBe(1)
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'cancelled', attempt: 1 })
})
