import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

/** A claimer is given jobs of tasks that it lists; others wait, and hold up nothing that it may start. */
export function knownTasks(backend: StoreBackend): void {
  describe('one worker', () => alone(backend))
  describe('several workers', () => together(backend))
}

/** Workers that list these tasks, in place of the one that takes any. */
async function staff(w: StoreHarness, ...tasks: readonly string[][]): Promise<{ worker: number; tasks: string[] }[]> {
  await w.store.leave(w.worker)
  const workers = []
  for (const each of tasks) workers.push({ worker: await w.store.join(['q'], 1e15, each), tasks: each })
  return workers
}

function alone(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test.each([[[]], [['c']]])('takes only what it lists, in order (limits: %j)', async (limits) => {
    const w = harness()
    const [a] = await staff(w, ['a1', 'a2', 'a3'])
    await w.define({ c: { concurrency: 100 } })
    await w.add('x', { limits }, 3)
    await w.add('a', { limits }, 2)
    await w.add('y', { limits, priority: 5 }, 2)
    await w.add('a3', { limits, priority: 1 })
    expect(await w.start({ ...a, slots: 1 })).toEqual(['a3'])
    expect(await w.start({ ...a, slots: 5 })).toEqual(['a1', 'a2'])
    expect(await w.start({ ...a, slots: 5 })).toEqual([])
    for (const name of ['x1', 'x3', 'y2']) expect(await w.get(name)).toMatchObject({ state: 'available', attempt: 0 })
    expect(await w.start()).toEqual(['y1', 'y2', 'x1', 'x2', 'x3'])
  })

  // PostgreSQL keeps waiting jobs by hashes of 32 bits. These two names have the same.
  test.each([[[]], [['c']]])('finds its task behind another of the same hash (limits: %j)', async (limits) => {
    const w = harness()
    const [a] = await staff(w, ['t45040'])
    await w.define({ c: { concurrency: 100 } })
    await w.add('t1481', { limits })
    await w.add('t45040', { limits })
    expect(await w.start({ ...a })).toEqual(['t45040'])
  })

  test('unlisted jobs of many lanes are passed once, and cost later claims nothing', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { concurrency: 1 }, all: { rate: 1000, per: '1s' } })
    for (let i = 0; i < 50; i++) await w.add(`x${i}`, { limits: ['all', `c:${i}`], priority: 1 })
    await w.add('a', { limits: ['all', 'c:a'] })
    const started: string[] = []
    for (let i = 0; i < 10 && started.length === 0; i++) started.push(...(await w.start({ ...a, slots: 2 })))
    expect(started).toEqual(['a'])
    for (let i = 0; i < 10; i++) await w.claim({ ...a, slots: 2 })
    const claim = await w.claim({ ...a, slots: 2 })
    expect(claim.looks).toBe(0)
    expect(claim.nextWakeUs).toBeNull()
    expect(await w.start({ slots: 60 })).toHaveLength(50)
  })

  test('a backlog of unlisted jobs in many lanes is passed within a few claims, whether it arrives or was left behind', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a1', 'a2'], ['x'])
    await w.define({ c: { concurrency: 1 } })
    const backlog = (from: number): Promise<unknown> =>
      w.store.enqueue(Array.from({ length: 1500 }, (_, i) => w.job('x', { limits: [`c:${from + i}`], priority: 1 })))
    const claims = async (): Promise<number> => {
      for (let n = 1; n <= 20; n++) if ((await w.claim({ ...a, slots: 1 })).jobs.length > 0) return n
      return Infinity
    }
    await backlog(0)
    for (let i = 0; i < 3; i++) expect((await w.claim({ ...b, slots: 1 })).jobs).toHaveLength(1)
    await w.store.leave(b!.worker)
    await w.add('a1', { limits: ['c:a1'] })
    expect(await claims()).toBeLessThanOrEqual(4)
    await backlog(2000)
    await w.add('a2', { limits: ['c:a2'] })
    expect(await claims()).toBeLessThanOrEqual(3)
    const c = await w.store.join(['q'], 1e9, ['x'])
    const rest = new Set<string>()
    for (let i = 0; i < 60; i++)
      for (const { id } of (await w.claim({ worker: c, tasks: ['x'], slots: 100 })).jobs) rest.add(id)
    expect(rest.size).toBe(2997)
  })

  test('what has come to a parked lane starts at once if it is listed', async () => {
    const w = harness()
    const [a] = await staff(w, ['a', 'b'])
    await w.define({ c: { rate: 10, per: '1s' } })
    await w.add('x', { limits: ['c'], priority: 2 })
    expect(await w.start({ ...a })).toEqual([])
    await w.add('a', { limits: ['c'] })
    expect(await w.start({ ...a })).toEqual(['a'])
    await w.add('b', { limits: ['c'], priority: 3 })
    expect(await w.start({ ...a })).toEqual(['b'])
    expect(await w.start({})).toEqual(['x'])
  })

  test('a listed job that comes to a parked lane among unlisted ones starts', async () => {
    const w = harness()
    const [a] = await staff(w, ['a1', 'a2', 't45040'])
    await w.define({ c: { rate: 10, per: '1s' } })
    const more = (...tasks: string[]): Promise<unknown> =>
      w.store.enqueue(tasks.map((each) => w.job(each, { limits: ['c'], priority: each.startsWith('a') ? -1 : 0 })))
    await w.add('x', { limits: ['c'], priority: 2 })
    expect(await w.start({ ...a })).toEqual([])
    await more('x', 'y', 'a1', 'y')
    expect(await w.start({ ...a })).toEqual(['a1'])
    await more('y')
    await more('a2')
    await more('y')
    expect(await w.start({ ...a })).toEqual(['a2'])
    // The same hash as t45040.
    await more('t1481')
    expect(await w.start({ ...a })).toEqual([])
    await more('t45040')
    expect(await w.start({ ...a })).toEqual(['t45040'])
    await more(...Array.from({ length: 40 }, (_, i) => `x${i}`), 'a1')
    expect(await w.start({ ...a })).toEqual(['a1'])
  })

  test('a task that no worker lists is named to each worker that comes later', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { concurrency: 1 } })
    const named = async (worker: number): Promise<unknown> => {
      await w.store.enqueue([w.job('x', { limits: ['c'] })])
      return (await w.claim({ worker, tasks: ['a'] })).unknown
    }
    expect(await named(a!.worker)).toEqual([{ queue: 'q', task: 'x' }])
    expect(await named(await w.store.join(['q'], 1e9, ['a']))).toEqual([{ queue: 'q', task: 'x' }])
  })

  test('tasks that no worker lists are named, and explained', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { concurrency: 1 } })
    await w.add('x', { limits: ['c'] })
    await w.add('y')
    await w.add('a', { limits: ['c'] })
    const claim = await w.claim({ ...a })
    expect(claim.jobs.map(({ task }) => task)).toEqual(['a'])
    expect(claim.unknown?.toSorted((one, other) => (one.task < other.task ? -1 : 1))).toEqual([
      { queue: 'q', task: 'x' },
      { queue: 'q', task: 'y' },
    ])
    expect(await w.explain('x')).toMatchObject({ served: true, known: false })
    expect(await w.explain('a')).toMatchObject({ served: true, known: true })
    const b = await w.store.join(['other'], 1e9, ['x'])
    expect(await w.explain('x')).toMatchObject({ known: false })
    await w.store.leave(b)
    const c = await w.store.join(['q'], 1e9, ['x'])
    expect(await w.explain('x')).toMatchObject({ known: true })
    await w.store.leave(c)
    expect(await w.explain('x')).toMatchObject({ known: false })
    const any = await w.store.join(['q'], 1_000_000)
    expect(await w.explain('x')).toMatchObject({ known: true })
    w.at(1001)
    expect(await w.explain('x')).toMatchObject({ known: false })
    await w.store.leave(any)
  })

  test('an unlisted job that was cancelled leaves its lane to others', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { rate: 10, per: '1s' } })
    await w.add('x', { limits: ['c'] }, 2)
    expect(await w.start({ ...a })).toEqual([])
    await w.cancel('x1')
    await w.cancel('x2')
    expect(await w.start({ ...a })).toEqual([])
    await w.add('a', { limits: ['c'] })
    expect(await w.start({ ...a })).toEqual(['a'])
  })

  test('an unlisted job under a limit that drops is not dropped', async () => {
    const w = harness()
    const [a] = await staff(w, ['a1', 'a2'])
    await w.define({ d: { rate: 1, per: '1s', onLimit: 'drop' } })
    await w.add('x', { limits: ['d'] })
    await w.add('a', { limits: ['d'] }, 2)
    const claim = await w.claim({ ...a })
    expect(claim.jobs.map(({ task }) => task)).toEqual(['a1'])
    expect(claim.rejected.map(({ task }) => task)).toEqual(['a2'])
    expect(await w.get('x')).toMatchObject({ state: 'available' })
  })
}

function together(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('share a lane and its budget', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a1', 'a2'], ['b1', 'b2'])
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] }, 2)
    await w.add('b', { limits: ['c'] }, 2)
    expect(await w.start({ ...a })).toEqual(['a1'])
    expect(await w.start({ ...b })).toEqual([])
    await w.settle('a1', undefined, a!.worker)
    expect(await w.start({ ...a })).toEqual(['a2'])
    await w.settle('a2', undefined, a!.worker)
    expect(await w.start({ ...a })).toEqual([])
    expect(await w.start({ ...b })).toEqual(['b1'])
    await w.settle('b1', undefined, b!.worker)
    expect(await w.start({ ...b })).toEqual(['b2'])
  })

  test.each([[{ concurrency: 1 }], [{ rate: 1, per: '1s' }]] as const)(
    'go in the order of the lane while all answer, and none holds up another for long (%j)',
    async (policy) => {
      const w = harness()
      const [a, b] = await staff(w, ['a1', 'a2'], ['b1', 'b2'])
      await w.define({ c: policy })
      await w.add('a', { limits: ['c'] }, 2)
      await w.add('b', { limits: ['c'], priority: 1 }, 2)
      const claim = await w.claim({ ...a })
      expect([claim.jobs.length, w.ms(claim.nextWakeUs)]).toEqual([0, 50])
      w.at(20)
      expect(await w.start({ ...b })).toEqual(['b1'])
      await w.settle('b1', undefined, b!.worker)
      w.at(1020)
      expect(await w.start({ ...a })).toEqual([])
      w.at(1069)
      expect(await w.wake({ ...a })).toBe(1070)
      w.at(1070)
      expect(await w.start({ ...a })).toEqual(['a1'])
      await w.settle('a1', undefined, a!.worker)
      w.at(2070)
      expect(await w.start({ ...a })).toEqual(['a2'])
      await w.settle('a2', undefined, a!.worker)
      w.at(4000)
      expect(await w.start({ ...b })).toEqual(['b2'])
    },
  )

  test('go in the order of a lane that one of them parked', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a'], ['b'])
    await w.define({ c: { concurrency: 1 } })
    await w.add('x', { limits: ['c'], priority: 2 })
    expect(await w.start({ ...a })).toEqual([])
    await w.add('b', { limits: ['c'], priority: 3 })
    await w.add('a', { limits: ['c'] })
    const claim = await w.claim({ ...a })
    expect([claim.jobs.length, w.ms(claim.nextWakeUs)]).toEqual([0, 50])
    expect(await w.start({ ...b })).toEqual(['b'])
    await w.settle('b', undefined, b!.worker)
    expect(await w.start({ ...a })).toEqual(['a'])
  })

  test('start what comes to a lane that was parked before they came', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { rate: 10, per: '1s' } })
    await w.add('x', { limits: ['c'], priority: 2 })
    expect(await w.start({ ...a })).toEqual([])
    const b = { worker: await w.store.join(['q'], 1e9, ['b']), tasks: ['b'] }
    expect(await w.start(b)).toEqual([])
    await w.add('b', { limits: ['c'] })
    expect(await w.start({ ...a })).toEqual([])
    expect(await w.start(b)).toEqual(['b'])
  })

  test('a claim that comes but once waits for no other worker', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'], ['b'])
    await w.define({ c: { concurrency: 1 } })
    await w.add('b', { limits: ['c'] })
    await w.add('a', { limits: ['c'] })
    const queues = [{ queue: 'q', slots: 1, uses: [] }]
    const { jobs } = await w.store.claim(() => ({ ...a!, leaseUs: 1e6, remote: true, queues }))
    expect(jobs.map(({ task }) => task)).toEqual(['a'])
  })

  test('are woken for what another left in a lane', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a'], ['b'])
    await w.define({ r: { rate: 1, per: '1s', burst: 1 } })
    await w.add('a', { limits: ['r'] })
    await w.add('b', { limits: ['r'] })
    expect(await w.start({ ...a })).toEqual(['a'])
    expect(await w.wake({ ...b })).toBe(1000)
    w.at(1000)
    expect(await w.start({ ...a })).toEqual([])
    expect(await w.start({ ...b })).toEqual(['b'])
  })

  test('what one passed another starts when it joins', async () => {
    const w = harness()
    const [a] = await staff(w, ['a'])
    await w.define({ c: { concurrency: 1 }, all: { rate: 1000, per: '1s' } })
    for (let i = 0; i < 20; i++) await w.add(`x${i}`, { limits: [`c:${i}`, 'all'] })
    for (let i = 0; i < 5; i++) expect(await w.start({ ...a })).toEqual([])
    const tasks = Array.from({ length: 20 }, (_, i) => `x${i}`)
    const b = await w.store.join(['q'], 1e9, tasks)
    expect(await w.start({ worker: b, tasks })).toEqual(tasks)
  })

  test('a lane keeps its place before a budget for the worker that lists its head, while that lives', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a'], ['b'])
    await w.define({ all: { rate: 1, per: '1s', burst: 1 }, c: { concurrency: 5 } })
    await w.add('b', { limits: ['all'] })
    expect(await w.start({ ...b })).toEqual(['b'])
    await w.add('b2', { limits: ['all', 'c:2'], priority: 1 })
    await w.add('a', { limits: ['all', 'c:1'] })
    const knows = { worker: b!.worker, tasks: ['b', 'b2'] }
    await w.store.leave(b!.worker)
    const c = await w.store.join(['q'], 1e9, knows.tasks)
    expect(await w.start({ worker: c, tasks: knows.tasks })).toEqual([])
    expect(await w.start({ ...a })).toEqual([])
    w.at(1000)
    const claim = await w.claim({ ...a })
    expect([claim.jobs.length, w.ms(claim.nextWakeUs)]).toEqual([0, 1050])
    w.at(1050)
    expect(await w.start({ ...a })).toEqual(['a'])
    w.at(2050)
    expect(await w.start({ worker: c, tasks: knows.tasks })).toEqual(['b2'])
  })

  test('a lane whose worker has gone holds up none behind it', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['a'], ['b', 'b2'])
    await w.define({ all: { rate: 1, per: '1s', burst: 1 }, c: { concurrency: 5 } })
    await w.add('b', { limits: ['all'] })
    expect(await w.start({ ...b })).toEqual(['b'])
    await w.add('b2', { limits: ['all', 'c:2'], priority: 1 })
    await w.add('a', { limits: ['all', 'c:1'] })
    expect(await w.start({ ...b })).toEqual([])
    expect(await w.start({ ...a })).toEqual([])
    await w.store.leave(b!.worker)
    w.at(1000)
    expect(await w.start({ ...a })).toEqual(['a'])
    expect(await w.get('b2')).toMatchObject({ state: 'available', attempt: 0 })
  })

  test('thousands of open lanes that only another can start hold up none behind them', async () => {
    const w = harness()
    const [a] = await staff(w, ['heavy', 'plain'], ['light'])
    await w.define({ r: { rate: 2, per: '1d', startEmpty: true } })
    const lanes = Array.from({ length: 4200 }, (_, i) => i)
    await w.store.enqueue(lanes.map((i) => w.job('light', { limits: [`r:${i}`], priority: 1 })))
    await w.store.enqueue(lanes.map((i) => w.job('heavy', { limits: [`r:${i}*2`], priority: 1 })))
    await w.add('plain')
    const starts: string[] = []
    for (let n = 0; n < 4 && starts.length === 0; n++) starts.push(...(await w.start({ ...a, slots: 1 })))
    expect(starts).toEqual(['plain'])
  })

  test('one that thousands of open lanes hold nothing for now is not told to claim again and again', async () => {
    const w = harness()
    const [a] = await staff(w, ['heavy'], ['light'])
    await w.define({ r: { rate: 2, per: '1d', startEmpty: true } })
    const lanes = Array.from({ length: 4200 }, (_, i) => i)
    await w.store.enqueue(lanes.map((i) => w.job('light', { limits: [`r:${i}`], priority: 1 })))
    await w.store.enqueue(lanes.map((i) => w.job('heavy', { limits: [`r:${i}*2`], priority: 1 })))
    let claims = 0
    for (; claims < 100; claims++) {
      const claim = await w.claim({ ...a, slots: 2 })
      if (claim.nextWakeUs === null || claim.nextWakeUs > claim.nowUs) break
    }
    expect(claims).toBeLessThan(50)
  })

  test('an urgent job that one cannot start does not wait for another that can', async () => {
    const w = harness()
    const [a, b] = await staff(w, ['heavy'], ['light'])
    await w.define({ r: { rate: 1, per: '1s', burst: 5 } })
    await w.add('heavy', { limits: ['r*5'] })
    expect(await w.start({ ...a })).toEqual(['heavy'])
    w.at(1000)
    await w.add('light', { limits: ['r*1'], priority: 1 })
    expect(await w.start({ ...a })).toEqual([])
    expect(await w.start({ ...b })).toEqual(['light'])
  })
}
