import { describe, expect, test } from 'vitest'
import type { JobState } from '../../../src/jobs/job-state.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

/** Jobs from arrival to the end of their retention. */
export function jobs(backend: StoreBackend): void {
  describe('arrival', () => arrival(backend))
  describe('unique keys', () => uniqueKeys(backend))
  describe('listing', () => listing(backend))
  describe('cancelling', () => cancelling(backend))
  describe('manual retry', () => manualRetry(backend))
  describe('scheduled', () => scheduled(backend))
  describe('pruning', () => pruning(backend))
  if (backend.reopen) describe('durability', () => durability(backend))
}

function arrival(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('what was enqueued can be read back', async () => {
    const w = harness()
    w.at(7)
    await w.add('a', { input: '{"x":"\\u0000ü"}', priority: -4, attempts: 9 })
    expect(await w.get('a')).toEqual({
      seq: expect.any(Number) as number,
      id: w.id('a'),
      task: 'a',
      queue: 'q',
      state: 'available',
      priority: -4,
      input: '{"x":"\\u0000ü"}',
      result: null,
      error: null,
      attempt: 0,
      maxAttempts: 9,
      createdUs: w.us(7),
      dueUs: null,
      startedUs: null,
      finishedUs: null,
      extra: null,
      throttledUntilUs: null,
    })
  })

  test('a job that is not there reads as null', async () => {
    const id = harness().job('a').id
    expect(await harness().store.get(id)).toBeNull()
    expect(await harness().store.explain(id)).toBeNull()
  })

  test('jobs enqueued together are stored all or none, and what others enqueue at the same time is not harmed', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('first')
    const batch = [w.job('b1', { limits: ['r'] }), w.job('b2'), { ...w.job('b3'), id: w.id('first') }]
    const [failed, fine] = await Promise.allSettled([w.store.enqueue(batch), w.store.enqueue([w.job('c')])])
    expect([failed.status, fine.status]).toEqual(['rejected', 'fulfilled'])
    expect(await w.store.get(batch[0]!.id)).toBeNull()
    expect(await w.start()).toEqual(['first', 'c'])
    await w.add('after', { limits: ['r'] })
    expect(await w.start()).toEqual(['after'])
  })

  test('answers come in the order of the jobs, and so do their places', async () => {
    const w = harness()
    await w.offer('u0', { unique: { key: 'k' } })
    const batch = [w.job('b1'), w.job('b2', { unique: { key: 'k' } }), w.job('b3')]
    const answers = await w.store.enqueue(batch)
    expect(answers).toEqual([
      { kind: 'created', id: batch[0]!.id },
      { kind: 'duplicate', id: w.id('u0') },
      { kind: 'created', id: batch[2]!.id },
    ])
    expect(await w.start()).toEqual(['u0', 'b1', 'b3'])
  })

  test('enqueueing nothing is answered with nothing', async () => {
    expect(await harness().store.enqueue([])).toEqual([])
  })
}

function uniqueKeys(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const limits = { r: { rate: 1, per: '1h' } } as const

  test('ignore: the earlier job is named, nothing is stored', async () => {
    const w = harness()
    await w.offer('a', { unique: { key: 'k' } })
    expect(await w.offer('b', { unique: { key: 'k' } })).toEqual({ kind: 'duplicate', id: w.id('a') })
    expect(await w.start()).toEqual(['a'])
  })

  test('two with one key in one call: the second is the duplicate', async () => {
    const w = harness()
    const batch = ['a', 'b'].map((name) => w.job(name, { unique: { key: 'k' } }))
    expect((await w.store.enqueue(batch)).map((answer) => answer.kind)).toEqual(['created', 'duplicate'])
  })

  test('reject: the conflict names the holder', async () => {
    const w = harness()
    await w.offer('a', { unique: { key: 'k' } })
    expect(await w.offer('b', { unique: { key: 'k', onConflict: 'reject' } })).toEqual({
      kind: 'conflict',
      id: w.id('a'),
    })
    expect(await w.start()).toEqual(['a'])
  })

  test('a key is free again when its job has ended', async () => {
    const w = harness()
    await w.offer('a', { unique: { key: 'k' } })
    await w.start()
    expect((await w.offer('b', { unique: { key: 'k' } })).kind).toBe('duplicate')
    await w.complete('a')
    expect((await w.offer('b', { unique: { key: 'k' } })).kind).toBe('created')
  })

  test('within: a completed job holds its key until the time is over', async () => {
    const w = harness()
    const unique = { key: 'k', withinUs: 10_000_000 }
    await w.offer('a', { unique })
    await w.start()
    await w.complete('a')
    w.at(9999.999)
    expect((await w.offer('b', { unique })).kind).toBe('duplicate')
    w.at(10_000)
    expect((await w.offer('b', { unique })).kind).toBe('created')
  })

  test('states: only the named states hold the key', async () => {
    const w = harness()
    const states: JobState[] = ['available']
    await w.offer('a', { unique: { key: 'k', states } })
    expect((await w.offer('b', { unique: { key: 'k', states } })).kind).toBe('duplicate')
    await w.start()
    expect((await w.offer('b', { unique: { key: 'k', states } })).kind).toBe('created')
  })

  test('update: the job keeps its id and its place and runs once, with the latest input', async () => {
    const w = harness()
    await w.define(limits)
    await w.offer('a', { limits: ['r'], unique: { key: 'k' }, input: '1' })
    await w.add('behind', { limits: ['r'] })
    for (const input of ['2', '3'])
      expect(await w.offer('x', { limits: ['r'], input, unique: { key: 'k', onConflict: 'update' } })).toEqual({
        kind: 'updated',
        id: w.id('a'),
      })
    const [job] = (await w.claim()).jobs
    expect(job).toMatchObject({ id: w.id('a'), input: '3', attempt: 1 })
    expect(await w.start()).toEqual([])
  })

  test('update: the latest expiry counts, also when the job has still to become due, and for its retries', async () => {
    const w = harness()
    const startMs = Math.round(w.clock.now())
    const unique = { key: 'k', onConflict: 'update' } as const
    await w.offer('x', { runAtMs: startMs + 1000, expiresAtMs: startMs + 500, unique })
    await w.offer('x', { expiresAtMs: startMs + 5000, unique })
    w.at(2000)
    expect(await w.start()).toEqual(['x'])
    await w.retry('x', 1000)
    w.at(4000)
    expect(await w.start()).toEqual(['x'])
    await w.complete('x')
  })

  test('update: a changed key moves the job to its new lane, and its old lane to the next', async () => {
    const w = harness()
    await w.define(limits)
    await w.add('drain', { limits: ['r:old'] })
    await w.start()
    await w.offer('a', { limits: ['r:old'], unique: { key: 'k' } })
    await w.start()
    expect(await w.bucket('r', 'old')).toMatchObject({ waiting: 1 })
    await w.offer('x', { limits: ['r:new'], unique: { key: 'k', onConflict: 'update' } })
    expect(await w.start()).toEqual(['a'])
    expect(await w.bucket('r', 'old')).toMatchObject({ waiting: 0 })
    expect(await w.bucket('r', 'new')).toMatchObject({ available: 0 })
    expect(await w.wake()).toBeNull()
  })

  test('update: a raised priority and a lowered weight count at once', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 } })
    await w.add('drain', { limits: ['r*5'] })
    await w.start()
    await w.offer('a', { limits: ['r*5'], unique: { key: 'k' } })
    expect(await w.wake()).toBe(5000)
    await w.offer('x', { limits: ['r*2'], unique: { key: 'k', onConflict: 'update' } })
    expect(await w.wake()).toBe(2000)
    await w.add('b', { limits: ['r'], priority: 1 })
    expect(await w.wake()).toBe(1000)
    await w.offer('x', { limits: ['r*2'], priority: 2, unique: { key: 'k', onConflict: 'update' } })
    expect(await w.wake()).toBe(2000)
  })

  test('replace: the old job is cancelled, the new one has an id and a place of its own', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '1h' } })
    await w.offer('a', { limits: ['r'], unique: { key: 'k' } })
    await w.add('behind', { limits: ['r'] })
    const answer = await w.offer('new', { limits: ['r'], unique: { key: 'k', onConflict: 'replace' } })
    expect(answer).toEqual({ kind: 'created', id: w.id('new') })
    expect(await w.states('a')).toEqual(['cancelled'])
    expect(await w.start()).toEqual(['behind', 'new'])
  })

  test.each(['update', 'replace'] as const)(
    '%s: an active job is never changed, a new one is enqueued',
    async (onConflict) => {
      const w = harness()
      await w.offer('a', { unique: { key: 'k' }, input: '1' })
      await w.start()
      expect((await w.offer('b', { unique: { key: 'k', onConflict }, input: '2' })).kind).toBe('created')
      expect(await w.get('a')).toMatchObject({ state: 'active', input: '1' })
      expect(await w.start()).toEqual(['b'])
    },
  )
}

function listing(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const names = async (w: StoreHarness, query: Parameters<StoreHarness['store']['list']>[0]): Promise<string[]> =>
    (await w.store.list(query)).map((job) => job.task)

  test('newest first, page by page', async () => {
    const w = harness()
    await w.add('a', {}, 5)
    expect(await names(w, {})).toEqual(['a5', 'a4', 'a3', 'a2', 'a1'])
    const page = await w.store.list({ limit: 2 })
    expect(page.map((job) => job.task)).toEqual(['a5', 'a4'])
    expect(await names(w, { limit: 2, before: page[1]!.seq })).toEqual(['a3', 'a2'])
    expect(await names(w, { limit: 2, before: page[1]!.seq - 2 })).toEqual(['a1'])
  })

  test('a hundred at most unless said otherwise', async () => {
    const w = harness()
    await w.add('a', {}, 120)
    expect(await names(w, {})).toHaveLength(100)
    expect(await names(w, { limit: 1000 })).toHaveLength(120)
  })

  test('by state, queue and task', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.add('b', { queue: 'p' })
    await w.start(1)
    expect(await names(w, { states: ['active'] })).toEqual(['a1'])
    expect(await names(w, { states: ['available', 'active'] })).toEqual(['b', 'a2', 'a1'])
    expect(await names(w, { queue: 'p' })).toEqual(['b'])
    expect(await names(w, { task: 'a2', states: ['available'] })).toEqual(['a2'])
    expect(await names(w, { queue: 'none' })).toEqual([])
    expect(await names(w, { states: [] })).toEqual([])
  })
}

function cancelling(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a waiting job is gone at once, nothing is charged, everyone behind moves up', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 4)
    await w.start()
    expect(await w.cancel('a2')).toBe('cancelled')
    expect((await w.explain('a3')).position).toBe(1)
    w.at(1000)
    expect(await w.start()).toEqual(['a3'])
    expect(await w.states('a2')).toEqual(['cancelled'])
  })

  test('the last of a lane leaves it empty and its bucket without a line', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    await w.cancel('a2')
    expect(await w.wake()).toBeNull()
    expect(await w.bucket('r')).toMatchObject({ waiting: 0, nextStartUs: null })
    w.at(1000)
    await w.add('b', { limits: ['r'] })
    expect(await w.start()).toEqual(['b'])
  })

  test('a delay counts from when the store has stored the job; without any it starts at once', async () => {
    const w = harness()
    w.at(500)
    await w.add('later', { delayUs: 1_000_001 })
    await w.add('now', { delayUs: 0 })
    const unique = { key: 'u' }
    await w.add('only', { delayUs: 2_000_000, unique })
    expect((await w.get('later')).state).toBe('scheduled')
    expect(await w.start()).toEqual(['now'])
    w.at(1500)
    expect(await w.wake()).toBeCloseTo(1500.001, 6)
    w.at(1500.001)
    expect(await w.start()).toEqual(['later'])
    w.at(2500)
    expect(await w.start()).toEqual(['only'])
  })

  test('scheduled and retryable jobs are cancelled where they are', async () => {
    const w = harness()
    await w.add('later', { runAtMs: w.clock.now() + 1000 })
    await w.add('again')
    await w.start()
    await w.retry('again', 1000)
    expect([await w.cancel('later'), await w.cancel('again')]).toEqual(['cancelled', 'cancelled'])
    w.at(1000)
    expect(await w.wake()).toBeNull()
  })

  test('an active job is only asked to end, and its worker learns of it', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.start()
    expect(await w.cancel('a1')).toBe('requested')
    expect(await w.store.cancellations(w.worker)).toEqual([w.run('a1').seq])
    const runs = [w.run('a1'), w.run('a2')]
    expect(await w.store.heartbeat(w.worker, runs, 1_000_000)).toEqual({ cancelled: [runs[0]!.seq], lost: [] })
    expect(await w.settle('a1', { kind: 'cancel' })).toEqual({ kind: 'settled', state: 'cancelled' })
    expect(await w.store.cancellations(w.worker)).toEqual([])
  })

  test('an active job that was asked to end may still complete, but not run again', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.start()
    for (const name of ['a1', 'a2', 'a3']) await w.cancel(name)
    expect(await w.settle('a1')).toEqual({ kind: 'settled', state: 'completed' })
    expect(await w.retry('a2', 1000)).toEqual({ kind: 'settled', state: 'cancelled' })
    expect(await w.retry('a3')).toEqual({ kind: 'settled', state: 'cancelled' })
    expect((await w.get('a2')).finishedUs).toBe(w.us(0))
    w.at(1000)
    expect(await w.wake()).toBeNull()
  })

  test('a job that has ended stays as it is; one that never was is missing', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.complete('a')
    expect(await w.store.cancel(w.id('a'))).toEqual({ kind: 'finished', state: 'completed' })
    expect(await w.store.cancel(w.job('x').id)).toEqual({ kind: 'missing' })
  })
}

function manualRetry(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a discarded job runs again with a fresh attempt count', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' } })
    await w.add('a', { limits: ['r'], attempts: 1 })
    await w.start()
    await w.settle('a', { kind: 'discard', error: FAILURE })
    expect(await w.store.retry(w.id('a'))).toBe(true)
    expect(await w.get('a')).toMatchObject({ state: 'available', attempt: 0, error: null, finishedUs: null })
    expect(await w.start()).toEqual(['a'])
    expect(w.run('a').attempt).toBe(1)
  })

  test('nothing else can be retried', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.start(1)
    expect(await w.store.retry(w.id('a1'))).toBe(false)
    expect(await w.store.retry(w.id('a2'))).toBe(false)
    await w.complete('a1')
    expect(await w.store.retry(w.id('a1'))).toBe(false)
    expect(await w.store.retry(w.job('x').id)).toBe(false)
  })

  test('a discarded job can be retried however long its lane has been idle', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' } })
    await w.add('a', { limits: ['r:k'] })
    await w.start()
    await w.settle('a', { kind: 'discard', error: FAILURE })
    w.at(300_000)
    await w.store.prune(1000)
    expect(await w.store.retry(w.id('a'))).toBe(true)
    expect(await w.start()).toEqual(['a'])
  })
}

function scheduled(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a job that has expired when its time comes never starts', async () => {
    const w = harness()
    await w.add('a', { runAtMs: w.clock.now() + 2000, expiresAtMs: w.clock.now() + 1000 })
    w.at(2000)
    expect(await w.claim()).toMatchObject({ jobs: [], rejected: [{ task: 'a', reason: 'expired' }] })
  })

  test('a job starts at its time by the wall clock, not before', async () => {
    const w = harness()
    const runAtMs = w.clock.now() + 5000
    await w.add('a', { runAtMs })
    expect(await w.get('a')).toMatchObject({ state: 'scheduled', dueUs: runAtMs * 1000 })
    expect(await w.wake()).toBe(5000)
    w.at(4999.999)
    expect(await w.wake()).toBe(5000)
    w.at(5000)
    expect(await w.start()).toEqual(['a'])
  })

  test('a step of the wall clock moves scheduled jobs, and no limit', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s' } })
    await w.add('limited', { limits: ['r'] }, 2)
    await w.start()
    await w.add('a', { runAtMs: w.clock.now() + 5000 })
    w.clock.stepWall(-3000)
    expect(await w.wake()).toBe(8000)
    w.clock.stepWall(10_000)
    expect(await w.start()).toEqual(['a'])
    expect(await w.wake()).toBe(10_000)
  })

  test('a time that is past is now', async () => {
    const w = harness()
    await w.add('a', { runAtMs: w.clock.now() - 1000 })
    expect(await w.start()).toEqual(['a'])
  })

  test('promote moves no more than it is asked to, the longest due first', async () => {
    const w = harness()
    for (let i = 5; i >= 1; i--) await w.add(`s${i}`, { runAtMs: w.clock.now() + i })
    w.at(10)
    expect(await w.store.promote(2)).toBe(2)
    expect(await w.states('s1', 's2', 's3')).toEqual(['available', 'available', 'scheduled'])
    expect(await w.store.promote(10)).toBe(3)
    expect(await w.store.promote(10)).toBe(0)
  })

  test('a promoted job takes the place that its sequence gives it, and is looked at if that is the first', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 5 } })
    await w.add('early', { limits: ['r'], runAtMs: w.clock.now() + 1500 })
    await w.add('drain', { limits: ['r*5'] })
    await w.add('heavy', { limits: ['r*5'] })
    expect(await w.start()).toEqual(['drain'])
    w.at(1500)
    expect(await w.start()).toEqual(['early'])
    expect(await w.wake()).toBe(6000)
  })
}

function pruning(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('finished jobs are kept for their retention, to the microsecond', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.start()
    await w.complete('a1')
    await w.settle('a2', { kind: 'cancel' })
    await w.settle('a3', { kind: 'discard', error: FAILURE })
    const left = async (ms: number): Promise<string[]> => {
      w.at(ms)
      await w.store.prune(100)
      return (await w.store.list({})).map((job) => job.task)
    }
    expect(await left(59_999.999)).toEqual(['a3', 'a2', 'a1'])
    expect(await left(60_000)).toEqual(['a3', 'a2'])
    expect(await left(119_999.999)).toEqual(['a3', 'a2'])
    expect(await left(120_000)).toEqual(['a3'])
    expect(await left(600_000)).toEqual([])
  })

  test('no more rows go than asked for, and the answer says how many', async () => {
    const w = harness()
    await w.add('a', {}, 7)
    await w.start()
    await w.complete('a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7')
    w.at(60_000)
    expect(await w.store.prune(5)).toBe(5)
    expect(await w.store.prune(5)).toBe(2)
    expect(await w.store.prune(5)).toBe(0)
  })

  test('what waits, runs, is scheduled or is retryable is never pruned, nor are its lane and its buckets', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h' }, c: { concurrency: 1 } })
    await w.add('waits', { limits: ['r:w'] }, 2)
    await w.add('runs', { limits: ['c:x'] })
    await w.add('later', { limits: ['r:l'], runAtMs: w.clock.now() + 86_400_000 })
    await w.add('again', { limits: ['r:a'] })
    await w.start()
    await w.retry('again', 86_400_000)
    w.at(80_000_000)
    for (let i = 0; i < 3; i++) await w.store.prune(1000)
    expect(await w.bucket('c', 'x')).toMatchObject({ active: 1 })
    expect(await w.states('waits2', 'runs', 'later', 'again')).toEqual([
      'available',
      'active',
      'scheduled',
      'retryable',
    ])
    expect(await w.start()).toEqual(['waits2'])
    expect(await w.retry('runs')).toEqual({ kind: 'settled', state: 'available' })
    w.at(86_400_000)
    expect((await w.start()).sort()).toEqual(['again', 'later', 'runs'])
  })

  test('a bucket that a new one would equal is forgotten, and behaves as full', async () => {
    const w = harness()
    await w.define({ r: { rate: 3, per: '3s' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    expect(await w.start()).toHaveLength(3)
    await w.complete('a1', 'a2', 'a3')
    expect(await w.store.inspect('r')).toHaveLength(1)
    w.at(3_600_000)
    for (let i = 0; i < 3; i++) await w.store.prune(1000)
    expect(await w.store.inspect('r')).toEqual([])
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 3, capacity: 3, debt: 0 })
    await w.add('b', { limits: ['r:k'] }, 5)
    expect(await w.start()).toEqual(['b1', 'b2', 'b3'])
    expect(await w.wake()).toBe(3_601_000)
  })

  test('a bucket that is not full, closed, or begins empty is kept', async () => {
    const w = harness()
    await w.define({
      slow: { rate: 1, per: '365d' },
      empty: { rate: 5, per: '5s', startEmpty: true },
      shut: { rate: 1, per: '1s' },
    })
    await w.add('s', { limits: ['slow'] })
    await w.add('e', { limits: ['empty'] })
    await w.start()
    await w.store.penalize('shut', '', w.us(86_400_000))
    await w.complete('s', 'e')
    w.at(3_600_000)
    for (let i = 0; i < 3; i++) await w.store.prune(1000)
    for (const name of ['slow', 'empty', 'shut']) expect(await w.store.inspect(name)).toHaveLength(1)
    await w.add('e', { limits: ['empty'] }, 6)
    expect(await w.start()).toEqual(['e1', 'e2', 'e3', 'e4', 'e5'])
    await w.add('s', { limits: ['slow'] })
    expect(await w.start()).toEqual([])
  })

  test('buckets that must be kept do not hide those that can go', async () => {
    const w = harness()
    await w.define({ empty: { rate: 5, per: '5s', startEmpty: true }, r: { rate: 1, per: '1s' } })
    for (const key of ['a', 'b', 'c', 'd']) {
      await w.add(key, { limits: [`empty:${key}`] })
      await w.start()
      await w.complete(key)
    }
    w.at(1)
    await w.add('z', { limits: ['r'] })
    await w.start()
    await w.complete('z')
    w.at(3_600_000)
    await w.store.prune(1000)
    await w.add('y', { limits: ['r'] })
    await w.start()
    await w.complete('y')
    for (let i = 1; i <= 12; i++) {
      w.at(7_200_000 + i)
      await w.store.prune(2)
    }
    expect(await w.store.inspect('r')).toEqual([])
    expect(await w.store.inspect('empty')).toHaveLength(4)
  })

  test('a forgotten bucket can be charged, closed and waited on like any other', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.add('a', { limits: ['r:k'] })
    await w.start()
    await w.complete('a')
    w.at(3_600_000)
    for (let i = 0; i < 3; i++) await w.store.prune(1000)
    await w.store.charge('r', 'k', 2, w.us(3_600_000))
    await w.add('b', { limits: ['r:k'] })
    expect(await w.wake()).toBe(3_601_000)
    await w.store.penalize('r', 'k', w.us(3_700_000))
    expect(await w.wake()).toBe(3_700_000)
    w.at(3_700_000)
    expect(await w.start()).toEqual(['b'])
  })
}

function durability(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('jobs, lanes and budgets outlive the store that wrote them', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '2s' } })
    await w.add('a', { limits: ['r:k'] }, 5)
    expect(await w.start()).toEqual(['a1', 'a2'])
    await w.store.close()
    const next = await w.reopen(backend)
    try {
      expect(await next.store.limits()).toHaveLength(1)
      expect(await next.wake()).toBe(1000)
      next.at(1000)
      expect(await next.start()).toEqual(['a3'])
    } finally {
      await next.store.close()
    }
  })

  test('two stores over one storage share budgets, and start no job twice', async () => {
    const w = harness()
    const other = await w.reopen(backend)
    try {
      await w.define({ r: { rate: 10, per: '1m' } })
      await w.add('a', { limits: ['r'] }, 30)
      const claims = await Promise.all([w.start(20), other.start(20), w.start(20), other.start(20)])
      const started = claims.flat()
      expect(started).toHaveLength(10)
      expect(new Set(started).size).toBe(10)
      await other.define({ r: { rate: 20, per: '1m', burst: 10 } }, 1)
      w.at(3000)
      expect(await w.start()).toHaveLength(1)
    } finally {
      await other.store.close()
    }
  })
}
