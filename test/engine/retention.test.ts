import { describe, expect, onTestFinished, test } from 'vitest'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { call, input, limit, silentLogger, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('retention of tasks and queues')

const refuse = (): never => {
  throw new Error('no')
}
const noRetry = { attempts: 1 }
const short = task('short', { retention: { completed: '1m', discarded: '10m' }, run: () => undefined })
const failing = task('failing', { retry: noRetry, retention: { discarded: '2m' }, run: refuse })
const long = task('long', { queue: 'bulk', retention: { completed: '20m' }, run: () => undefined })
const plain = task('plain', { queue: 'bulk', run: () => undefined })
const few = task('few', input<number>(), { retention: { count: 3 }, run: () => undefined })
const rest = task('rest', { run: () => undefined })

describe.each(stores)('on $name', ({ create }) => {
  async function engine(options: Partial<SluiceOptions> = {}): Promise<{ sluice: Sluice; clock: ManualClock }> {
    const clock = createManualClock({ start: Date.UTC(2030, 0, 1) })
    const sluice = new Sluice({
      store: create(),
      tasks: [short, failing, long, plain, few, rest],
      queues: { default: {}, bulk: { retention: { completed: '3m' } } },
      retention: { completed: '5m', discarded: '5m' },
      clock,
      logger: silentLogger,
      ...options,
    })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.start()
    return { sluice, clock }
  }
  const kept = async (sluice: Sluice): Promise<string[]> => (await sluice.jobs.list()).map((job) => job.task).toSorted()

  test('a task keeps its jobs as it says, else as its queue or the engine says', async () => {
    const { sluice, clock } = await engine()
    for (const each of [short, failing, long, plain, rest]) await each.enqueue()
    // Two that end together, of which one has a retention of its own.
    await sluice.enqueue(rest)
    await clock.advance('30s')
    expect(await kept(sluice)).toEqual(['failing', 'long', 'plain', 'rest', 'rest', 'short'])
    await clock.advance('2m')
    expect(await kept(sluice)).toEqual(['long', 'plain', 'rest', 'rest'])
    await clock.advance('90s')
    expect(await kept(sluice)).toEqual(['long', 'rest', 'rest'])
    await clock.advance('150s')
    expect(await kept(sluice)).toEqual(['long'])
  })

  test('a task keeps its newest jobs, and those of flows stay with their flow', async () => {
    const { sluice, clock } = await engine()
    await sluice.flows.start({ kind: 'chain', steps: [0, 1].map((n) => call(few, n)) })
    await clock.advance('1s')
    const jobs = await few.enqueueMany(Array.from({ length: 1_300 }, (_, n) => n))
    await rest.enqueue()
    await clock.advance('2m')
    const left = (await sluice.jobs.list({ task: 'few' })).filter((job) => !job.flow)
    expect(left.map(({ id }) => id)).toEqual(
      jobs
        .slice(-3)
        .map(({ id }) => id)
        .toReversed(),
    )
    expect(await sluice.jobs.count({ task: 'rest' })).toBe(1)
    expect(await sluice.jobs.count({ task: 'few' })).toBe(5)
  })

  test('jobs that end without a run are kept as their task or queue says', async () => {
    const gate = limit('gate', { rate: 1, per: '1h', burst: 1, maxWait: '20s' })
    const gated = task('gated', {
      limits: [gate],
      retention: { cancelled: '2m', discarded: '4m' },
      run: () => undefined,
    })
    const other = task('other', { queue: 'bulk', run: () => undefined })
    const { sluice, clock } = await engine({
      tasks: [gated, other, few, rest],
      queues: { default: {}, bulk: { retention: { cancelled: '3m' } } },
    })
    const cancelled = async (job: Promise<{ id: string }>): Promise<string> => {
      const { id } = await job
      await sluice.jobs.cancel(id)
      return id
    }
    await gated.enqueue()
    await clock.advance('1s')
    const late = await gated.enqueue()
    const expired = await gated.enqueue(undefined, { expiresAt: new Date(clock.now() + 5000) })
    const ended = {
      late: late.id,
      expired: expired.id,
      own: await cancelled(gated.enqueue(undefined, { delay: '1h' })),
      queue: await cancelled(other.enqueue(undefined, { delay: '1h' })),
      none: await cancelled(rest.enqueue(undefined, { delay: '1h' })),
    }
    for (let n = 0; n < 5; n++) await cancelled(few.enqueue(n, { delay: '1h' }))
    const left = async (): Promise<string[]> => {
      const found = await Promise.all(
        Object.entries(ended).map(async ([name, id]) => ((await sluice.jobs.get(id)) ? name : [])),
      )
      return found.flat()
    }
    await clock.advance('90s')
    expect((await sluice.jobs.get(late.id))?.state).toBe('discarded')
    expect((await sluice.jobs.get(expired.id))?.state).toBe('discarded')
    expect(await left()).toEqual(['late', 'expired', 'own', 'queue', 'none'])
    expect(await sluice.jobs.count({ task: 'few' })).toBe(3)
    await clock.advance('90s')
    expect(await left()).toEqual(['late', 'expired', 'queue', 'none'])
    await clock.advance('1m')
    expect(await left()).toEqual(['late', 'expired', 'none'])
    await clock.advance('90s')
    expect(await left()).toEqual(['none'])
  })

  test('jobs that a process with other times ends are kept as the engine of their task says', async () => {
    const url = create()
    const { sluice, clock } = await engine({ store: url, retention: { cancelled: '9m' } })
    const foreign = task('foreign', { run: () => undefined })
    // As the command line: it runs nothing, and is told no times.
    const other = new Sluice({ store: url, tasks: [foreign], clock, logger: silentLogger })
    onTestFinished(() => other.stop({ within: 0 }))
    const jobs = [await sluice.enqueue(rest, undefined, { delay: '1h' }), await other.enqueue(foreign)]
    const ids = jobs.map(({ id }) => id)
    for (const id of ids) await other.jobs.cancel(id)
    await clock.advance('8m')
    const left = async (): Promise<boolean[]> =>
      Promise.all(ids.map(async (id) => (await sluice.jobs.get(id)) !== null))
    expect(await left()).toEqual([true, true])
    await clock.advance('2m')
    // Another engine may list the second task, and keep its jobs for so long.
    expect(await left()).toEqual([false, true])
  })

  test('a job is kept while it holds its unique key', async () => {
    const { sluice, clock } = await engine()
    const unique = { key: 'order-5', within: '7m' } as const
    const { id } = await short.enqueue(undefined, { unique })
    await clock.advance('6m')
    expect(await short.enqueue(undefined, { unique })).toMatchObject({ id, duplicate: true })
    await clock.advance('2m')
    expect(await sluice.jobs.get(id)).toBeNull()
    expect(await short.enqueue(undefined, { unique })).toMatchObject({ duplicate: false })
  })

  test('a job that is kept for no time is gone as its run completes, which is told as any completion', async () => {
    const ends: unknown[] = []
    const none = task('none', input<number>(), {
      retention: { completed: 0 },
      run: (n) => n + 1,
      onCompleted: (result, { input: given }) => void ends.push([given, result]),
    })
    const { sluice, clock } = await engine({ tasks: [none, rest] })
    sluice.on('job.completed', ({ task: name }) => void ends.push(name))
    const job = await none.enqueue(4)
    const result = job.result()
    await clock.advance('1s')
    expect(await result).toBe(5)
    expect(ends).toEqual(['none', [4, 5]])
    expect(await sluice.jobs.get(job.id)).toBeNull()
    expect(await sluice.jobs.count()).toBe(0)
    const gone = { code: 'job.not_found' }
    await expect(job.result()).rejects.toMatchObject(gone)
    await expect(sluice.jobs.explain(job.id)).rejects.toMatchObject(gone)
    await expect(sluice.jobs.cancel(job.id)).rejects.toMatchObject(gone)
    await expect(sluice.jobs.retry(job.id)).rejects.toMatchObject(gone)
    await expect(sluice.jobs.delete(job.id)).rejects.toMatchObject(gone)
  })

  test('completed jobs that an engine or a queue keeps for no time are gone, others and those of flows are not', async () => {
    const kinds = [few, failing, short, long, plain, rest]
    const { sluice, clock } = await engine({
      tasks: kinds,
      queues: { default: {}, bulk: { retention: { completed: 0 } } },
      retention: { completed: 0, discarded: '5m' },
    })
    await sluice.flows.start({ kind: 'chain', steps: [0, 1].map((n) => call(few, n)) })
    await few.enqueueMany([1, 2, 3, 4, 5])
    for (const each of [failing, short, long, plain, rest]) await each.enqueue()
    await clock.advance('30s')
    expect(await kept(sluice)).toEqual(['failing', 'few', 'few', 'long', 'short'])
    expect((await sluice.jobs.list({ task: 'few' })).every((job) => job.flow)).toBe(true)
  })

  test('a task that keeps no completed job and some others keeps the newest of these', async () => {
    const odd = task('odd', input<number>(), {
      retry: noRetry,
      retention: { completed: 0, count: 2 },
      run: (n) => (n % 2 === 1 ? refuse() : undefined),
    })
    const { sluice, clock } = await engine({ tasks: [odd] })
    await odd.enqueueMany([1, 2, 3, 4, 5, 6, 7])
    await clock.advance('90s')
    expect((await sluice.jobs.list()).map((job) => job.input)).toEqual([7, 5])
  })

  test('a schedule without overlap goes on when its last job is gone', async () => {
    const begun: number[] = []
    const tick = task('tick', { retention: { completed: 0 }, run: () => void begun.push(clock.now()) })
    const { sluice, clock } = await engine({ tasks: [tick] })
    await sluice.schedule(tick, { every: '1m', overlap: 'skip' })
    await clock.advance('5m')
    expect(begun).toHaveLength(5)
    expect(await sluice.schedules.get('tick')).toMatchObject({ runs: 5 })
    expect(await sluice.jobs.list({ states: ['completed'] })).toEqual([])
  })

  test('a unique key outlives its run as long as it should, though the job would be kept for no time', async () => {
    const none = task('none', { retention: { completed: 0 }, run: () => undefined })
    const { sluice, clock } = await engine({ tasks: [none] })
    const within = { key: 'order-5', within: '7m' } as const
    const { id } = await none.enqueue(undefined, { unique: within })
    const plainKey = await none.enqueue(undefined, { unique: { key: 'order-6' } })
    await clock.advance('6m')
    expect(await none.enqueue(undefined, { unique: within })).toMatchObject({ id, duplicate: true })
    expect(await sluice.jobs.get(plainKey.id)).toBeNull()
    expect(await none.enqueue(undefined, { unique: { key: 'order-6' } })).toMatchObject({ duplicate: false })
    await clock.advance('2m')
    expect(await none.enqueue(undefined, { unique: within })).toMatchObject({ duplicate: false })
    // Its key was free when it ended: that one is kept for no time.
    const late = await none.enqueue(undefined, { unique: { key: 'order-7', within: '1m' }, delay: '2m' })
    await clock.advance('130s')
    expect(await sluice.jobs.get(late.id)).toBeNull()
  })

  test('a caller that waits in another process learns that the job is gone', async () => {
    const url = create()
    const slow = task('slow', { retention: { completed: 0 }, run: () => clock.sleep('5s').then(() => 'done') })
    const { clock } = await engine({ store: url, tasks: [slow] })
    const looks = new Sluice({ store: url, tasks: [], clock, logger: silentLogger })
    onTestFinished(() => looks.stop({ within: 0 }))
    const job = await slow.enqueue()
    const here = job.result()
    const there = looks.jobs.result(job.id).catch((error: unknown) => error)
    await clock.advance('10s')
    expect(await here).toBe('done')
    expect(await there).toMatchObject({ code: 'job.not_found' })
  })

  test('a queue gives its timeout and its retries to jobs whose task and call have none', async () => {
    const slow = task('slow', {
      queue: 'bulk',
      run: (_, ctx) =>
        new Promise((_done, reject) => ctx.signal.addEventListener('abort', () => reject(new Error('late')))),
    })
    const own = task('own', { queue: 'bulk', timeout: '10s', retry: { attempts: 1 }, run: refuse })
    const { sluice, clock } = await engine({
      tasks: [slow, own],
      queues: { bulk: { timeout: '2s', retry: { attempts: 2, backoff: 'fixed', initial: '3s', jitter: false } } },
    })
    const ids = [
      await slow.enqueue(),
      await own.enqueue(),
      await slow.enqueue(undefined, { timeout: '4s', retry: { attempts: 1 } }),
    ]
    await clock.advance('1s')
    expect(await Promise.all(ids.map(async ({ id }) => (await sluice.jobs.get(id))?.maxAttempts))).toEqual([2, 1, 1])
    await clock.advance('30s')
    const ended = await Promise.all(ids.map(async ({ id }) => sluice.jobs.get(id)))
    const times = ended.map((job) => job?.failures.map(({ at }) => (at.getTime() - job.createdAt.getTime()) / 1000))
    expect(times.map((each) => each?.map(Math.round))).toEqual([[2, 7], [0], [4]])
  })
})

test.each([
  { retention: { count: -1 } },
  { retention: { count: 1.5 } },
  { retention: { complete: '1d' } },
  { retention: { completed: 'soon' } },
])('the retention %j of a task is refused', (options) => {
  expect(() => task('odd', { ...(options as object), run: () => undefined })).toThrow(/retention of task odd/)
})

test.each([{ retention: { count: 5 } }, { timeout: 'soon' }, { retry: { attempts: 0 } }])(
  'the defaults %j of a queue are refused',
  (options) => {
    const create = (): Sluice => new Sluice({ store: 'sqlite::memory:', tasks: [], queues: { bulk: options as never } })
    expect(create).toThrow(/queues\.bulk/)
  },
)
