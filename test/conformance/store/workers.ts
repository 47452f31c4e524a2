import { describe, expect, test } from 'vitest'
import type { Settlement } from '../../../src/jobs/settlement.ts'
import type { ReleasedClaims } from '../../../src/store/contract/remote-claims.ts'
import type { Claim } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE } from './store-harness.ts'

/** Leases: whose a job is, for how long, and what becomes of it when its worker dies. */
export function workers(backend: StoreBackend): void {
  describe('leases', () => leases(backend))
  describe('recovery', () => recovery(backend))
  describe('release', () => releases(backend))
}

function leases(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('workers have numbers of their own', async () => {
    const w = harness()
    const numbers = [w.worker, await w.store.join(['q'], 1e9), await w.store.join(['q'], 1e9)]
    expect(new Set(numbers).size).toBe(3)
    await w.store.leave(numbers[2]!)
    expect(numbers).not.toContain(await w.store.join(['q'], 1e9))
  })

  test('a settlement by another worker, of another attempt or of an ended run is lost and writes nothing', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 5 } })
    await w.add('a', { limits: ['c'] })
    await w.start()
    const other = await w.store.join(['q'], 1e9)
    const before = await w.get('a')
    const { seq, attempt } = w.run('a')
    const complete = { kind: 'complete', result: '1' } as const
    expect(await w.store.settle(other, { seq, attempt, ...complete })).toEqual({ kind: 'lost' })
    expect(await w.store.settle(w.worker, { seq, attempt: attempt + 1, ...complete })).toEqual({ kind: 'lost' })
    expect(await w.store.settle(w.worker, { seq: seq + 1000, attempt, ...complete })).toEqual({ kind: 'lost' })
    expect(await w.get('a')).toEqual(before)
    expect(await w.bucket('c')).toMatchObject({ active: 1 })
    await w.complete('a')
    const done = await w.get('a')
    expect(await w.settle('a', { kind: 'retry', delayUs: 0, error: FAILURE })).toEqual({ kind: 'lost' })
    expect(await w.get('a')).toEqual(done)
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
  })

  test('a late settlement after recovery is lost, and the new run is not harmed', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] })
    await w.claim({ leaseMs: 1000 })
    const { seq, attempt } = w.run('a')
    w.at(1000)
    expect(await w.recover()).toEqual([['a', 'available']])
    expect(await w.start()).toEqual(['a'])
    for (const late of [
      { kind: 'complete', result: null },
      { kind: 'give-back' },
      { kind: 'push-back', limit: 'c', key: '', closedForUs: 1e9, error: FAILURE },
    ] as const)
      expect(await w.store.settle(w.worker, { seq, attempt, ...late })).toEqual({ kind: 'lost' })
    expect(await w.bucket('c')).toMatchObject({ active: 1 })
    expect(await w.settle('a')).toEqual({ kind: 'settled', state: 'completed' })
    expect(await w.bucket('c')).toMatchObject({ active: 0, available: 1 })
  })

  test('a heartbeat extends the lease from its own instant', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.claim({ leaseMs: 1000 })
    expect((await w.get('a1')).dueUs).toBe(w.us(1000))
    w.at(900)
    expect(await w.store.heartbeat(w.worker, [w.run('a1')], 1_000_000)).toEqual({ cancelled: [], lost: [] })
    expect((await w.get('a1')).dueUs).toBe(w.us(1900))
    w.at(1000)
    expect(await w.recover()).toEqual([['a2', 'available']])
    w.at(1899.999)
    expect(await w.recover()).toEqual([])
    await w.store.heartbeat(w.worker, [], 1e12)
    w.at(1900)
    expect(await w.recover()).toEqual([['a1', 'available']])
  })

  test('a heartbeat names the runs that are no longer its own, and extends none of them', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.claim({ leaseMs: 1000 })
    const runs = ['a1', 'a2', 'a3'].map((name) => w.run(name))
    await w.complete('a1')
    w.at(1000)
    await w.recover()
    const other = await w.store.join(['q'], 1e12)
    await w.claim({ worker: other, slots: 1, leaseMs: 5000 })
    const beat = await w.store.heartbeat(w.worker, runs, 9_000_000)
    expect([...beat.lost].sort((a, b) => a - b)).toEqual(runs.map((run) => run.seq))
    expect((await w.get('a2')).dueUs).toBe(w.us(6000))
  })

  test('a heartbeat does not extend the runs of another worker', async () => {
    const w = harness()
    await w.add('a')
    await w.claim({ leaseMs: 1000 })
    const other = await w.store.join(['q'], 1e12)
    expect(await w.store.heartbeat(other, [w.run('a')], 9_000_000)).toEqual({ cancelled: [], lost: [w.run('a').seq] })
    expect((await w.get('a')).dueUs).toBe(w.us(1000))
  })

  test('a heartbeat without runs keeps the worker alive', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 3 } })
    const other = await w.store.join(['p'], 1_000_000)
    await w.add('first', { limits: ['r*3'] })
    await w.start()
    await w.add('heavy', { limits: ['r*3'], queue: 'p' })
    await w.start({ queue: 'p', worker: other })
    w.at(900)
    await w.store.heartbeat(other, [], 1e12)
    await w.add('light', { limits: ['r'] })
    w.at(2000)
    await w.store.recover()
    expect(await w.start()).toEqual([])
  })

  test('a worker that was taken for dead is one again with its next heartbeat', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 3 } })
    const other = await w.store.join(['p'], 1_000_000)
    await w.add('first', { limits: ['r*3'] })
    await w.start()
    await w.add('heavy', { limits: ['r*3'], queue: 'p' })
    await w.start({ queue: 'p', worker: other })
    w.at(1000)
    await w.store.recover()
    await w.store.heartbeat(other, [], 1e12)
    await w.add('light', { limits: ['r'] })
    w.at(2000)
    expect(await w.start()).toEqual([])
    w.at(3000)
    expect(await w.start({ queue: 'p', worker: other })).toEqual(['heavy'])
  })
}

function recovery(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a job whose lease ran out goes back to its place, its permit returns, and the run counts as an attempt', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'], input: '"in"' }, 2)
    await w.claim({ leaseMs: 1000 })
    w.at(999.999)
    expect(await w.recover()).toEqual([])
    expect(await w.start()).toEqual([])
    w.at(1000)
    expect(await w.store.recover()).toEqual([
      { id: w.id('a1'), task: 'a1', queue: 'q', input: '"in"', attempt: 1, state: 'available', step: null },
    ])
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
    expect(await w.start()).toEqual(['a1'])
    expect(w.run('a1').attempt).toBe(2)
    expect(await w.recover()).toEqual([])
  })

  test('a job that lost its last attempt is discarded', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'], attempts: 2 })
    for (const [ms, state] of [
      [1000, 'available'],
      [2000, 'discarded'],
    ] as const) {
      await w.claim({ leaseMs: 1000 })
      w.at(ms)
      expect(await w.recover()).toEqual([['a', state]])
    }
    expect(await w.get('a')).toMatchObject({
      state: 'discarded',
      attempt: 2,
      error: { code: 'lease.lost' },
      finishedUs: w.us(2000),
    })
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
  })

  test('a lost job that was asked to end is cancelled', async () => {
    const w = harness()
    await w.add('a')
    await w.claim({ leaseMs: 1000 })
    await w.cancel('a')
    w.at(1000)
    expect(await w.recover()).toEqual([['a', 'cancelled']])
    expect(await w.start()).toEqual([])
  })

  test('a lost run pays again', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s' } })
    await w.add('a', { limits: ['r'] })
    await w.claim({ leaseMs: 1000 })
    w.at(1000)
    await w.recover()
    expect(await w.wake()).toBe(10_000)
  })

  test('leaving does not give up what still runs: its lease decides', async () => {
    const w = harness()
    await w.add('a')
    await w.claim({ leaseMs: 1000 })
    await w.store.leave(w.worker)
    w.at(999)
    expect(await w.recover()).toEqual([])
    expect(await w.settle('a')).toEqual({ kind: 'settled', state: 'completed' })
  })
}

function releases(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a claimed job that never started gives its units, permit and attempt back and keeps its place', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1h', concurrency: 1 }, t: { rate: 3, per: '1h' } })
    await w.add('a', { limits: ['r*2', 't:k'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    w.at(10)
    await w.store.release(w.worker, [w.run('a1')])
    expect(await w.get('a1')).toMatchObject({ state: 'available', attempt: 0, startedUs: null, dueUs: null })
    expect(await w.bucket('r')).toMatchObject({ active: 0, debt: 0 })
    expect(await w.bucket('t', 'k')).toMatchObject({ available: 3 })
    expect(await w.start()).toEqual(['a1'])
    expect(w.run('a1').attempt).toBe(1)
    await w.complete('a1')
    expect(await w.start()).toEqual(['a2'])
    expect(await w.bucket('t', 'k')).toMatchObject({ available: 1 })
  })

  test('what a worker has in the store and does not hold goes back with its permit and its attempt; its units stay charged', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1h', concurrency: 5 } })
    await w.add('a', { limits: ['r'], attempts: 1 }, 2)
    await w.add('b', { attempts: 1 })
    await w.start()
    const other = await w.store.join(['q'], 1e9)
    expect(await w.store.releaseLost(other, [])).toBe(0)
    expect(await w.store.releaseLost(w.worker, [w.run('a1'), w.run('a2'), w.run('b')])).toBe(0)
    expect(await w.states('a1', 'a2', 'b')).toEqual(['active', 'active', 'active'])
    w.at(10)
    expect(await w.store.releaseLost(w.worker, [w.run('a1'), { ...w.run('b'), attempt: 2 }])).toBe(2)
    expect(await w.get('a2')).toMatchObject({ state: 'available', attempt: 0, startedUs: null })
    expect(await w.get('b')).toMatchObject({ state: 'available', attempt: 0 })
    expect(await w.bucket('r')).toMatchObject({ active: 1, available: 3 })
    expect((await w.start()).sort()).toEqual(['a2', 'b'])
    expect([w.run('a2').attempt, w.run('b').attempt]).toEqual([1, 1])
    expect(await w.bucket('r')).toMatchObject({ active: 2, available: 2 })
    expect(await w.recover()).toEqual([])
  })

  test('what one claim from outside has taken goes back alone, with its permit and its attempt', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '1h', concurrency: 5 } })
    await w.add('a', { limits: ['r'], attempts: 1 }, 2)
    await w.add('b', { attempts: 1 }, 2)
    const [lost, kept] = ['01890a5d-ac96-774b-bcce-b302099a8057', '01890a5d-ac96-774b-bcce-b302099a8058']
    const claim = (claimId: string): Promise<Claim> =>
      w.store.claim(() => ({
        worker: w.worker,
        leaseUs: 1e9,
        remote: true,
        claimId,
        queues: [{ queue: 'q', slots: 2 }],
      }))
    const first = (await claim(lost)).jobs.map(({ task }) => task)
    const second = (await claim(kept)).jobs.map(({ task }) => task)
    expect([...first, ...second].sort()).toEqual(['a1', 'a2', 'b1', 'b2'])
    const other = await w.store.join(['q'], 1e9)
    const none = { jobs: 0, claimIds: [] }
    const release = (worker: number): Promise<ReleasedClaims> => w.store.releaseClaims([{ worker, claimId: lost }])
    expect(await release(other)).toEqual(none)
    expect(await release(w.worker)).toEqual({ jobs: 2, claimIds: [lost] })
    for (const task of first)
      expect(await w.get(task)).toMatchObject({ state: 'available', attempt: 0, startedUs: null })
    for (const task of second) expect(await w.get(task)).toMatchObject({ state: 'active', attempt: 1 })
    expect(await release(w.worker)).toEqual(none)
    // A later run is another claim's.
    expect((await w.start()).sort()).toEqual(first.sort())
    expect(await release(w.worker)).toEqual(none)
    expect(await w.bucket('r')).toMatchObject({ active: 2 })
  })

  test('a settlement of a run counts for no later run of the same attempt', async () => {
    const w = harness()
    await w.add('a', { attempts: 2 })
    await w.start()
    const { startedUs, ...first } = w.run('a')
    w.at(10)
    expect(await w.settle('a', { kind: 'give-back' })).toMatchObject({ kind: 'settled' })
    await w.start()
    expect(w.run('a')).toMatchObject({ seq: first.seq, attempt: first.attempt })
    const late: Settlement = { seq: first.seq, attempt: first.attempt, startedUs, kind: 'complete', result: 'null' }
    for (const again of [false, true]) expect(await w.store.settle(w.worker, late, again)).toEqual({ kind: 'lost' })
    expect(await w.get('a')).toMatchObject({ state: 'active', attempt: 1 })
    const own: Settlement = { ...late, startedUs: w.run('a').startedUs }
    expect(await w.store.settle(w.worker, own)).toMatchObject({ kind: 'settled', state: 'completed' })
  })

  test('units that come back let a waiting line go at once', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h' } })
    await w.add('a', { limits: ['r'] }, 2)
    await w.start()
    expect(await w.wake()).toBe(3_600_000)
    await w.store.release(w.worker, [w.run('a1')])
    expect(await w.start()).toEqual(['a1'])
  })

  test("a queue's own limit gets its units back too", async () => {
    const w = harness()
    await w.define({ ql: { rate: 1, per: '1h' } })
    await w.add('a')
    await w.declare('q', ['ql'])
    expect(await w.start()).toEqual(['a'])
    await w.store.release(w.worker, [w.run('a')])
    expect(await w.start()).toEqual(['a'])
  })

  test('a job that is no longer its own is not released', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h' } })
    await w.add('a', { limits: ['r'] })
    await w.start()
    await w.store.release(w.worker + 1, [w.run('a')])
    expect(await w.states('a')).toEqual(['active'])
    await w.complete('a')
    await w.store.release(w.worker, [w.run('a')])
    expect(await w.states('a')).toEqual(['completed'])
    expect(await w.bucket('r')).toMatchObject({ available: 0 })
  })

  test('a job that never started still expires', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'], expiresAtMs: w.clock.now() + 1000 })
    await w.start()
    await w.store.release(w.worker, [w.run('a')])
    w.at(1001)
    expect((await w.claim()).rejected).toMatchObject([{ task: 'a' }])
    expect(await w.states('a')).toEqual(['discarded'])
  })

  test('a job that was asked to end meanwhile is not run again', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.cancel('a')
    await w.store.release(w.worker, [w.run('a')])
    expect(await w.states('a')).toEqual(['cancelled'])
    expect(await w.start()).toEqual([])
  })
}
