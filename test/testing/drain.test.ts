import { describe, expect, it } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock, drain } from '../../src/exports/testing.ts'

describe('drain', () => {
  it('answers at the very instant at which the last job ends', async () => {
    const clock = createManualClock()
    const slow = task('slow', { limits: [limit('slow', { every: '10s' })], run: () => clock.sleep('1500ms') })
    await using engines = engine(clock, [slow])
    for (let i = 0; i < 3; i++) await slow.enqueue()
    expect(await drain(engines.sluice, clock)).toBe(21_500)
  })

  it('waits for scheduled jobs and for retries', async () => {
    const clock = createManualClock()
    const failing = task('failing', input<{ n: number }>(), {
      retry: { attempts: 2, backoff: 'fixed', initial: '1m', jitter: false },
      run() {
        throw new Error('always')
      },
    })
    await using engines = engine(clock, [failing])
    const job = await failing.enqueue({ n: 1 }, { delay: '2h' })
    expect(await drain(engines.sluice, clock)).toBe(7_260_000)
    expect((await engines.sluice.jobs.get(job.id))?.state).toBe('discarded')
  })

  it('takes no time when there is nothing to do', async () => {
    const clock = createManualClock()
    await using engines = engine(clock, [task('idle', { run: () => undefined })])
    expect(await drain(engines.sluice, clock)).toBe(0)
  })

  it('says what a job that does not end waits for', async () => {
    const clock = createManualClock()
    const paused = task('paused', { limits: [limit('paused', { concurrency: 0 })], run: () => undefined })
    await using engines = engine(clock, [paused])
    await paused.enqueue()
    await expect(drain(engines.sluice, clock, { within: '1m' })).rejects.toMatchObject({
      code: 'drain.timeout',
      message: expect.stringContaining('waits for the budget of paused') as string,
    })
    expect(clock.monotonicUs()).toBeLessThanOrEqual(60_000_000)
  })
})

describe('the manual clock', () => {
  it('advances by next() to the next timer and no further', async () => {
    const clock = createManualClock()
    const fired: number[] = []
    for (const ms of [7.001, 3, 1001.001]) clock.setTimer(() => fired.push(clock.monotonicUs()), ms)
    expect(clock.next()).toBe(3)
    await clock.advance(clock.next() ?? 0)
    expect(fired).toEqual([3000])
    await clock.advance(clock.next() ?? 0)
    expect(fired).toEqual([3000, 7001])
    await clock.advance(clock.next() ?? 0)
    expect(fired).toEqual([3000, 7001, 1_001_001])
    expect(clock.next()).toBeNull()
  })
})

function engine(
  clock: ReturnType<typeof createManualClock>,
  tasks: ConstructorParameters<typeof Sluice>[0]['tasks'],
): { readonly sluice: Sluice } & AsyncDisposable {
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks, clock, logger: silentLogger })
  void sluice.start()
  return {
    sluice,
    async [Symbol.asyncDispose](): Promise<void> {
      await sluice.stop()
    },
  }
}
