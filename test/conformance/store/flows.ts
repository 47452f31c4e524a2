import { uuidv7 } from 'uuidv7'
import * as fc from '../../properties.ts'
import { describe, expect, test } from 'vitest'
import { type FlowQuery, MAX_PARENT_RESULTS_BYTES } from '../../../src/jobs/flow.ts'
import type { FlowJob } from '../../../src/jobs/new-flow.ts'
import { RETENTION, type StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, StoreHarness } from './store-harness.ts'

const DISCARD = { kind: 'discard', error: FAILURE } as const
const HOUR_MS = 3_600_000

/** Jobs that wait for each other. */
export function flows(backend: StoreBackend): void {
  describe('chains', () => chains(backend))
  describe('groups and batches', () => groups(backend))
  describe('every way to end', () => ends(backend))
  describe('cancelling', () => cancelling(backend))
  describe('manual retry', () => manualRetry(backend))
  describe('results', () => results(backend))
  describe('graphs', () => graphs(backend))
  describe('keeping', () => keeping(backend))
}

function chains(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a step starts when the one before it has completed, and the last one ends the chain', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c')
    expect(await w.states('a', 'b', 'c')).toEqual(['available', 'pending', 'pending'])
    expect(await w.start()).toEqual(['a'])
    expect(await w.start()).toEqual([])
    await w.complete('a')
    expect(await w.tally(id)).toEqual(['running', 1, 0, 0])
    expect(await w.start()).toEqual(['b'])
    await w.complete('b')
    expect(await w.start()).toEqual(['c'])
    expect((await w.flowOf(id)).finishedUs).toBeNull()
    w.at(5)
    await w.complete('c')
    expect(await w.flowOf(id)).toMatchObject({ state: 'completed', completed: 3, finishedUs: w.us(5) })
  })

  test('a flow reads back as it was started, and its jobs say where they stand in it', async () => {
    const w = harness()
    w.at(3)
    const flow = { ...w.newFlow({ kind: 'batch', jobs: { a: {}, b: {} }, callbacks: { failure: 'f' } }), name: 'n' }
    await w.store.startFlow({ ...flow, extra: '{"meta":{"x":1}}' })
    expect(await w.store.getFlow(flow.id)).toEqual({
      seq: expect.any(Number) as number,
      id: flow.id,
      kind: 'batch',
      name: 'n',
      state: 'running',
      total: 2,
      completed: 0,
      discarded: 0,
      cancelled: 0,
      createdUs: w.us(3),
      finishedUs: null,
      extra: '{"meta":{"x":1}}',
      key: null,
      hash: null,
      generation: 0,
      parent: null,
      parentStep: null,
      owner: null,
      error: null,
    })
    expect((await w.get('b')).flow).toEqual({ id: flow.id, node: 1, callback: null })
    expect((await w.get('f')).flow).toEqual({ id: flow.id, node: 3, callback: 'failure' })
    expect(await w.store.getFlow(uuidv7())).toBeNull()
  })

  test('a flow whose queues are of one tenant is that tenant’s', async () => {
    const w = harness()
    const start = async (...queues: readonly string[]): Promise<string> => {
      const { nodes, ...flow } = w.newFlow({ kind: 'batch', jobs: { a: {}, b: {} }, callbacks: { failure: 'f' } })
      const inQueue = <T extends FlowJob>(each: T, at: number): T => ({
        ...each,
        job: { ...each.job, id: uuidv7(), queue: queues[at] ?? queues[0]! },
      })
      const callbacks = { failure: inQueue(flow.callbacks.failure!, 2) }
      await w.store.startFlow({ ...flow, id: uuidv7(), nodes: nodes.map(inQueue), callbacks })
      return (await w.store.flows({ limit: 1 }))[0]!.id
    }
    const one = await start('acme/q')
    const several = await start('acme/q', 'acme/r')
    const called = await start('acme/q', 'acme/q', 'acme/r')
    const mixed = await start('acme/q', 'beta/q')
    const free = await start('acme/q', 'acme/q', 'q')
    const none = await start('q')
    const ownerOf = async (id: string): Promise<unknown> => (await w.flowOf(id)).owner
    expect(await ownerOf(one)).toEqual({ tenant: 'acme', queue: 'q' })
    // Only who may name every queue sees it.
    for (const id of [several, called]) expect(await ownerOf(id)).toEqual({ tenant: 'acme', queue: '' })
    for (const id of [mixed, free, none]) expect(await ownerOf(id)).toBeNull()
    const listed = async (query: FlowQuery): Promise<string[]> => (await w.store.flows(query)).map(({ id }) => id)
    expect(await listed({ tenant: 'acme' })).toEqual([called, several, one])
    expect(await listed({ tenant: 'acme', queues: ['q'] })).toEqual([one])
    expect([await listed({ tenant: 'beta' }), await listed({ tenant: '' })]).toEqual([[], []])
    // Its queues are on record, also those of jobs that wait.
    expect((await w.store.names('queues', 'acme', ['acme/r'], 10)).among).toEqual(['acme/r'])
  })

  test('a step that is discarded ends the chain: those behind it are cancelled and never run', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c', 'd')
    await w.start()
    await w.complete('a')
    await w.start()
    const answer = await w.settle('b', DISCARD)
    const cancelled = ['c', 'd'].map((name) => ({ id: w.id(name), task: name, queue: 'q' }))
    const news = { id, kind: 'chain', name: null, ended: 'failed', activated: [], cancelled, discarded: [] }
    expect(answer).toEqual({ kind: 'settled', state: 'discarded', flow: news })
    expect(await w.states('a', 'b', 'c', 'd')).toEqual(['completed', 'discarded', 'cancelled', 'cancelled'])
    expect((await w.get('c')).error?.code).toBe('flow.stopped')
    expect(await w.tally(id)).toEqual(['failed', 1, 1, 2])
    expect(await w.start()).toEqual([])
  })

  test('a step that fails and is retried holds the chain', async () => {
    const w = harness()
    const id = await w.chain('a', 'b')
    await w.start()
    await w.retry('a', 50)
    expect(await w.start()).toEqual([])
    expect(await w.tally(id)).toEqual(['running', 0, 0, 0])
    w.at(50)
    expect(await w.start()).toEqual(['a'])
    await w.complete('a')
    expect(await w.start()).toEqual(['b'])
  })

  test('a settlement that comes too late moves nothing', async () => {
    const w = harness()
    const id = await w.chain('a', 'b')
    await w.claim({ leaseMs: 10 })
    w.at(20)
    await w.recover()
    expect(await w.settle('a')).toEqual({ kind: 'lost' })
    expect(await w.tally(id)).toEqual(['running', 0, 0, 0])
    expect(await w.states('b')).toEqual(['pending'])
  })

  test('a step waits for its own limits, and from its time on: its maxWait begins then', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', maxWait: '2s' } })
    await w.flow({ kind: 'chain', jobs: { a: {}, b: { limits: ['r'] } } })
    await w.start()
    w.at(10_000)
    await w.add('x', { limits: ['r'] })
    expect(await w.start()).toEqual(['x'])
    await w.complete('a')
    expect(await w.wake()).toBe(11_000)
    w.at(11_000)
    expect(await w.start()).toEqual(['b'])
  })

  test('a step goes to its lane even if that was forgotten while it waited for its time', async () => {
    const w = harness()
    await w.define({ r: { rate: 9, per: '1s' } })
    await w.flow({ kind: 'chain', jobs: { a: {}, b: { limits: ['r:k*3'] } } })
    await w.start()
    w.at(10 * 60_000)
    for (let i = 0; i < 3; i++) await w.store.prune(100)
    await w.complete('a')
    const { jobs } = await w.claim()
    expect(jobs.map(({ task, uses }) => [task, uses])).toEqual([['b', [{ limit: 'r', key: 'k', weight: 3 }]]])
  })

  test('a step keeps the place that its flow gave it: flows end in the order in which they began', async () => {
    const w = harness()
    await w.chain('a1', 'a2')
    await w.chain('b1', 'b2')
    expect(await w.start(1)).toEqual(['a1'])
    await w.complete('a1')
    expect(await w.start(1)).toEqual(['a2'])
  })

  test('a delay counts from when the time of the job comes, a time of start is as it is', async () => {
    const w = harness()
    const at = w.clock.now() + 700
    await w.flow({ kind: 'chain', jobs: { a: { delayMs: 100 }, b: { delayMs: 100 }, c: { runAtMs: at } } })
    expect(await w.states('a', 'b', 'c')).toEqual(['scheduled', 'pending', 'pending'])
    w.at(100)
    expect(await w.start()).toEqual(['a'])
    w.at(200)
    await w.complete('a')
    expect(await w.states('b')).toEqual(['scheduled'])
    w.at(299)
    expect(await w.start()).toEqual([])
    w.at(300)
    expect(await w.start()).toEqual(['b'])
    await w.complete('b')
    w.at(699)
    expect(await w.start()).toEqual([])
    w.at(700)
    expect(await w.start()).toEqual(['c'])
  })

  test('a pending job waits for no budget, and is explained as pending', async () => {
    const w = harness()
    await w.chain('a', 'b')
    const { job, position, waitsOn, expectedStartUs } = await w.explain('b')
    expect([job.state, position, waitsOn, expectedStartUs]).toEqual(['pending', null, null, null])
  })
}

function groups(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('all jobs of a group may start at once; one that fails harms no other, and the group fails when all have ended', async () => {
    const w = harness()
    const id = await w.flow({ jobs: { a: {}, b: {}, c: {} } })
    expect(await w.start()).toEqual(['a', 'b', 'c'])
    await w.settle('b', DISCARD)
    await w.complete('a')
    expect(await w.tally(id)).toEqual(['running', 1, 1, 0])
    await w.complete('c')
    expect(await w.tally(id)).toEqual(['failed', 2, 1, 0])
  })

  test('a batch that succeeds calls success and complete, once', async () => {
    const w = harness()
    const callbacks = { success: 's', failure: 'f', complete: 'c' }
    const id = await w.flow({ kind: 'batch', jobs: { a: {}, b: {} }, callbacks })
    await w.start()
    await w.complete('a')
    expect(await w.start()).toEqual([])
    expect(await w.states('s', 'f', 'c')).toEqual(['pending', 'pending', 'pending'])
    const news = (await w.settle('b')) as { flow?: unknown }
    expect(news.flow).toMatchObject({
      ended: 'completed',
      activated: [{ task: 's' }, { task: 'c' }],
      cancelled: [{ task: 'f' }],
    })
    expect(await w.start()).toEqual(['s', 'c'])
    await w.complete('s', 'c')
    expect(await w.start()).toEqual([])
    expect(await w.tally(id)).toEqual(['completed', 2, 0, 0])
  })

  test('a batch in which a job fails calls failure and complete', async () => {
    const w = harness()
    const callbacks = { success: 's', failure: 'f', complete: 'c' }
    await w.flow({ kind: 'batch', jobs: { a: {}, b: {} }, callbacks })
    await w.start()
    await w.settle('a', DISCARD)
    expect(await w.start()).toEqual([])
    await w.complete('b')
    expect(await w.start()).toEqual(['f', 'c'])
    expect(await w.states('s')).toEqual(['cancelled'])
  })

  test('jobs of several flows that are settled together move each its own, and each flow is reported once', async () => {
    const w = harness()
    const callbacks = { complete: 'c' }
    const one = await w.flow({ kind: 'batch', jobs: { a: {}, b: {}, d: {} }, callbacks })
    await w.chain('x', 'y')
    await w.start()
    const answers = await Promise.all(['a', 'b', 'd', 'x'].map((name) => w.settle(name)))
    const told = answers.map((answer) => (answer.kind === 'settled' ? answer.flow?.kind : 'lost'))
    expect(told).toEqual(['batch', undefined, undefined, 'chain'])
    expect(await w.tally(one)).toEqual(['completed', 3, 0, 0])
    expect(await w.start()).toEqual(['c', 'y'])
  })

  test('the flow of a callback that fails has ended as its jobs did', async () => {
    const w = harness()
    const id = await w.flow({ kind: 'batch', jobs: { a: {} }, callbacks: { success: 's' } })
    await w.start()
    await w.complete('a')
    await w.start()
    await w.settle('s', DISCARD)
    expect(await w.tally(id)).toEqual(['completed', 1, 0, 0])
  })
}

function ends(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const batch = { kind: 'batch', jobs: { a: {} }, callbacks: { failure: 'f', success: 's' } } as const

  test('a job that is cancelled while it waits', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c')
    expect(await w.store.cancel(w.id('a'))).toMatchObject({ kind: 'cancelled', flow: { id, ended: 'failed' } })
    expect(await w.tally(id)).toEqual(['failed', 0, 0, 3])
  })

  test('a job that is cancelled while it is pending stops those behind it, and no other', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c')
    await w.cancel('b')
    expect(await w.states('a', 'b', 'c')).toEqual(['available', 'cancelled', 'cancelled'])
    expect(await w.tally(id)).toEqual(['running', 0, 0, 2])
    await w.start()
    await w.complete('a')
    expect(await w.tally(id)).toEqual(['failed', 1, 0, 2])
  })

  test('a job that is cancelled while it runs', async () => {
    const w = harness()
    const id = await w.flow(batch)
    await w.start()
    await w.cancel('a')
    await w.retry('a')
    expect(await w.tally(id)).toEqual(['failed', 0, 0, 1])
    expect(await w.start()).toEqual(['f'])
  })

  test('a job that is cancelled, and given back before it has started', async () => {
    const w = harness()
    const id = await w.flow(batch)
    const { jobs } = await w.claim()
    await w.cancel('a')
    await w.store.release(w.worker, jobs)
    expect(await w.tally(id)).toEqual(['failed', 0, 0, 1])
  })

  test('a job whose worker died on its last attempt', async () => {
    const w = harness()
    const id = await w.flow({ ...batch, jobs: { a: { attempts: 1 } } })
    await w.claim({ leaseMs: 10 })
    w.at(20)
    expect(await w.store.recover()).toMatchObject([{ task: 'a', state: 'discarded', flow: { id, ended: 'failed' } }])
    expect(await w.start()).toEqual(['f'])
  })

  test('a job that is taken back and runs again has not ended', async () => {
    const w = harness()
    const id = await w.flow(batch)
    await w.claim({ leaseMs: 10 })
    w.at(20)
    expect(await w.recover()).toEqual([['a', 'available']])
    expect(await w.tally(id)).toEqual(['running', 0, 0, 0])
  })

  test('a job that expires before it starts', async () => {
    const w = harness()
    const id = await w.flow({ ...batch, jobs: { a: { expiresAtMs: w.clock.now() + 10 } } })
    w.at(20)
    const claim = await w.claim()
    expect([claim.rejected.map(({ task }) => task), claim.flows]).toMatchObject([['a'], [{ id, ended: 'failed' }]])
    expect(claim.nextWakeUs).toBe(w.us(20))
    // In the same claim, or in the one that it asks for.
    expect([...claim.jobs.map(({ task }) => task), ...(await w.start())]).toEqual(['f'])
  })

  test('a step that had expired when its time came', async () => {
    const w = harness()
    const id = await w.flow({ kind: 'chain', jobs: { a: {}, b: { expiresAtMs: w.clock.now() + 10 } } })
    await w.start()
    w.at(20)
    await w.complete('a')
    w.at(21)
    expect((await w.claim()).rejected.map(({ task, reason }) => [task, reason])).toEqual([['b', 'expired']])
    expect(await w.tally(id)).toEqual(['failed', 1, 1, 0])
  })

  test('a job that a limit drops; what comes after it in the same lane is not forgotten', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', onLimit: 'drop' } })
    await w.add('x', { limits: ['r'] })
    const flow = w.newFlow({ ...batch, jobs: { a: { limits: ['r'] } } })
    const failure = { job: { ...w.job('g', { limits: ['r'] }), priority: 5 }, delayUs: null }
    await w.store.startFlow({ ...flow, callbacks: { failure } })
    const claim = await w.claim()
    expect(claim.jobs.map(({ task }) => task)).toEqual(['x'])
    expect(claim.rejected.map(({ task }) => task)).toEqual(['a'])
    expect(await w.tally(flow.id)).toEqual(['failed', 0, 1, 0])
    w.at(1000)
    expect(await w.start()).toEqual(['g'])
  })

  test('a job that is too late by the maxWait of its limit', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', maxWait: '1s' } })
    await w.add('x', { limits: ['r'] })
    const id = await w.flow({ ...batch, jobs: { a: { limits: ['r'] } } })
    await w.start()
    w.at(1500)
    await w.claim()
    expect(await w.tally(id)).toEqual(['failed', 0, 1, 0])
  })
}

function cancelling(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('waiting jobs are gone at once, those behind move up, active ones are asked, and no callback is called', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' }, s: { rate: 1, per: '1s' } })
    const jobs = {
      a: {},
      b: { limits: ['r'] },
      c: { limits: ['r'] },
      d: { delayMs: 50 },
      e: { after: ['a'] },
      f: { attempts: 9 },
    }
    const id = await w.flow({ kind: 'batch', jobs, callbacks: { complete: 'x', failure: 'y' } })
    await w.add('z', { limits: ['r'] })
    expect(await w.start()).toEqual(['a', 'b', 'f'])
    await w.retry('f', 10)
    const answer = await w.store.cancelFlow(id)
    expect(answer).toMatchObject({ kind: 'cancelled', news: { ended: 'cancelled', activated: [] } })
    expect(answer.kind === 'cancelled' && answer.requested.toSorted()).toEqual([w.id('a'), w.id('b')].toSorted())
    expect(answer.kind === 'cancelled' && answer.news.cancelled.map(({ task }) => task).toSorted()).toEqual(
      ['c', 'd', 'e', 'f', 'x', 'y'].toSorted(),
    )
    expect(await w.tally(id)).toEqual(['cancelled', 0, 0, 4])
    expect((await w.store.cancellations(w.worker)).length).toBe(2)
    w.at(1000)
    expect(await w.start()).toEqual(['z'])
    await w.complete('a')
    await w.settle('b', { kind: 'cancel' })
    expect(await w.tally(id)).toEqual(['cancelled', 1, 0, 5])
    expect(await w.start()).toEqual([])
  })

  test('the lane behind its heavy job is tried again', async () => {
    const w = harness()
    await w.define({ r: { rate: 4, per: '4s' } })
    await w.add('x', { limits: ['r*4'] })
    const id = await w.flow({ jobs: { a: { limits: ['r*4'] }, b: { limits: ['r*4'] } } })
    await w.add('z', { limits: ['r'] })
    expect(await w.start()).toEqual(['x'])
    expect(await w.wake()).toBe(4000)
    await w.store.cancelFlow(id)
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['z'])
  })

  test('a flow that has ended stays as it is', async () => {
    const w = harness()
    const id = await w.chain('a')
    await w.start()
    await w.complete('a')
    expect(await w.store.cancelFlow(id)).toEqual({ kind: 'finished', state: 'completed' })
    const other = await w.chain('b')
    await w.store.cancelFlow(other)
    expect(await w.store.cancelFlow(other)).toEqual({ kind: 'finished', state: 'cancelled' })
    expect(await w.store.cancelFlow(uuidv7())).toEqual({ kind: 'missing' })
  })
}

function manualRetry(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a chain that failed goes on from the step that is retried', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c', 'd')
    await w.start()
    await w.complete('a')
    await w.start()
    await w.settle('b', DISCARD)
    expect(await w.store.retry(w.id('b'))).toBe(true)
    expect(await w.flowOf(id)).toMatchObject({ state: 'running', discarded: 0, cancelled: 0, finishedUs: null })
    for (const step of ['b', 'c', 'd']) {
      expect(await w.start()).toEqual([step])
      await w.complete(step)
    }
    expect(await w.tally(id)).toEqual(['completed', 4, 0, 0])
  })

  test('what somebody cancelled stays cancelled, with all that waits for it', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c', 'd')
    await w.cancel('c')
    await w.start()
    await w.settle('a', DISCARD)
    await w.store.retry(w.id('a'))
    expect(await w.states('a', 'b', 'c', 'd')).toEqual(['available', 'pending', 'cancelled', 'cancelled'])
    expect(await w.tally(id)).toEqual(['running', 0, 0, 2])
  })

  test('a job of a group that still runs counts again', async () => {
    const w = harness()
    const id = await w.flow({ jobs: { a: {}, b: {} } })
    await w.start()
    await w.settle('a', DISCARD)
    await w.store.retry(w.id('a'))
    await w.complete('b')
    expect(await w.tally(id)).toEqual(['running', 1, 0, 0])
    await w.start()
    await w.complete('a')
    expect(await w.tally(id)).toEqual(['completed', 2, 0, 0])
  })

  test('a batch that is opened again calls only those back that it has not called', async () => {
    const w = harness()
    const callbacks = { success: 's', failure: 'f', complete: 'c' }
    await w.flow({ kind: 'batch', jobs: { a: {} }, callbacks })
    await w.start()
    await w.settle('a', DISCARD)
    expect(await w.start()).toEqual(['f', 'c'])
    await w.complete('f', 'c')
    await w.store.retry(w.id('a'))
    expect(await w.start()).toEqual(['a'])
    await w.complete('a')
    expect(await w.start()).toEqual(['s'])
    expect(await w.states('f', 'c')).toEqual(['completed', 'completed'])
  })

  test('a job of a flow that was cancelled runs by itself', async () => {
    const w = harness()
    const id = await w.flow({ jobs: { a: {}, b: {} } })
    await w.start(1)
    await w.settle('a', DISCARD)
    await w.store.cancelFlow(id)
    expect(await w.store.retry(w.id('a'))).toBe(true)
    expect(await w.start()).toEqual(['a'])
    await w.complete('a')
    expect(await w.tally(id)).toEqual(['cancelled', 1, 0, 1])
  })
}

function results(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const parents = async (w: StoreHarness): Promise<unknown> =>
    Object.fromEntries((await w.claim()).jobs.map(({ task, flow }) => [task, flow?.parentResults]))

  test('a step is handed the results of all steps before it, in their order', async () => {
    const w = harness()
    await w.chain('a', 'b', 'c')
    expect(await parents(w)).toEqual({ a: [] })
    await w.settle('a', { kind: 'complete', result: '{"x":1}' })
    expect(await parents(w)).toEqual({ b: ['{"x":1}'] })
    await w.settle('b', { kind: 'complete', result: null })
    expect(await parents(w)).toEqual({ c: ['{"x":1}', null] })
  })

  test('a callback is handed the results of all jobs in their order, null where one failed', async () => {
    const w = harness()
    const callbacks = { success: 's', failure: 'f', complete: 'z' }
    const id = await w.flow({ kind: 'batch', jobs: { a: {}, b: {}, c: {} }, callbacks })
    expect(await parents(w)).toEqual({ a: [], b: [], c: [] })
    await w.settle('c', { kind: 'complete', result: '3' })
    await w.settle('b', DISCARD)
    await w.settle('a', { kind: 'complete', result: '1' })
    const { jobs } = await w.claim()
    expect(jobs.map(({ flow }) => flow?.node)).toEqual([4, 5])
    expect(jobs[1]?.flow).toEqual({ id, node: 5, callback: 'complete', parentResults: ['1', null, '3'] })
  })

  test('a job is handed the results of those that it waited for, directly or not, and of no other', async () => {
    const w = harness()
    await w.flow({ jobs: { a: {}, b: {}, c: { after: ['b'] }, d: { after: ['c'] } } })
    await w.start()
    for (const [name, result] of [
      ['a', '1'],
      ['b', '2'],
    ] as const)
      await w.settle(name, { kind: 'complete', result })
    await w.start()
    await w.settle('c', { kind: 'complete', result: '3' })
    expect(await parents(w)).toEqual({ d: ['2', '3'] })
  })

  test('a job outside of flows is handed nothing', async () => {
    const w = harness()
    await w.add('a')
    expect(await parents(w)).toEqual({ a: undefined })
  })

  test('results too large to be handed on discard the step that waits for them; callbacks run without', async () => {
    const w = harness()
    const big = JSON.stringify('x'.repeat(MAX_PARENT_RESULTS_BYTES / 2))
    const jobs = { a: {}, b: {}, c: { after: ['a', 'b'] }, d: { after: ['c'] }, e: { after: ['a'] } }
    const id = await w.flow({ kind: 'batch', jobs, callbacks: { failure: 'f' } })
    await w.start()
    await w.settle('a', { kind: 'complete', result: big })
    await w.settle('b', { kind: 'complete', result: big })
    expect(await w.states('c', 'd', 'e')).toEqual(['discarded', 'cancelled', 'available'])
    expect((await w.get('c')).error?.code).toBe('flow.results_too_large')
    await w.start()
    await w.complete('e')
    expect(await w.tally(id)).toEqual(['failed', 3, 1, 1])
    expect(await parents(w)).toEqual({ f: null })
  })
}

type End = 'completed' | 'discarded' | 'cancelled'

/** The end of a graph, computed naively: as long as something changes, look at every node. */
function settleGraph(after: readonly (readonly number[])[], ended: ReadonlyMap<number, End>): string[] {
  const states = after.map((_, node): string => ended.get(node) ?? 'pending')
  for (let changed = true; changed;) {
    changed = false
    for (const [node, before] of after.entries()) {
      if (states[node] !== 'pending') continue
      const ahead = before.map((each) => states[each])
      if (ahead.some((state) => state === 'discarded' || state === 'cancelled')) states[node] = 'cancelled'
      else if (ahead.every((state) => state === 'completed')) states[node] = 'available'
      else continue
      changed = true
    }
  }
  return states
}

function graphs(backend: StoreBackend): void {
  const graph = fc
    .array(fc.array(fc.nat(30), { maxLength: 4 }), { minLength: 1, maxLength: 12 })
    .map((rows) => rows.map((row, node) => [...new Set(row.filter((before) => before < node))]))

  test('whatever the graph and however its jobs end, in whichever portions, a job starts when all before it completed, and never else', async () => {
    await fc.assert(
      fc.asyncProperty(graph, fc.infiniteStream(fc.nat(9)), async (after, dice) => {
        const harness = await StoreHarness.open(backend)
        try {
          await expectKept(harness, after, dice)
        } finally {
          await harness.store.close()
        }
      }),
      { numRuns: Math.ceil(60 * (backend.part ?? 1)) },
    )
  })

  /** Starts a flow of this graph and ends its jobs by dice; after each portion every job must stand where the naive graph has it. */
  async function expectKept(
    w: StoreHarness,
    after: readonly (readonly number[])[],
    dice: Iterator<number>,
  ): Promise<void> {
    const roll = (): number => dice.next().value as number
    const jobs = Object.fromEntries(
      after.map((before, node) => [`n${node}`, { after: before.map((each) => `n${each}`) }]),
    )
    const callbacks = { success: 's', failure: 'f', complete: 'c' }
    const id = await w.flow({ kind: 'batch', jobs, callbacks })
    const names = Object.keys(jobs)
    const ended = new Map<number, End>()
    const running = new Set<number>()
    const expected = (): string[] =>
      settleGraph(after, ended).map((state, node) => (running.has(node) && state === 'available' ? 'active' : state))
    expect(await w.states(...names)).toEqual(expected())
    while ((await w.flowOf(id)).state === 'running') {
      for (const name of await w.start({ slots: 1 + roll(), leaseMs: 10 })) running.add(Number(name.slice(1)))
      if (roll() === 8) {
        // Every worker dies; what had attempts left is back, at its old place.
        w.at(w.clock.monotonicUs() / 1000 + 20)
        const lost = await w.recover()
        expect(lost.map(([name]) => String(name)).toSorted()).toEqual([...running].map((node) => `n${node}`).toSorted())
        for (const [name, state] of lost) if (state === 'discarded') ended.set(Number(name?.slice(1)), 'discarded')
        running.clear()
      }
      const ending = [...running].filter(() => roll() < 5)
      await Promise.all(
        ending.map(async (node) => {
          running.delete(node)
          const fails = roll() === 0
          ended.set(node, fails ? 'discarded' : 'completed')
          await w.settle(`n${node}`, fails ? DISCARD : { kind: 'complete', result: String(node) })
        }),
      )
      const waiting = names.findIndex((_, node) => expected()[node] === 'available' || expected()[node] === 'pending')
      if (waiting >= 0 && roll() === 9) {
        await w.cancel(`n${waiting}`)
        ended.set(waiting, 'cancelled')
      }
      expect(await w.states(...names)).toEqual(expected())
    }
    const failed = expected().some((state) => state !== 'completed')
    expect(await w.tally(id)).toEqual([
      failed ? 'failed' : 'completed',
      ...['completed', 'discarded', 'cancelled'].map((end) => expected().filter((state) => state === end).length),
    ])
    expect(await w.start()).toEqual([failed ? 'f' : 's', 'c'])
  }
}

function keeping(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('jobs are stored with their flow, all or none', async () => {
    const w = harness()
    await w.add('x')
    const flow = w.newFlow({ jobs: { a: {}, b: {} } })
    const taken = {
      ...flow,
      nodes: flow.nodes.map((node, i) => (i === 1 ? { ...node, job: { ...node.job, id: w.id('x') } } : node)),
    }
    await expect(w.store.startFlow(taken)).rejects.toThrow()
    expect(await w.store.getFlow(flow.id)).toBeNull()
    expect(await w.start()).toEqual(['x'])
  })

  test('jobs of a flow are kept as long as their flow, and go with it', async () => {
    const w = harness()
    const id = await w.chain('a', 'b')
    await w.start()
    await w.complete('a')
    w.at(RETENTION.discardedUs / 1000 + HOUR_MS)
    await w.store.prune(100)
    expect(await w.start()).toEqual(['b'])
    expect(w.run('b').flow?.parentResults).toEqual([null])
    await w.complete('b')
    w.at(RETENTION.discardedUs / 1000 + HOUR_MS + RETENTION.completedUs / 1000 - 1)
    await w.store.prune(100)
    expect(await w.states('a', 'b')).toEqual(['completed', 'completed'])
    w.at(RETENTION.discardedUs / 1000 + HOUR_MS + RETENTION.completedUs / 1000)
    await w.store.prune(100)
    expect(await w.store.getFlow(id)).toBeNull()
    expect(await w.store.get(w.id('a'))).toBeNull()
    expect(await w.store.get(w.id('b'))).toBeNull()
  })

  test('a large flow is forgotten in portions', async () => {
    const w = harness()
    const jobs = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`j${i}`, {}]))
    const id = await w.flow({ jobs })
    await w.store.cancelFlow(id)
    w.at(RETENTION.cancelledUs / 1000)
    expect(await w.store.prune(10)).toBe(10)
    expect(await w.store.getFlow(id)).not.toBeNull()
    for (let i = 0; i < 3; i++) await w.store.prune(10)
    expect(await w.store.getFlow(id)).toBeNull()
    expect(await w.store.list({ queue: 'q' })).toEqual([])
  })

  test('a flow whose callback has yet to run keeps the results that it needs', async () => {
    const w = harness()
    await w.flow({ kind: 'batch', jobs: { a: {} }, callbacks: { success: 's' } })
    await w.start()
    await w.settle('a', { kind: 'complete', result: '7' })
    w.at(RETENTION.completedUs / 1000 + 1)
    await w.store.prune(100)
    expect(await w.start()).toEqual(['s'])
    expect(w.run('s').flow?.parentResults).toEqual(['7'])
  })

  test('a flow is kept as long as a callback that failed, which may be retried', async () => {
    const w = harness()
    const id = await w.flow({ kind: 'batch', jobs: { a: {} }, callbacks: { success: 's' } })
    await w.start()
    await w.settle('a', { kind: 'complete', result: '7' })
    await w.start()
    await w.settle('s', DISCARD)
    w.at(RETENTION.discardedUs / 1000 - 1)
    await w.store.prune(100)
    expect(await w.store.retry(w.id('s'))).toBe(true)
    expect(await w.start()).toEqual(['s'])
    expect(w.run('s').flow?.parentResults).toEqual(['7'])
    await w.complete('s')
    w.at((RETENTION.discardedUs + RETENTION.completedUs) / 1000)
    await w.store.prune(100)
    expect(await w.store.getFlow(id)).toBeNull()
  })

  test('once its retention is over a flow cannot be opened again', async () => {
    const w = harness()
    await w.chain('a', 'b')
    await w.start()
    await w.settle('a', DISCARD)
    w.at(RETENTION.discardedUs / 1000)
    expect(await w.store.retry(w.id('a'))).toBe(false)
    expect(await w.states('a', 'b')).toEqual(['discarded', 'cancelled'])
  })

  test('flows are listed by state, kind and name, newest first; their jobs in the order of the flow', async () => {
    const w = harness()
    const chain = await w.chain('a', 'b')
    const batch = await w.flow({ kind: 'batch', jobs: { c: {} }, callbacks: { success: 's', complete: 'z' } })
    const named = { ...w.newFlow({ jobs: { d: {} } }), name: 'nightly' }
    await w.store.startFlow(named)
    const ids = async (query: Parameters<StoreHarness['store']['flows']>[0]): Promise<string[]> =>
      (await w.store.flows(query)).map(({ id }) => id)
    expect(await ids({})).toEqual([named.id, batch, chain])
    expect(await ids({ limit: 2 })).toEqual([named.id, batch])
    expect(await ids({ before: (await w.flowOf(batch)).seq })).toEqual([chain])
    expect(await ids({ kind: 'batch' })).toEqual([batch])
    expect(await ids({ name: 'nightly' })).toEqual([named.id])
    await w.store.cancelFlow(chain)
    expect(await ids({ states: ['cancelled'] })).toEqual([chain])
    const jobs = async (query: Parameters<StoreHarness['store']['list']>[0]): Promise<string[]> =>
      (await w.store.list(query)).map(({ task }) => task)
    expect(await jobs({ flow: batch })).toEqual(['c', 's', 'z'])
    expect(await jobs({ flow: batch, afterNode: 0, limit: 1 })).toEqual(['s'])
    expect(await jobs({ flow: chain, states: ['pending'] })).toEqual([])
    expect(await jobs({ flow: uuidv7() })).toEqual([])
  })

  if (backend.reopen)
    test('a flow goes on in another process', async () => {
      const w = harness()
      const id = await w.chain('a', 'b')
      await w.start()
      await w.complete('a')
      const other = await w.reopen(backend)
      expect(await other.start()).toEqual(['b'])
      await other.complete('b')
      expect(await w.tally(id)).toEqual(['completed', 2, 0, 0])
      await other.store.close()
    })
}
