import { describe, expect, test } from 'vitest'
import { input, limit, NonRetryable, seededRandom, task, type TaskOptions } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

type Retry = NonNullable<TaskOptions<void, void>['retry']>

/** The seconds at which a task that always fails is attempted. */
async function attemptsOf(retry: Retry | undefined, seed = 1): Promise<number[]> {
  const { clock, at, start } = createEngineHarness()
  const seconds: number[] = []
  const failing = task('work.failing', {
    ...(retry && { retry }),
    run: () => {
      seconds.push(at())
      throw new Error('no')
    },
  })
  await start({ tasks: [failing], random: seededRandom(seed) })
  await failing.enqueue()
  await clock.advance('1h')
  return seconds
}

describe('a failed attempt is repeated', () => {
  test('after delays that double, up to the longest', async () => {
    const retry = { attempts: 6, backoff: 'exponential', initial: '1s', max: '5s', jitter: false } as const
    expect(await attemptsOf(retry)).toEqual([0, 1, 3, 7, 12, 17])
  })

  test('after delays that grow by a factor of choice', async () => {
    const retry = { attempts: 4, backoff: 'exponential', initial: '1s', factor: 3, jitter: false } as const
    expect(await attemptsOf(retry)).toEqual([0, 1, 4, 13])
  })

  test('after a fixed delay', async () => {
    expect(await attemptsOf({ attempts: 4, backoff: 'fixed', initial: '2s', jitter: false })).toEqual([0, 2, 4, 6])
  })

  test('at once without a back-off', async () => {
    expect(await attemptsOf({ attempts: 3, backoff: 'none' })).toEqual([0, 0, 0])
  })

  test('three times in all by default, with jitter between half and one and a half', async () => {
    const seconds = await attemptsOf(undefined)
    expect(seconds.length).toBe(3)
    const [first = 0, second = 0, third = 0] = seconds
    expect(second - first).toBeGreaterThanOrEqual(0.5)
    expect(second - first).toBeLessThanOrEqual(1.5)
    expect(third - second).toBeGreaterThanOrEqual(1)
    expect(third - second).toBeLessThanOrEqual(3)
    expect(second).not.toBe(1)
  })

  test('after the same jitter where the seed is the same, and another where it is not', async () => {
    const retry = { attempts: 5, initial: '1s' } as const
    expect(await attemptsOf(retry, 7)).toEqual(await attemptsOf(retry, 7))
    expect(await attemptsOf(retry, 7)).not.toEqual(await attemptsOf(retry, 8))
  })

  test('not at all when only one is allowed', async () => {
    expect(await attemptsOf({ attempts: 1 })).toEqual([0])
  })
})

test('a handler that says no attempt can help ends its job at once', async () => {
  const { clock, start } = createEngineHarness()
  let attempts = 0
  const hopeless = task('work.hopeless', {
    retry: { attempts: 10, backoff: 'none' },
    run: () => {
      attempts++
      throw new NonRetryable('the card was cancelled', { cause: new Error('card_declined') })
    },
  })
  const engine = await start({ tasks: [hopeless] })
  const job = await hopeless.enqueue()
  await clock.advance('1m')
  expect(attempts).toBe(1)
  expect(await engine.jobs.get(job.id)).toMatchObject({
    state: 'discarded',
    attempt: 1,
    error: { code: 'handler.nonretryable', message: 'NonRetryable: the card was cancelled' },
  })
})

test('while it waits to be repeated a job is retryable, with its last error', async () => {
  const { clock, start } = createEngineHarness()
  const failing = task('work.failing', {
    retry: { backoff: 'fixed', initial: '10s', jitter: false },
    run: () => {
      throw new TypeError('no such thing')
    },
  })
  const engine = await start({ tasks: [failing] })
  const job = await failing.enqueue()
  await clock.advance('1s')
  expect(await engine.jobs.get(job.id)).toMatchObject({
    state: 'retryable',
    attempt: 1,
    maxAttempts: 3,
    error: { code: 'handler.failed', message: 'TypeError: no such thing' },
  })
})

test('attempts never reset, except by a manual retry', async () => {
  const { clock, start } = createEngineHarness()
  const attempts: number[] = []
  const failing = task('work.failing', {
    retry: { attempts: 2, backoff: 'none' },
    run: (_, ctx) => {
      attempts.push(ctx.attempt)
      throw new Error('no')
    },
  })
  const engine = await start({ tasks: [failing] })
  const job = await failing.enqueue()
  await clock.advance('1s')
  expect(attempts).toEqual([1, 2])
  expect(await engine.jobs.retry(job.id)).toBe(true)
  await clock.advance('1s')
  expect(attempts).toEqual([1, 2, 1, 2])
  await expect(engine.jobs.retry('no-such-job')).rejects.toMatchObject({ code: 'job.not_found' })
})

test('a retry keeps its place: it goes before what came after it', async () => {
  const { clock, at, start } = createEngineHarness()
  const story: string[] = []
  const work = task('work.item', input<{ name: string }>(), {
    limits: [limit('gate', { rate: 1, per: '10s' })],
    retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
    run: ({ name }, ctx) => {
      story.push(`${name}${ctx.attempt}@${at()}`)
      if (name === 'a' && ctx.attempt === 1) throw new Error('no')
    },
  })
  await start({ tasks: [work] })
  for (const name of ['a', 'b', 'c']) await work.enqueue({ name })
  await clock.advance('1m')
  expect(story).toEqual(['a1@0', 'a2@10', 'b1@20', 'c1@30'])
})

test('what a handler throws need not be an error', async () => {
  const { clock, start } = createEngineHarness()
  const odd = task('work.odd', {
    retry: { attempts: 1 },
    run: () => {
      // oxlint-disable-next-line only-throw-error -- what users' code may do
      throw 'a mere text'
    },
  })
  const engine = await start({ tasks: [odd] })
  const job = await odd.enqueue()
  await clock.advance('1s')
  expect((await engine.jobs.get(job.id))?.error?.message).toBe('Error: a mere text')
})
