import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

const LONG_US = 1e15

/** Limits of which each worker has budgets of its own. */
export function workerScope(backend: StoreBackend): void {
  describe('budgets', () => budgets(backend))
  describe('waiting', () => waiting(backend))
  describe('coming and going', () => registrations(backend))
  describe('a scope that changes', () => changes(backend))
}

/** A second worker of the same queue. */
function another(w: StoreHarness, queues: readonly string[] = ['q']): Promise<number> {
  return w.store.join(queues, LONG_US)
}

function budgets(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('each worker starts what its own rate admits, and no more', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 2, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['r'] }, 10)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.start()).toEqual([])
    expect(await w.start({ worker: other })).toEqual(['a3', 'a4'])
    expect(await w.start({ worker: other })).toEqual([])
    w.at(500)
    expect(await w.start()).toEqual(['a5'])
    expect(await w.start({ worker: other })).toEqual(['a6'])
  })

  test('at most so many at once in each, in any order of ends', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ c: { concurrency: 1, scope: 'worker' } })
    await w.add('a', { limits: ['c:k'] }, 5)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.start({ worker: other })).toEqual(['a2'])
    await w.settle('a2', undefined, other)
    expect(await w.start()).toEqual([])
    expect(await w.start({ worker: other })).toEqual(['a3'])
    await w.complete('a1')
    expect(await w.start({ worker: other })).toEqual([])
    expect(await w.start()).toEqual(['a4'])
  })

  test('keys have budgets of their own in each worker', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    for (const key of ['x', 'y']) await w.add(key, { limits: [`r:${key}`] }, 3)
    expect(await w.start()).toEqual(['x1', 'y1'])
    expect(await w.start({ worker: other })).toEqual(['x2', 'y2'])
  })

  test('beside a limit of the fleet both hold: all or nothing', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ all: { rate: 3, per: '1h' }, own: { rate: 2, per: '1h', scope: 'worker' } })
    await w.add('a', { limits: ['all', 'own'] }, 6)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.bucket('all')).toMatchObject({ available: 1 })
    expect(await w.start({ worker: other })).toEqual(['a3'])
    expect((await w.store.inspect('own')).map(({ worker, available }) => [worker, available])).toEqual([
      [w.worker, 0],
      [other, 1],
    ])
  })

  test('a push back, a charge and a release are those of the worker that ran the job', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 10, per: '10s', scope: 'worker' } })
    await w.add('a', { limits: ['r*5'] }, 6)
    expect(await w.start(1)).toEqual(['a1'])
    expect(await w.start({ slots: 1, worker: other })).toEqual(['a2'])
    await w.store.release(other, [w.run('a2')])
    await w.store.charge('r', '', 3, w.us(0), w.worker)
    const levels = async (): Promise<unknown[]> => (await w.store.inspect('r')).map((each) => each.available)
    expect(await levels()).toEqual([2, 10])
    await w.settle('a1', { kind: 'push-back', limit: 'r', key: '', closedForUs: 60_000_000, error: FAILURE })
    w.at(30_000)
    expect(await w.start()).toEqual([])
    expect(await w.start({ worker: other })).toEqual(['a1', 'a2'])
    await w.store.penalize('r', '', w.us(90_000))
    w.at(80_000)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([[], []])
  })

  test('a queue’s own limit of this scope puts the queue to sleep in one worker only', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    await w.add('a', {}, 4)
    await w.declare('q', ['r'])
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBe(1000)
    expect(await w.start({ worker: other })).toEqual(['a2'])
  })

  test('jobs under a queue’s own limit hold permits of their worker once it is given some', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 100, per: '1s', scope: 'worker' } })
    await w.add('a', {}, 8)
    await w.declare('q', ['r'])
    expect(await w.start({ slots: 2 })).toEqual(['a1', 'a2'])
    expect(await w.start({ slots: 1, worker: other })).toEqual(['a3'])
    await w.override('r', { concurrency: 3 })
    expect((await w.store.inspect('r')).map(({ worker, active }) => [worker, active])).toEqual([
      [w.worker, 2],
      [other, 1],
    ])
    expect(await w.start()).toEqual(['a4'])
    expect(await w.start({ worker: other })).toEqual(['a5', 'a6'])
    await w.complete('a1', 'a2')
    expect(await w.start()).toEqual(['a7', 'a8'])
  })

  test('what the other side says is left is left of the budget of the worker that was told', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 10, per: '10s', scope: 'worker' } })
    await w.add('a', { limits: ['r'] }, 20)
    const told = { remaining: 1, resetUs: w.us(10_000), direction: 'both', reset: 'window' } as const
    await w.start(1)
    await w.start({ slots: 1, worker: other })
    expect(await w.store.calibrate('r', '', told, w.worker)).toBe(true)
    expect(await w.start()).toEqual(['a3'])
    expect(await w.start({ worker: other })).toHaveLength(9)
  })

  test('fair keys take turns in every worker, with as many starts as their share', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ own: { rate: 100, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['own'], fairKey: 'a', share: 2 }, 12)
    await w.add('b', { limits: ['own'], fairKey: 'b' }, 8)
    expect(await w.start(6)).toEqual(['a1', 'a2', 'b1', 'a3', 'a4', 'b2'])
    expect(await w.start({ slots: 3, worker: other })).toEqual(['a5', 'a6', 'b3'])
    await w.add('c', { limits: ['own'], fairKey: 'b', share: 2 })
    expect(await w.start(6)).toEqual(['a7', 'a8', 'b4', 'b5', 'a9', 'a10'])
    expect(await w.explain('b6')).toMatchObject({ fairKey: 'b', share: 2 })
  })
}

function waiting(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a lane that waits for one worker stays open for others, and wakes that one at the instant', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['r'] }, 4)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBe(1000)
    w.at(400)
    expect(await w.start({ worker: other })).toEqual(['a2'])
    expect(await w.wake({ worker: other })).toBe(1400)
    w.at(999.999)
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['a3'])
    w.at(1400)
    expect(await w.start({ worker: other })).toEqual(['a4'])
    w.at(2000)
    expect(await w.wake()).toBeNull()
  })

  test('closed lanes are not looked at, however many, and delay no other key', async () => {
    const w = harness()
    await another(w)
    await w.define({ r: { rate: 1, per: '1h', scope: 'worker' } })
    for (let n = 0; n < 300; n++) await w.add(`k${n}-`, { limits: [`r:${n}`] }, 2)
    expect(await w.start(1000)).toHaveLength(300)
    expect((await w.claim()).looks).toBe(0)
    await w.add('fresh', { limits: ['r:fresh'] })
    const claim = await w.claim()
    expect(claim.jobs.map((job) => job.task)).toEqual(['fresh'])
    expect(claim.looks).toBeLessThanOrEqual(2)
  })

  test('a job that one worker cannot start delays no start under a limit of the fleet', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ all: { rate: 1, per: '1s', burst: 1 }, own: { rate: 1, per: '1h', burst: 1, scope: 'worker' } })
    await w.add('a', { limits: ['all', 'own'] }, 3)
    await w.add('b', { limits: ['all'] }, 3)
    const first = await w.start()
    w.at(1000)
    const second = await w.start({ worker: other })
    expect([first, second]).toEqual([['a1'], ['a2']])
    for (let s = 2; s < 5; s++) {
      w.at(s * 1000)
      expect(await w.start()).toEqual([`b${s - 1}`])
    }
  })

  test('a more urgent arrival goes first in every worker; one that is cancelled goes in none', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['r'] }, 4)
    await w.start()
    await w.start({ worker: other })
    await w.add('urgent', { limits: ['r'], priority: 5 })
    await w.cancel('a3')
    w.at(1000)
    expect(await w.start()).toEqual(['urgent'])
    expect(await w.start({ worker: other })).toEqual(['a4'])
  })

  test('priorities hold across lanes, after any worker took the urgent ones', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ own: { rate: 100, per: '1s', scope: 'worker' } })
    await w.add('high', { limits: ['own:x'], priority: 9 })
    await w.add('low', { limits: ['own:x'], priority: 1 })
    await w.add('middle', { limits: ['own:y'], priority: 5 })
    expect(await w.start({ slots: 1, worker: other })).toEqual(['high'])
    expect(await w.start()).toEqual(['middle', 'low'])
  })

  test('a longest wait is over when it is over, for a worker with budget may come until then', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', scope: 'worker', maxWait: '10s' } })
    await w.add('a', { limits: ['r'] }, 3)
    const claim = await w.claim()
    expect([claim.jobs.map((job) => job.task), claim.rejected]).toEqual([['a1'], []])
    w.at(5000)
    expect(await w.start({ worker: await another(w) })).toEqual(['a2'])
    w.at(10_001)
    expect((await w.claim()).rejected).toMatchObject([{ task: 'a3', reason: 'late', limit: 'r' }])
  })

  test('the report of a bucket names the worker that owns it', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' }, all: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.add('b', { limits: ['all'] }, 2)
    const own = { limit: 'r', key: 'k', worker: other }
    const { closed } = await w.claim({ worker: other })
    expect(closed).toEqual([expect.objectContaining(own), expect.not.objectContaining({ worker: other })])
    await w.cancel('a2')
    await w.cancel('a3')
    w.at(1000)
    const { released } = await w.claim({ worker: other })
    expect(released).toContainEqual({ ...own, deferred: 0, atUs: w.us(1000) })
    expect(released).toContainEqual({ limit: 'all', key: '', deferred: 0, atUs: w.us(1000) })
  })

  test('a waiting job says that each worker has its own, and how they stand', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    await w.start()
    expect(await w.explain('a3')).toMatchObject({ waitsOn: null, exact: false, position: 2 })
    w.at(500)
    await w.start({ worker: other })
    await w.claim({ worker: other })
    expect(await w.explain('a3')).toMatchObject({
      waitsOn: { limit: 'r', key: 'k' },
      position: 1,
      untilUs: w.us(1000),
      eachWorker: [
        { worker: w.worker, waitsOn: { limit: 'r', key: 'k' }, untilUs: w.us(1000) },
        { worker: other, waitsOn: { limit: 'r', key: 'k' }, untilUs: w.us(1500) },
      ],
    })
    expect(await w.get('a3')).toMatchObject({ throttledUntilUs: w.us(1000) })
    expect((await w.store.throttled(10)).waiting).toBe(1)
  })

  test('an override concerns every worker', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1h', burst: 1, scope: 'worker' } })
    await w.add('a', { limits: ['r:k'] }, 4)
    await w.start()
    await w.start({ worker: other })
    await w.override('r:k', { per: '1s' })
    await w.claim()
    await w.claim({ worker: other })
    w.at(1000)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([['a3'], ['a4']])
    await w.pause('r')
    w.at(5000)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([[], []])
  })
}

function registrations(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('who joins later finds all that waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', scope: 'worker' } })
    for (let n = 0; n < 20; n++) await w.add(`k${n}-`, { limits: [`r:${n}`] }, 2)
    await w.start()
    expect(await w.start({ worker: await another(w) })).toHaveLength(20)
  })

  test('a worker of another queue has nothing to do with it', async () => {
    const w = harness()
    const other = await another(w, ['p'])
    await w.define({ r: { rate: 1, per: '1h', scope: 'worker' } })
    await w.add('a', { limits: ['r'] }, 2)
    expect(await w.start({ queue: 'p', worker: other })).toEqual([])
    expect(await w.start()).toEqual(['a1'])
  })

  test('one that leaves takes its budget along, and its jobs run elsewhere', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ c: { concurrency: 1, scope: 'worker' } })
    await w.add('a', { limits: ['c'] }, 3)
    expect(await w.start({ worker: other, leaseMs: 1000 })).toEqual(['a1'])
    expect(await w.start()).toEqual(['a2'])
    await w.store.leave(other)
    w.at(1000)
    expect(await w.recover()).toEqual([['a1', 'available']])
    expect((await w.store.inspect('c')).map(({ worker, active }) => [worker, active])).toEqual([[w.worker, 1]])
    await w.complete('a2')
    expect(await w.start()).toEqual(['a1'])
    const third = await another(w)
    expect(await w.start({ worker: third })).toEqual(['a3'])
  })

  test('lanes and budgets without jobs are removed', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: { rate: 1, per: '1s', scope: 'worker' } })
    await w.add('a', { limits: ['r:k'] }, 2)
    await w.start()
    await w.start({ worker: other })
    await w.complete('a1')
    await w.settle('a2', undefined, other)
    await w.claim()
    await w.claim({ worker: other })
    w.at(1000)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([[], []])
    for (let minute = 2; minute < 6; minute++) {
      w.at(minute * 60_000)
      await w.store.prune(100)
    }
    expect(await w.store.inspect('r')).toEqual([])
    expect(await w.store.prune(100)).toBe(0)
    await w.add('b', { limits: ['r:k'] }, 2)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([['b1'], ['b2']])
  })
}

function changes(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const POLICIES = {
    fleet: { rate: 2, per: '1s', scope: 'fleet' },
    worker: { rate: 2, per: '1s', scope: 'worker' },
  } as const
  const number = (started: readonly unknown[]): number => started.length

  test('jobs that wait get the budgets of each worker', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: POLICIES.fleet })
    await w.add('a', { limits: ['r'] }, 12)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.start({ worker: other })).toEqual([])
    await w.define({ r: POLICIES.worker }, 1)
    expect(await w.start({ worker: other })).toEqual(['a3', 'a4'])
    w.at(1000)
    expect([number(await w.start()), number(await w.start({ worker: other }))]).toEqual([2, 2])
    await w.add('b', { limits: ['r'] }, 2)
    w.at(2000)
    expect([number(await w.start()), number(await w.start({ worker: other }))]).toEqual([2, 2])
    w.at(3000)
    expect(await w.start({ worker: other })).toEqual(['b1', 'b2'])
    expect((await w.store.throttled(10)).waiting).toBe(0)
  })

  test('jobs that wait share one budget again', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: POLICIES.worker })
    await w.add('a', { limits: ['r'] }, 12)
    expect(await w.start()).toEqual(['a1', 'a2'])
    expect(await w.start({ worker: other })).toEqual(['a3', 'a4'])
    await w.define({ r: POLICIES.fleet }, 1)
    // The budget that all share is as one that was never used.
    expect(await w.start()).toEqual(['a5', 'a6'])
    expect(await w.start({ worker: other })).toEqual([])
    await w.add('b', { limits: ['r'] }, 2)
    w.at(1000)
    expect(await w.start({ worker: other })).toEqual(['a7', 'a8'])
    expect(await w.start()).toEqual([])
    w.at(5000)
    expect([...(await w.start()), ...(await w.start({ worker: other }))]).toEqual(['a9', 'a10'])
    for (const second of [6, 7]) {
      w.at(second * 1000)
      await w.start()
    }
    expect(await w.store.countJobs({ states: ['available'] })).toBe(0)
    for (const seq of ['a1', 'a2', 'a5', 'a6', 'a9', 'a10', 'a11', 'a12', 'b1', 'b2']) await w.complete(seq)
    for (const seq of ['a3', 'a4', 'a7', 'a8']) await w.settle(seq, undefined, other)
    for (let minute = 1; minute < 5; minute++) {
      w.at(minute * 60_000)
      await w.store.prune(100)
    }
    expect(await w.store.inspect('r')).toEqual([])
  })

  test('and back, with keys, fair keys, a second limit, late jobs and one that runs', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: POLICIES.fleet, all: { rate: 100, per: '1s' } })
    const add = (name: string, key: string, more: object = {}): Promise<unknown> =>
      w.add(name, { limits: [`r:${key}`, 'all'], ...more }, 6)
    await add('x', 'x')
    await add('y', 'y')
    await w.add('z', { limits: ['r:x'], fairKey: 'f' }, 2)
    expect((await w.start()).length).toBe(4)
    for (const scope of ['worker', 'fleet', 'worker'] as const) {
      const version =
        { worker: 1, fleet: 2 }[scope] + (await w.store.limits()).find(({ name }) => name === 'r')!.version
      await w.define({ r: POLICIES[scope] }, version)
    }
    expect((await w.start({ worker: other })).length).toBe(4)
    w.at(1000)
    const started = [...(await w.start()), ...(await w.start({ worker: other }))]
    expect(started.length).toBe(6)
    w.at(2000)
    await w.start()
    await w.start({ worker: other })
    w.at(3000)
    await w.start()
    await w.start({ worker: other })
    expect((await w.store.throttled(10)).waiting).toBe(0)
    expect(await w.store.countJobs({ states: ['available'] })).toBe(0)
  })

  test('a job that is retried comes back to where the others wait', async () => {
    const w = harness()
    const other = await another(w)
    await w.define({ r: POLICIES.fleet })
    await w.add('a', { limits: ['r'] }, 3)
    expect(await w.start()).toEqual(['a1', 'a2'])
    await w.define({ r: POLICIES.worker }, 1)
    await w.settle('a1', { kind: 'retry', delayUs: 1_000_000, error: FAILURE })
    await w.complete('a2')
    expect(await w.start({ worker: other })).toEqual(['a3'])
    w.at(1000)
    expect(await w.start({ worker: other })).toEqual(['a1'])
    await w.settle('a1', undefined, other)
    await w.settle('a3', undefined, other)
    w.at(2000)
    expect([await w.start(), await w.start({ worker: other })]).toEqual([[], []])
    for (let minute = 1; minute < 5; minute++) {
      w.at(minute * 60_000)
      await w.store.prune(100)
    }
    expect(await w.store.inspect('r')).toEqual([])
  })
}
