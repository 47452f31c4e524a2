import type { AuditEntry } from '../../../src/store/contract/audit.ts'
import { describe, expect, test } from 'vitest'
import { normalisePolicy } from '../../../src/policy/limits/normalise.ts'
import type { JobTerms, NewJob } from '../../../src/jobs/job.ts'
import { uuidv7 } from 'uuidv7'
import type { Claim, Run } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

const TERMS: JobTerms = { givenId: false, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }

/** The rows for work over a protocol: pushes, terms, remote workers, queues. */
export function remote(backend: StoreBackend): void {
  describe('offers', () => offers(backend))
  describe('terms', () => terms(backend))
  describe('remote workers', () => remoteWorkers(backend))
  describe('queues', () => queues(backend))
}

function job(
  w: StoreHarness,
  task: string,
  more: Partial<JobTerms> = {},
  spec: Parameters<StoreHarness['job']>[1] = {},
): NewJob {
  return { ...w.job(task, spec), terms: { ...TERMS, ...more } }
}

async function enlist(w: StoreHarness, name: string, queues: readonly string[] = ['q']): Promise<number> {
  return (await w.store.registerWorker({ name, queues, aliveUs: 60_000_000, about: null })).worker
}

function runOf({ seq, attempt }: Run): Run {
  return { seq, attempt }
}

function claim(w: StoreHarness, worker: number, slots = 10, leaseMs = 1000, queue = 'q'): Promise<Claim> {
  const leaseUs = leaseMs * 1000
  return w.store.claim(() => ({ worker, leaseUs, remote: true, queues: [{ queue, slots }] }))
}

function offers(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('are answered with the instants at which they were stored, which no read has to tell', async () => {
    const w = harness()
    w.at(7)
    const one = [job(w, 'a'), job(w, 'b', {}, { runAtMs: w.clock.now() + 60_000 })]
    const answers = await Promise.all([one, [job(w, 'c')]].map((jobs) => w.store.push(jobs, [])))
    const wallUs = w.clock.now() * 1000
    for (const answer of answers) expect(answer).toMatchObject({ kind: 'stored', at: { nowUs: w.us(7), wallUs } })
    for (const { id } of one) expect(await w.store.details(id)).toMatchObject({ createdUs: w.us(7) })
  })

  test('of which one job cannot be stored leave nothing behind, neither jobs nor limits', async () => {
    const w = harness()
    const { store } = w
    const first = job(w, 'a', { givenId: true })
    const policy = normalisePolicy({ concurrency: 1 }, 'c')
    const limits = [{ name: 'c', policy, version: -1 }]
    expect(await store.push([first], limits)).toMatchObject({ kind: 'stored', answers: [{ kind: 'created' }] })
    const again = [{ name: 'c', policy: normalisePolicy({ concurrency: 9 }, 'c'), version: -1 }]
    expect(await store.push([job(w, 'b'), { ...first, task: 'x' }], again)).toEqual({
      kind: 'refused',
      at: 1,
      why: { kind: 'taken', id: first.id },
    })
    expect(await w.store.list({})).toHaveLength(1)
    expect((await w.store.limits())[0]?.policy.concurrency).toBe(1)
    const unique = { unique: { key: 'k', onConflict: 'reject' } } as const
    await store.push([job(w, 'u', {}, unique)], [])
    expect(await store.push([job(w, 'v'), job(w, 'u', {}, unique)], [])).toMatchObject({ why: { kind: 'conflict' } })
    expect(await w.store.list({})).toHaveLength(2)
  })

  test('define their limits only where no higher version is defined', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    const policy = normalisePolicy({ concurrency: 5 }, 'c')
    await w.store.push([job(w, 'a')], [{ name: 'c', policy, version: -1 }])
    expect((await w.store.limits())[0]?.policy.concurrency).toBe(1)
  })

  test('to a bounded queue are refused beyond the bound: what has not started counts, what runs does not', async () => {
    const w = harness()
    const { store } = w
    await store.boundQueue('q', { maxDepth: 3, warnAt: 0.5 })
    await w.define({ c: { rate: 1, per: '1h' } })
    await store.push([job(w, 'a', {}, { limits: ['c:k'] }), job(w, 'b', {}, { limits: ['c:k'] })], [])
    const third = await store.push([job(w, 'c', {}, { runAtMs: w.clock.now() + 60_000 })], [])
    expect(third).toMatchObject({ depths: [{ queue: 'q', depth: 3, bounds: { maxDepth: 3, warnAt: 0.5 } }] })
    const full = { kind: 'refused', at: 0, why: { kind: 'full', queue: 'q', depth: 3, bound: 3 } }
    expect(await store.push([job(w, 'd')], [])).toEqual(full)
    await claim(w, await enlist(w, 'x'))
    expect(await store.push([job(w, 'd'), job(w, 'e')], [])).toMatchObject({ kind: 'refused', at: 1 })
    expect(await store.push([job(w, 'd')], [])).toMatchObject({ kind: 'stored' })
    await store.boundQueue('q', null)
    expect(await store.push([job(w, 'e')], [])).toMatchObject({ kind: 'stored', depths: [] })
  })

  test('what an engine enqueued and what was there before the bound count, what was moved to another queue does not', async () => {
    const w = harness()
    const { store } = w
    const unique = { unique: { key: 'k', onConflict: 'update' } } as const
    await w.add('early', unique)
    await store.boundQueue('q', { maxDepth: 2, warnAt: null })
    await w.add('late')
    expect(await store.push([job(w, 'a')], [])).toMatchObject({ why: { kind: 'full', depth: 2 } })
    await store.push([job(w, 'early', {}, { ...unique, queue: 'p' })], [])
    expect(await store.push([job(w, 'a')], [])).toMatchObject({ depths: [{ queue: 'q', depth: 2 }] })
    await store.boundQueue('p', { maxDepth: 1, warnAt: null })
    expect(await store.push([job(w, 'b', {}, { queue: 'p' })], [])).toMatchObject({
      why: { kind: 'full', queue: 'p' },
    })
  })
}

function terms(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a pending job waits to be activated, keeps its lane over pruning, and then has its place', async () => {
    const w = harness()
    const { store } = w
    await w.define({ c: { concurrency: 1 } })
    const pending = job(w, 'a', { pending: true }, { limits: ['c:k'] })
    await store.push([pending, job(w, 'b', { pending: true })], [])
    const worker = await enlist(w, 'x')
    expect((await claim(w, worker)).jobs).toEqual([])
    w.at(7_200_000)
    await w.store.prune(100)
    expect(await store.activate(pending.id, null)).toBe('pending')
    expect((await claim(w, worker)).jobs.map((each) => each.id)).toEqual([pending.id])
    expect(await store.activate(pending.id, null)).toBe('active')
    expect(await store.activate('none', null)).toBeNull()
  })

  test('a job’s own lease goes before the claim’s, and its timeout is told when it is over', async () => {
    const w = harness()
    const { store } = w
    const own = job(w, 'own', { leaseUs: 5_000_000 })
    const timed = job(w, 'timed', { timeoutUs: 3_000_000, leaseUs: 60_000_000 })
    await store.push([own, timed, job(w, 'plain')], [])
    await claim(w, await enlist(w, 'x'), 10, 1000)
    expect(w.ms((await store.overdueRuns(10)).nextUs)).toBe(1000)
    w.at(1000)
    expect((await w.store.recover()).map((each) => each.task)).toEqual(['plain'])
    // A worker that keeps its own time has 800 ms to say so first.
    w.at(3000)
    expect((await store.overdueRuns(10)).runs).toEqual([])
    w.at(3800)
    const { runs, nextUs } = await store.overdueRuns(10)
    expect(runs).toMatchObject([{ task: 'timed', workerName: 'x', engineRuns: false, leasedUs: 60_000_000 }])
    expect(w.ms(nextUs)).toBe(3800)
    w.at(5000)
    expect((await w.store.recover()).map((each) => each.task)).toEqual(['own'])
  })

  test('an engine’s claim knows neither', async () => {
    const w = harness()
    const { store } = w
    await store.push([job(w, 'a', { leaseUs: 1_000_000, timeoutUs: 500_000 })], [])
    await claim(w, await enlist(w, 'x'), 10, 1000)
    w.at(1000)
    await w.store.recover()
    await w.claim({ leaseMs: 30_000 })
    w.at(20_000)
    expect((await store.overdueRuns(10)).runs).toEqual([])
    expect(await w.store.recover()).toEqual([])
  })

  test('failures, lost leases among them, are kept in order; push-backs and given back runs are none', async () => {
    const w = harness()
    const { store } = w
    const a = job(w, 'a')
    await store.push([{ ...a, maxAttempts: 9 }], [])
    const worker = await enlist(w, 'x')
    const run = async (): Promise<{ seq: number; attempt: number }> => {
      const [started] = (await claim(w, worker)).jobs
      return { seq: started?.seq ?? 0, attempt: started?.attempt ?? 0 }
    }
    await w.store.settle(worker, { ...(await run()), kind: 'retry', delayUs: 0, error: FAILURE })
    await w.store.settle(worker, { ...(await run()), kind: 'give-back' })
    await run()
    w.at(1000)
    await w.store.recover()
    await w.store.settle(worker, { ...(await run()), kind: 'discard', error: { ...FAILURE, type: 'T' } })
    expect((await store.details(a.id))?.errors).toMatchObject([
      { code: FAILURE.code, attempt: 1, atUs: w.us(0) },
      { code: 'lease.lost', attempt: 2, atUs: w.us(1000) },
      { code: FAILURE.code, type: 'T', attempt: 3 },
    ])
  })

  test('of many failures the last 25 are kept', async () => {
    const w = harness()
    const a = job(w, 'a')
    await w.store.push([{ ...a, maxAttempts: 30 }], [])
    const worker = await enlist(w, 'x')
    for (let attempt = 1; attempt <= 27; attempt++) {
      const seq = (await claim(w, worker)).jobs[0]?.seq ?? 0
      await w.store.settle(worker, { seq, attempt, kind: 'retry', delayUs: 0, error: FAILURE })
    }
    const { errors = [] } = (await w.store.details(a.id)) ?? {}
    expect(errors.map((each) => each.attempt)).toEqual(Array.from({ length: 25 }, (_, i) => i + 3))
  })

  test('the dead letter holds what was given up and is to be kept, until it is retried or removed', async () => {
    const w = harness()
    const { store } = w
    const jobs = [job(w, 'a', { deadLetter: true }), job(w, 'b'), job(w, 'c', { deadLetter: true })]
    await store.push(jobs, [])
    const worker = await enlist(w, 'x')
    for (const { seq, attempt } of (await claim(w, worker)).jobs)
      await w.store.settle(worker, { seq, attempt, kind: 'discard', error: FAILURE })
    const dead = async (): Promise<string[]> =>
      (await store.findDetails({ deadLetter: true, offset: 0, limit: 10, oldestFirst: true })).jobs.map(
        (each) => each.task,
      )
    expect(await dead()).toEqual(['a', 'c'])
    await w.store.retry(jobs[0]?.id ?? '')
    expect(await dead()).toEqual(['c'])
    expect(await store.remove(jobs[2]?.id ?? '')).toBe(true)
    expect(await store.remove(jobs[0]?.id ?? '')).toBe(false)
    expect(await dead()).toEqual([])
  })

  test('jobs are found by state, queue, task and age, in pages with their number', async () => {
    const w = harness()
    const { store } = w
    const spec = { queue: 't/q' }
    await store.push([job(w, 'a'), job(w, 'b', {}, spec), job(w, 'b', {}, spec), job(w, 'c')], [])
    const page = { offset: 0, limit: 1 }
    expect(await store.findDetails({ ...page, queuePrefix: 't/' })).toMatchObject({ total: 2, jobs: [{ task: 'b' }] })
    expect(await store.findDetails({ ...page, queueWithout: '/' })).toMatchObject({ total: 2, jobs: [{ task: 'c' }] })
    expect(await store.findDetails({ ...page, task: 'b', queue: 'q' })).toMatchObject({ total: 0, jobs: [] })
    expect(await store.findDetails({ ...page, offset: 1, states: ['available'], oldestFirst: true })).toMatchObject({
      total: 4,
      jobs: [{ task: 'b' }],
    })
    expect(await store.findDetails({ ...page, sinceMs: w.clock.now() + 1000 })).toMatchObject({ total: 0 })
  })
}

function remoteWorkers(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('keep their number and what they were told, and are alive for as long as they were last heard of', async () => {
    const w = harness()
    const { store } = w
    const worker = await enlist(w, 'x')
    expect(await store.setDirective('x', 'quiet')).toBe(true)
    expect(await store.setDirective('y', 'quiet')).toBe(false)
    w.at(30_000)
    expect(await store.registerWorker({ name: 'x', queues: [], aliveUs: 60_000_000, about: '{"a":1}' })).toEqual({
      worker,
      directive: 'quiet',
    })
    const record = async (): Promise<unknown> => (await store.workers()).find((each) => each.name === 'x')
    expect(await record()).toMatchObject({ queues: ['q'], alive: true, about: '{"a":1}', active: 0 })
    w.at(90_001)
    expect(await record()).toMatchObject({ alive: false })
    expect(await store.deregisterWorker('x')).toBe(true)
    expect(await record()).toBeUndefined()
  })

  test('are counted while they are alive, and found by name for longer', async () => {
    const w = harness()
    for (const name of ['acme/a', 'acme/b', 'beta/a', 'c']) await enlist(w, name)
    const counted = async (folder: string, ...some: string[]): Promise<unknown> => {
      const { total, among } = await w.store.names('workers', folder, some, 10)
      return [total, among.toSorted()]
    }
    expect(await counted('acme', 'acme/a', 'acme/x', 'beta/a')).toEqual([2, ['acme/a', 'beta/a']])
    expect(await counted('', 'c')).toEqual([1, ['c']])
    w.at(50_000)
    await enlist(w, 'acme/b')
    w.at(60_001)
    expect(await counted('acme', 'acme/a', 'acme/b', 'acme/x')).toEqual([1, ['acme/a', 'acme/b']])
  })

  test('that are silent are forgotten beyond the latest 1,000 of each tenant', async () => {
    const w = harness()
    await enlist(w, 'beta/a')
    const many = Array.from({ length: 1030 }, (_, n) => `acme/${n}`)
    await Promise.all(many.slice(0, 3).map((name) => enlist(w, name)))
    w.at(1)
    await Promise.all(many.slice(3).map((name) => enlist(w, name)))
    w.at(90_000)
    const leftBeside = async (comes: string): Promise<string[]> => {
      await enlist(w, comes)
      return (await w.store.workers()).flatMap(({ name }) => name ?? [])
    }
    const ofAcme = (names: readonly string[]): string[] => names.filter((name) => name.startsWith('acme/'))
    // None that comes waits for the removal of many.
    expect(ofAcme(await leftBeside('c'))).toHaveLength(1010)
    const left = await leftBeside('d')
    expect(ofAcme(left)).toHaveLength(1000)
    expect(['beta/a', 'c', many.at(-1)].every((name) => left.includes(name!))).toBe(true)
    expect(many.slice(0, 3).filter((name) => left.includes(name))).toEqual([])
  })

  test('claim together: each gets its slots in turn, and all that is stored of its jobs as they start', async () => {
    const w = harness()
    const { store } = w
    await w.define({ c: { concurrency: 9 } })
    const [x, y, z] = [await enlist(w, 'x'), await enlist(w, 'y'), await enlist(w, 'z')]
    const terms = { leaseUs: 7_000_000, timeoutUs: 3_000_000, deadLetter: true }
    const limited = { limits: ['c'], priority: -1, expiresAtMs: w.clock.now() + 60_000 }
    await store.push([job(w, 'a', {}, { attempts: 3 })], [])
    await w.chain('s1', 's2')
    const earlier = await claim(w, x, 2)
    const run = (name: string): Run => earlier.jobs.find(({ task }) => task === name)!
    expect(await store.noteProgress(earlier.jobs.find(({ task }) => task === 'a')!.id, '{"progress":0.5}')).toBe(true)
    await store.settle(x, { ...runOf(run('a')), kind: 'retry', delayUs: 0, error: FAILURE })
    await store.settle(x, { ...runOf(run('s1')), kind: 'complete', result: '"one"' })
    await store.push([job(w, 'b', terms), job(w, 'c', {}, limited)], [])
    w.at(10)
    const takers = [x, y, z].map((worker, n) => ({
      worker,
      name: 'xyz'[n]!,
      slots: n === 1 ? 2 : 1,
      claimId: uuidv7(),
    }))
    const { jobs, details, served } = await store.claim(() => ({
      worker: x,
      leaseUs: 1_000_000,
      remote: true,
      takers,
      queues: [{ queue: 'q', slots: 4 }],
    }))
    expect(served).toBe(3)
    expect(jobs.map(({ task }) => task).toSorted()).toEqual(['a', 'b', 'c', 's2'])
    expect(details!.map(({ id, worker }) => [id, worker])).toEqual(jobs.map(({ id }, n) => [id, [x, y, y, z][n]]))
    for (const [n, told] of details!.entries()) {
      const { parentResults, ...rest } = told
      expect(rest).toEqual(await store.details(jobs[n]!.id))
      expect(parentResults).toEqual(told.task === 's2' ? ['"one"'] : undefined)
    }
    expect(await store.releaseClaims([takers[1]!])).toMatchObject({ jobs: 2, claimIds: [takers[1]!.claimId] })
    expect((await store.details(jobs[0]!.id))?.state).toBe('active')
    expect((await store.details(jobs[1]!.id))?.state).toBe('available')
  })

  test('claim one by one where a limit has a budget for each of them', async () => {
    const w = harness()
    await w.define({ own: { concurrency: 1, scope: 'worker' } })
    const [x, y] = [await enlist(w, 'x'), await enlist(w, 'y')]
    await w.store.push(
      ['a', 'b', 'c'].map((task) => job(w, task, {}, { limits: ['own'] })),
      [],
    )
    const both = [x, y].map((worker, n) => ({ worker, name: 'xy'[n]!, slots: 2, claimId: uuidv7() }))
    const take = async (takers: typeof both): Promise<unknown> => {
      const queues = [{ queue: 'q', slots: takers.length * 2 }]
      const worker = takers[0]!.worker
      const { details, served } = await w.store.claim(() => ({ worker, leaseUs: 1e6, remote: true, takers, queues }))
      return [served, details!.map(({ task, worker: of }) => [task, of])]
    }
    expect(await take(both)).toEqual([1, [['a', x]]])
    expect(await take(both.slice(1))).toEqual([1, [['b', y]]])
    expect(await take(both)).toEqual([1, []])
  })

  test('have no process here: a recovery leaves their jobs alone until the lease is over', async () => {
    const w = harness()
    await w.store.push([job(w, 'a')], [])
    const worker = await enlist(w, 'x')
    const [run] = (await claim(w, worker, 1, 100_000)).jobs
    w.at(99_999)
    expect(await w.store.recover()).toEqual([])
    const { seq = 0, attempt = 0 } = run ?? {}
    expect(await w.store.settle(worker, { seq, attempt, kind: 'complete', result: null })).toMatchObject({
      kind: 'settled',
    })
  })

  test('hold the line of a shared bucket for their queues only while they are alive', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('far', { limits: ['r'], queue: 'far', priority: 9 }, 2)
    await claim(w, await enlist(w, 'x', ['far']), 2, 1000, 'far')
    await w.add('near', { limits: ['r'] })
    await w.claim()
    w.at(1000)
    expect((await w.claim()).jobs).toEqual([])
    w.at(60_001)
    await w.recover()
    expect((await w.claim()).jobs).toHaveLength(1)
  })
}

function queues(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('that are paused are handed out to no worker, and delay no other in a shared wait list', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.store.join(['p'], 1e12)
    await w.add('p', { limits: ['r'], queue: 'p', priority: 9 })
    await w.add('q', { limits: ['r'] })
    await w.store.pauseQueue('p', true)
    expect((await w.claim({ queues: { p: 5, q: 5 } })).jobs.map((each) => each.task)).toEqual(['q'])
    await w.store.pauseQueue('p', false)
    w.at(1000)
    expect((await w.claim({ queues: { p: 5, q: 5 } })).jobs.map((each) => each.task)).toEqual(['p'])
    expect(await w.store.queues()).toMatchObject([{ name: 'p', paused: false }, { name: 'q' }])
  })

  test('that were given a limit hold all starts to it, by any claimer', async () => {
    const w = harness()
    await w.define({ r: { rate: 2, per: '1s' } })
    await w.add('a', {}, 5)
    await w.store.limitQueue('q', 'r')
    expect((await w.claim({ slots: 9 })).jobs).toHaveLength(2)
    expect((await claim(w, await enlist(w, 'x'))).jobs).toHaveLength(0)
    await w.store.limitQueue('q', null)
    expect((await w.claim({ slots: 9 })).jobs).toHaveLength(3)
  })

  test('are counted by state', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.add('b', { queue: 'p', runAtMs: w.clock.now() + 1000 })
    await w.claim({ slots: 1 })
    const counts = await w.store.queueCounts()
    const inOrder = counts.toSorted((one, other) => one.oldest - other.oldest)
    expect(inOrder.map(({ queue, state, jobs }) => [queue, state, jobs])).toEqual([
      ['q', 'active', 1],
      ['q', 'available', 2],
      ['p', 'scheduled', 1],
    ])
    expect(await w.store.queueCounts('p')).toHaveLength(1)
    await w.complete('a1')
    expect(await w.store.endedRuns(w.us(-1))).toEqual({ completed: 1, discarded: 0 })
  })

  test.each([2, 12])(
    '%d of them are counted as their jobs are shown, whatever these wait for and however they ended',
    async (n) => {
      const w = harness()
      await w.define({
        r: { rate: 1, per: '1s' },
        off: { rate: 1, per: '10s', onLimit: 'reschedule' },
        none: { concurrency: 0 },
      })
      const queues = Array.from({ length: n }, (_, i) => `q${i}`)
      for (const queue of queues) {
        const of = (name: string): string => `${queue}-${name}`
        await w.add(of('done'), { queue })
        await w.add(of('failed'), { queue })
        await w.add(of('again'), { queue })
        await w.add(of('runs'), { queue })
        await w.claim({ queues: { [queue]: 4 } })
        await w.complete(of('done'))
        await w.settle(of('failed'), { kind: 'discard', error: FAILURE })
        await w.retry(of('again'), 60_000)
        await w.add(of('gone'), { queue })
        await w.cancel(of('gone'))
        await w.add(of('later'), { queue, runAtMs: w.clock.now() + 60_000 })
        await w.add(of('open'), { queue }, 2)
        await w.add(of('held'), { queue, limits: ['none'] }, 3)
        await w.add(of('off'), { queue, limits: ['off'] }, 4)
        await w.store.push([{ ...job(w, of('asleep'), { pending: true }), queue }], [])
      }
      await w.claim({ queues: Object.fromEntries(queues.map((queue) => [queue, 1])) })
      const shown = await w.store.list({ limit: 1000 })
      const tally = new Map<string, number>()
      for (const { queue, state } of shown) tally.set(`${queue} ${state}`, (tally.get(`${queue} ${state}`) ?? 0) + 1)
      expect(new Set(shown.map(({ state }) => state)).size).toBe(8)
      const counted = await w.store.queueCounts()
      expect(new Map(counted.map(({ queue, state, jobs }) => [`${queue} ${state}`, jobs]))).toEqual(tally)
      const one = counted.filter(({ queue }) => queue === 'q1')
      expect(await w.store.queueCounts('q1')).toEqual(expect.arrayContaining(one))
      expect(await w.store.queueCounts('q1')).toHaveLength(one.length)
      expect(await w.store.queueCounts('nowhere')).toEqual([])
    },
  )

  test('settings are kept under their names', async () => {
    const { store } = harness()
    await store.keepSetting('pool:a', '1')
    await store.keepSetting('pool:b', '2')
    await store.keepSetting('pool:a', '3')
    await store.keepSetting('pool:b', null)
    expect(await store.settings('pool:')).toEqual([{ name: 'pool:a', value: '3' }])
    expect(await store.settings('other:')).toEqual([])
  })

  test('changes are kept on record, by tenant, newest first', async () => {
    const { store } = harness()
    const entry = (who: string, tenant = ''): AuditEntry => ({
      atMs: 1_767_225_600_000,
      who,
      tenant,
      action: 'pauseQueue',
      subject: '/q/pause',
      detail: '{"a":"\\u0000"}',
    })
    for (const [who, tenant] of [
      ['a', ''],
      ['b', 'acme'],
      ['c', 'acme'],
    ] as const)
      await store.audit(entry(who, tenant))
    const all = await store.auditTrail({ before: null, tenant: null, limit: 10 })
    expect(all.map(({ who }) => who)).toEqual(['c', 'b', 'a'])
    expect(all[2]).toMatchObject(entry('a'))
    const [latest] = all
    const own = { before: latest?.id ?? 0, tenant: 'acme', limit: 1 }
    expect(await store.auditTrail(own)).toMatchObject([{ who: 'b' }])
  })

  test('an emptied store has nothing left, and goes on', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 2)
    await w.store.keepSetting('x', '1')
    await w.store.clear()
    expect(await w.store.list({})).toEqual([])
    expect(await w.store.limits()).toEqual([])
    expect(await w.store.settings('')).toEqual([])
    await w.add('b')
    expect((await w.claim()).jobs).toHaveLength(1)
  })
}
