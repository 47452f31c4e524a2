import { expect, test } from 'vitest'
import { limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

test('an attempt that runs too long is aborted, counts, and is repeated', async () => {
  const { clock, at, start } = createEngineHarness()
  const aborted: string[] = []
  const slow = task('work.slow', {
    timeout: '2s',
    retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
    run: async (_, ctx) => {
      ctx.signal.addEventListener('abort', () => {
        aborted.push(`${ctx.attempt}@${at()} ${(ctx.signal.reason as { code: string }).code}`)
      })
      await clock.sleep('10s')
    },
  })
  const engine = await start({ tasks: [slow] })
  const job = await slow.enqueue()
  await clock.advance('30s')
  expect(aborted).toEqual(['1@2 job.timeout', '2@5 job.timeout'])
  expect(await engine.jobs.get(job.id)).toMatchObject({
    state: 'discarded',
    attempt: 2,
    error: { code: 'job.timeout' },
  })
})

test('waiting for a slot or for budget never erodes the timeout', async () => {
  const { clock, at, start } = createEngineHarness()
  const ends: number[] = []
  const work = task('work.item', {
    timeout: '3s',
    limits: [limit('gate', { rate: 1, per: '1m' })],
    run: async () => {
      await clock.sleep('2s')
      ends.push(at())
    },
  })
  await start({ tasks: [work], queues: { default: { concurrency: 1 } } })
  for (let i = 0; i < 3; i++) await work.enqueue()
  await clock.advance('5m')
  expect(ends).toEqual([2, 62, 122])
})

test('a late end of an attempt that was given up changes nothing', async () => {
  const { clock, start } = createEngineHarness()
  const slow = task('work.slow', {
    timeout: '1s',
    retry: { attempts: 2, backoff: 'none' },
    run: async (_, ctx) => {
      await clock.sleep(ctx.attempt === 1 ? '1500ms' : '800ms')
      return ctx.attempt
    },
  })
  const engine = await start({ tasks: [slow] })
  const job = await slow.enqueue()
  await clock.advance('10s')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 2, result: 2 })
})

test('without a timeout a handler may run for as long as its lease is extended', async () => {
  const { clock, start } = createEngineHarness()
  const long = task('work.long', { run: () => clock.sleep('3h') })
  const engine = await start({ tasks: [long], lease: '5s' })
  const job = await long.enqueue()
  await clock.advance('3h')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
})
