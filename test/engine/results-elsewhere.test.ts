// The results of jobs by their ids, in engines that neither enqueued nor run them.
import { describe, expect, test } from 'vitest'
import { input, JobCancelled, JobDiscarded, type Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const stores = await everyStore('results of jobs that run elsewhere')
const errorOf = (result: Promise<unknown>): Promise<unknown> => result.catch((error: unknown) => error)

describe.each(stores)('jobs.result, on $name', (kind) => {
  /** An engine that runs jobs for five seconds, and another one that lists no task and was never started. */
  async function two() {
    const harness = createEngineHarness()
    const { clock } = harness
    const work = task('work.item', input<{ ends?: 'fails' | 'void' | null }>(), {
      retry: { attempts: 1 },
      run: async ({ ends = null }) => {
        await clock.sleep('5s')
        if (ends === 'fails') throw new Error('the disk is full')
        return ends === 'void' ? undefined : { at: new Date(0) }
      },
    })
    const store = kind.create()
    const runs = await harness.start({ store, tasks: [work] })
    const looks = harness.create({ store, tasks: [] })
    return { ...harness, work, runs, looks }
  }

  test('waits for a job that another engine runs, and answers at once for one that has ended', async () => {
    const { clock, work, runs, looks } = await two()
    const { id } = await work.enqueue({})
    const waits = [looks, runs].map((engine: Sluice) => engine.jobs.result(id))
    await clock.advance('10s')
    expect(await Promise.all(waits)).toEqual([{ at: '1970-01-01T00:00:00.000Z' }, { at: '1970-01-01T00:00:00.000Z' }])
    expect(await looks.jobs.result(id, { timeout: 0 })).toEqual({ at: '1970-01-01T00:00:00.000Z' })
  })

  test('is undefined for a handler that returned nothing', async () => {
    const { clock, work, looks } = await two()
    const { id } = await work.enqueue({ ends: 'void' })
    const wait = looks.jobs.result(id)
    await clock.advance('10s')
    expect(await wait).toBeUndefined()
  })

  test('tells many callers at once, each of its own job, and of those that are gone', async () => {
    const { clock, work, looks } = await two()
    const jobs = await work.enqueueMany(Array.from({ length: 120 }, () => ({})))
    const waits = jobs.flatMap(({ id }) => [looks.jobs.result(id), looks.jobs.result(id)])
    const gone = ['no-such-job', '01900000-0000-7000-8000-000000000000'].map((id) => errorOf(looks.jobs.result(id)))
    expect(await Promise.all(gone)).toMatchObject([{ code: 'job.not_found' }, { code: 'job.not_found' }])
    await clock.advance('2m')
    expect(await Promise.all(waits)).toEqual(waits.map(() => ({ at: '1970-01-01T00:00:00.000Z' })))
  })

  test('rejects as job.result() does: discarded, cancelled, too late, unknown', async () => {
    const { clock, work, runs, looks } = await two()
    const failing = await work.enqueue({ ends: 'fails' })
    const later = await work.enqueue({}, { delay: '1h' })
    const waits = [
      errorOf(looks.jobs.result(failing.id)),
      errorOf(looks.jobs.result(later.id)),
      errorOf(looks.jobs.result(failing.id, { timeout: '1s' })),
    ]
    await clock.advance('2s')
    await runs.jobs.cancel(later.id)
    await clock.advance('10s')
    const [discarded, cancelled, late] = await Promise.all(waits)
    expect(discarded).toBeInstanceOf(JobDiscarded)
    expect(discarded).toMatchObject({ code: 'job.discarded', jobId: failing.id, reason: 'handler.failed' })
    expect(cancelled).toBeInstanceOf(JobCancelled)
    expect(late).toMatchObject({ code: 'job.result.timeout' })
    expect(await errorOf(looks.jobs.result('no-such-job'))).toMatchObject({ code: 'job.not_found' })
  })

  test('ends with its engine', async () => {
    const { work, looks, stop } = await two()
    const { id } = await work.enqueue({}, { delay: '1h' })
    const wait = errorOf(looks.jobs.result(id))
    await looks.jobs.get(id)
    await stop(looks)
    expect(await wait).toMatchObject({ code: 'engine.stopped' })
  })

  test.each<[string, unknown, unknown, string]>([
    ['an id that is no text', 7, {}, 'option.invalid'],
    ['a misspelt option', 'a', { timeuot: '1s' }, 'option.invalid'],
    ['a time that is none', 'a', { timeout: 'soon' }, 'duration.invalid'],
  ])('refuses %s', async (_, id, options, code) => {
    const { looks } = await two()
    expect(await errorOf(looks.jobs.result(id as string, options as {}))).toMatchObject({ code })
  })
})
