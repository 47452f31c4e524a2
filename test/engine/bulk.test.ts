import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type BulkOptions, call, input, type JobFilter, limit, Sluice, task } from '../../src/exports/index.ts'
import { type BulkProgress, changeMany } from '../../src/engine/api/bulk.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { jobMatch } from '../../src/jobs/job-filter.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { silentLogger } from '../../src/base/logger.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('changes of many jobs')

const work = task('work', input<number>(), { queue: 'slow', run: () => undefined })
const other = task('other', { run: () => undefined })

function open(store: string): Sluice {
  const sluice = new Sluice({ store, tasks: [work, other], logger: silentLogger })
  onTestFinished(() => sluice.stop())
  return sluice
}

const many = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

describe.each(stores)('a change of many jobs on $name', ({ create }) => {
  test('is counted first, made in batches with its progress, and touches nothing else', async () => {
    const sluice = open(create())
    await work.enqueueMany(many(2_300))
    const { id: kept } = await other.enqueue()
    const filter: JobFilter = { task: 'work' }
    expect(await sluice.jobs.cancelMany(filter, { dryRun: true })).toEqual({
      matched: 2_300,
      changed: 0,
      stopped: false,
    })
    expect(await sluice.jobs.count({ states: ['cancelled'] })).toBe(0)
    const seen: number[] = []
    const cancelled: string[] = []
    sluice.on('job.cancelled', ({ id }) => void cancelled.push(id))
    const result = await sluice.jobs.cancelMany(filter, { onProgress: ({ changed }) => void seen.push(changed) })
    expect(result).toEqual({ matched: 2_300, changed: 2_300, stopped: false })
    expect(seen.at(-1)).toBe(2_300)
    expect(Math.max(...seen.map((each, i) => each - (seen[i - 1] ?? 0)))).toBeLessThanOrEqual(1_000)
    expect(new Set(cancelled).size).toBe(2_300)
    expect(await sluice.jobs.get(kept)).toMatchObject({ state: 'available' })
    expect(await sluice.jobs.cancelMany(filter)).toEqual({ matched: 0, changed: 0, stopped: false })
  })

  test('that ends in the middle is finished by another, and nothing outside the filter is touched', async () => {
    const store = create()
    const sluice = open(store)
    await work.enqueueMany(many(1_500))
    await other.enqueueMany(many(20).map(() => undefined))
    const killed = sluice.jobs.moveMany(
      { queue: 'slow' },
      {
        to: 'default',
        onProgress: () => {
          throw new Error('killed')
        },
      },
    )
    await expect(killed).rejects.toThrow('killed')
    const left = await sluice.jobs.count({ queue: 'slow' })
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThan(1_500)
    const stop = new AbortController()
    const stopped = await sluice.jobs.moveMany(
      { queue: 'slow' },
      { to: 'default', signal: stop.signal, onProgress: () => stop.abort() },
    )
    expect(stopped).toMatchObject({ matched: left, stopped: true })
    expect(await sluice.jobs.moveMany({ queue: 'slow' }, { to: 'default' })).toMatchObject({ stopped: false })
    expect([await sluice.jobs.count({ queue: 'slow' }), await sluice.jobs.count({ queue: 'default' })]).toEqual([
      0, 1_520,
    ])
    expect(await sluice.jobs.count({ task: 'other', states: ['available'] })).toBe(20)
  })

  test('also ends jobs of flows, and tells who waits for them', async () => {
    const sluice = open(create())
    const { id } = await sluice.flows.start({ kind: 'chain', steps: [call(work, 1), call(work, 2)] })
    const [first] = await sluice.jobs.list({ flow: id })
    const ended = sluice.jobs.result(first!.id).catch((error: unknown) => error)
    expect(await sluice.jobs.cancelMany({ flow: id })).toMatchObject({ matched: 2, stopped: false })
    expect(await ended).toMatchObject({ code: 'job.cancelled' })
    expect((await sluice.jobs.list({ flow: id })).map(({ state }) => state)).toEqual(['cancelled', 'cancelled'])
    expect((await sluice.flows.get(id))?.state).toBe('failed')
  })

  test('retries and deletes what its filter says', async () => {
    const sluice = open(create())
    const ids = (await work.enqueueMany(many(5))).map(({ id }) => id)
    await sluice.jobs.cancel(ids[0] as string)
    expect(await sluice.jobs.retryMany({ queue: 'slow' })).toEqual({ matched: 0, changed: 0, stopped: false })
    expect(await sluice.jobs.deleteMany({ queue: 'slow' })).toEqual({ matched: 1, changed: 1, stopped: false })
    expect(await sluice.jobs.count({ queue: 'slow' })).toBe(4)
    expect(await sluice.jobs.delete(ids[1] as string)).toBe(false)
    await expect(sluice.jobs.delete(ids[0] as string)).rejects.toMatchObject({ code: 'job.not_found' })
  })

  test("moves jobs to a tenant's queue that the store knows, and to no other of such a name", async () => {
    const sluice = open(create())
    await work.enqueueMany(many(3))
    const store = await remoteOf(sluice).store()
    await store.pauseQueue('acme/slow', false)
    await expect(sluice.jobs.moveMany({ queue: 'slow' }, { to: 'acme/fast' })).rejects.toMatchObject({
      code: 'queue.invalid',
    })
    expect(await sluice.jobs.moveMany({ queue: 'slow' }, { to: 'acme/slow' })).toMatchObject({ changed: 3 })
    expect(await sluice.jobs.count({ queue: 'acme/slow' })).toBe(3)
  })

  test('counts jobs that come to match while it runs as matched too', async () => {
    const sluice = open(create())
    const ids = (await work.enqueueMany(many(1_200))).map(({ id }) => id)
    await sluice.jobs.cancelMany({ ids: ids.slice(-1) })
    const hooks = {
      store: await remoteOf(sluice).store(),
      single: () => Promise.resolve(false),
      changed: async () => void (await sluice.jobs.cancelMany({ ids: ids.slice(0, 5) })),
    }
    const seen: BulkProgress[] = []
    const match = jobMatch({ queue: 'slow' }, 'a test')
    const result = await changeMany(hooks, { kind: 'delete' }, match, { onProgress: (each) => void seen.push(each) })
    expect(result).toEqual({ matched: 6, changed: 6, stopped: false })
    expect(seen.map(({ matched }) => matched)).toEqual([1, 6])
  })

  test('is refused without a filter, with a field that has no value, and with options that it does not know', async () => {
    const sluice = open(create())
    const jobs = sluice.jobs
    await work.enqueue(1)
    for (const change of ['cancelMany', 'retryMany', 'deleteMany'] as const) {
      const refusal = (filter: unknown, options: unknown = {}): Promise<unknown> =>
        (async () => jobs[change](filter as JobFilter, options as BulkOptions))().catch((error: unknown) => error)
      for (const [filter, options, words] of [
        [{}, {}, 'the filter is empty'],
        [{ queue: undefined }, {}, 'queue is invalid: undefined'],
        [{ queu: 'slow' }, {}, 'did you mean queue?'],
        [{ queue: 'slow' }, { dryrun: true }, 'did you mean dryRun?'],
        [{ queue: 'slow' }, { dryRun: 1 }, 'dryRun is invalid'],
        [{ queue: 'slow' }, { onProgress: 1 }, 'onProgress is invalid'],
        [{ queue: 'slow' }, { signal: {} }, 'signal is invalid'],
      ] as const)
        expect(await refusal(filter, options)).toMatchObject({
          code: 'option.invalid',
          message: expect.stringContaining(words) as string,
        })
    }
    await expect(jobs.moveMany({ queue: 'slow' }, { to: 'Not A Queue' })).rejects.toThrow('queue name is invalid')
    await expect(jobs.moveMany({ queue: 'slow' }, {} as never)).rejects.toThrow('The queue is invalid')
    expect(await jobs.count({ states: ['available'], queue: 'slow' })).toBe(1)
  })

  test('gives jobs that wait another priority, one or many, and no others', async () => {
    const sluice = open(create())
    const { jobs } = sluice
    const [first, second, third] = (await work.enqueueMany([1, 2, 3])).map(({ id }) => id) as [string, string, string]
    const { jobs: inFlow } = await sluice.flows.start({ kind: 'chain', steps: [call(work, 4), call(work, 5)] })
    const behind = inFlow[0]?.id ?? ''
    const priorityOf = async (id: string): Promise<number | undefined> => (await jobs.get(id))?.priority
    expect(await jobs.reprioritize(first, -100)).toBe(true)
    expect(await jobs.reprioritize(first, -100)).toBe(true)
    expect(await jobs.reprioritize(behind, 7)).toBe(false)
    expect(await jobs.reprioritize(behind, 0)).toBe(false)
    await expect(jobs.reprioritize('nope', 7)).rejects.toMatchObject({ code: 'job.not_found' })
    await expect(jobs.reprioritize(first, 101)).rejects.toMatchObject({ code: 'priority.invalid' })
    await jobs.cancel(third)
    expect(await jobs.reprioritize(third, 7)).toBe(false)
    expect(await jobs.reprioritize(third, 0)).toBe(false)
    const all: JobFilter = { task: 'work' }
    expect(await jobs.reprioritizeMany(all, { priority: 9, dryRun: true })).toMatchObject({ matched: 2, changed: 0 })
    expect(await jobs.reprioritizeMany({ ids: [second] }, { priority: 9 })).toMatchObject({ matched: 1, changed: 1 })
    expect(await Promise.all([first, second, third, behind].map(priorityOf))).toEqual([-100, 9, 0, 0])
    const started: string[] = []
    sluice.on('job.started', ({ id }) => void started.push(id))
    await sluice.start()
    await jobs.result(first)
    expect(started.filter((id) => id === first || id === second)).toEqual([second, first])
  })

  test('lets a job below the headroom that its weight needs start once its budget is full', async () => {
    const crm = limit('crm', { rate: 10, per: '1s', burst: 10, headroom: { units: 4, priority: 50 } })
    const atMs: number[] = []
    const clock = createManualClock({ start: 0 })
    const heavy = task('heavy', input<null>(), { limits: [crm], run: () => void atMs.push(clock.now()) })
    const sluice = new Sluice({ store: create(), tasks: [heavy], logger: silentLogger, clock })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await expect(heavy.enqueue(null, { weight: 8 })).rejects.toMatchObject({ code: 'limit.weight.above_burst' })
    await heavy.enqueue(null, { weight: 5, priority: 60 })
    const { id } = await heavy.enqueue(null, { weight: 8, priority: 50 })
    expect(await sluice.jobs.reprioritize(id, -0)).toBe(true)
    await sluice.start()
    await clock.advance('5s')
    expect(atMs).toEqual([0, 500])
  })

  test('lets single jobs start now, or later', async () => {
    const sluice = open(create())
    const job = await work.enqueue(1, { delay: '1h' })
    expect(await sluice.jobs.promote(job.id)).toBe(true)
    expect(await sluice.jobs.get(job.id)).toMatchObject({ state: 'available' })
    expect(await sluice.jobs.reschedule(job.id, new Date(Date.now() + 3_600_000))).toBe(true)
    expect(await sluice.jobs.get(job.id)).toMatchObject({ state: 'scheduled' })
    await sluice.jobs.cancel(job.id)
    expect(await sluice.jobs.promote(job.id)).toBe(false)
    await expect(sluice.jobs.promote('x')).rejects.toMatchObject({ code: 'job.not_found' })
    for (const odd of ['2030-01-01', new Date(Number.NaN), new Date('2200-01-01'), 5])
      await expect(sluice.jobs.reschedule(job.id, odd as Date)).rejects.toMatchObject({ code: 'option.invalid' })
  })
})

const postgres = stores.find(({ name }) => name === 'postgres')

test.runIf(postgres)('a job that another transaction holds is changed once that has ended', async () => {
  const store = postgres!.create()
  const sluice = open(store)
  const [held] = await work.enqueueMany(many(3))
  const url = new URL(store)
  const schema = url.searchParams.get('schema')
  url.search = ''
  const client = new Client({ connectionString: url.href })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('BEGIN')
  await client.query(`SELECT 1 FROM ${schema}.jobs WHERE id = $1 FOR UPDATE`, [held!.id])
  const seen: number[] = []
  let release: Promise<unknown> | undefined
  sluice.on('job.cancelled', () => {
    seen.push(1)
    // The batch has ended the others; the held one is left to a call of its own, which waits.
    if (seen.length === 2) release = client.query('COMMIT')
  })
  expect(await sluice.jobs.cancelMany({ task: 'work' })).toEqual({ matched: 3, changed: 3, stopped: false })
  await release
  expect(await sluice.jobs.get(held!.id)).toMatchObject({ state: 'cancelled' })
})
