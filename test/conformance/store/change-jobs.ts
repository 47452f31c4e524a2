import { describe, expect, test } from 'vitest'
import type { JobMatch } from '../../../src/jobs/job-filter.ts'
import type { ChangedJobs, JobChange } from '../../../src/store/contract/change-jobs.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

const CANCEL: JobChange = { kind: 'cancel' }
const RETRY: JobChange = { kind: 'retry' }
const DELETE: JobChange = { kind: 'delete' }

/** Makes a change, and compares its size with the count that a dry run gives. */
async function change(w: StoreHarness, what: JobChange, match: JobMatch, limit = 1000): Promise<ChangedJobs> {
  const counted = await w.store.countJobs(match, {}, what)
  const answer = await w.store.changeJobs(what, match, {}, limit)
  expect(answer.changed.length + answer.left.length).toBe(Math.min(counted, limit))
  return answer
}

function namesOf({ changed }: ChangedJobs): string[] {
  return changed.map(({ task, was }) => `${task} ${was}`).toSorted()
}

export function changeJobs(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('cancels what has not ended, and asks what runs to end', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.add('later', { runAtMs: w.clock.now() + 60_000 })
    await w.add('other', { queue: 'p' })
    await w.start(2)
    await w.complete('a1')
    const answer = await change(w, CANCEL, { queue: 'q' })
    expect(namesOf(answer)).toEqual(['a2 active', 'a3 available', 'later scheduled'])
    expect(await w.states('a1', 'a2', 'a3', 'later', 'other')).toEqual([
      'completed',
      'active',
      'cancelled',
      'cancelled',
      'available',
    ])
    expect(await w.store.cancellations(w.worker)).toEqual([w.run('a2').seq])
    expect(namesOf(await change(w, CANCEL, { queue: 'q' }))).toEqual([])
    expect(await w.start()).toEqual([])
  })

  test('cancels the heads of lanes, and what is behind them moves up', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('first', { limits: ['r:k'] }, 3)
    await w.add('behind', { limits: ['r:k'] })
    expect(await w.start()).toEqual(['first1'])
    await change(w, CANCEL, { ids: [w.id('first2'), w.id('first3')] })
    w.at(1000)
    expect(await w.start()).toEqual(['behind'])
  })

  test('retries what was discarded, with new attempts, at its old place', async () => {
    const w = harness()
    await w.add('a', { attempts: 1 }, 3)
    await w.add('later')
    await w.start(3)
    for (const name of ['a1', 'a3']) await w.settle(name, { kind: 'discard', error: FAILURE })
    await w.complete('a2')
    expect(namesOf(await change(w, RETRY, { states: ['discarded'] }))).toEqual(['a1 discarded', 'a3 discarded'])
    expect(await w.get('a1')).toMatchObject({ state: 'available', attempt: 0, error: null, finishedUs: null })
    expect(await w.start()).toEqual(['a1', 'a3', 'later'])
    expect(namesOf(await change(w, RETRY, {}))).toEqual([])
  })

  test('deletes what has ended, and nothing else', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.start(2)
    await w.complete('a1')
    expect(namesOf(await change(w, DELETE, { queue: 'q' }))).toEqual(['a1 completed'])
    expect((await w.store.list({})).map(({ task }) => task)).toEqual(['a3', 'a2'])
  })

  describe('in batches', () => {
    test('goes on behind the last, and never touches what came later', async () => {
      const w = harness()
      await w.add('a', {}, 5)
      const first = await w.store.changeJobs(CANCEL, {}, {}, 2)
      expect(namesOf(first)).toEqual(['a4 available', 'a5 available'])
      await w.add('new')
      const second = await w.store.changeJobs(CANCEL, {}, { before: first.next! }, 2)
      expect(namesOf(second)).toEqual(['a2 available', 'a3 available'])
      const third = await w.store.changeJobs(CANCEL, {}, { before: second.next! }, 2)
      expect([namesOf(third), third.next]).toEqual([['a1 available'], null])
      expect(await w.states('new')).toEqual(['available'])
    })

    test('skips candidates that do not match, and leaves jobs of flows for calls of their own', async () => {
      const w = harness()
      await w.add('no', { extra: { meta: { tag: 'red' } } }, 2)
      await w.add('yes', { extra: { tags: ['red'] } })
      await w.chain('x', 'y')
      const answer = await w.store.changeJobs(CANCEL, { tags: ['red'] }, {}, 1000)
      expect(namesOf(answer)).toEqual(['yes available'])
      const { changed, left } = await w.store.changeJobs(CANCEL, { task: 'x' }, {}, 1000)
      expect([changed, left]).toEqual([[], [{ id: w.id('x'), inFlow: true }]])
      expect(await w.states('x', 'y')).toEqual(['available', 'pending'])
    })

    test('keeps the ended jobs of a flow that still runs', async () => {
      const w = harness()
      await w.chain('x', 'y')
      await w.start()
      await w.complete('x')
      expect(namesOf(await change(w, DELETE, {}))).toEqual([])
      await w.start()
      await w.complete('y')
      expect(namesOf(await change(w, DELETE, {}))).toEqual(['x completed', 'y completed'])
    })
  })

  describe('another queue', () => {
    const to = (queue: string): JobChange => ({ kind: 'place', queue, priority: null })

    test('gets what waits, in its order, with its budgets', async () => {
      const w = harness()
      await w.define({ r: { rate: 1, per: '1s' } })
      await w.add('a', { limits: ['r:k*1'], queue: 'slow' }, 2)
      await w.add('free', { queue: 'slow' })
      await w.add('later', { queue: 'slow', runAtMs: w.clock.now() + 5_000 })
      await w.add('stays')
      expect(namesOf(await change(w, to('q'), { queue: 'slow' }))).toEqual([
        'a1 available',
        'a2 available',
        'free available',
        'later scheduled',
      ])
      expect((await w.start()).toSorted()).toEqual(['a1', 'free', 'stays'])
      expect(await w.start({ queue: 'slow' })).toEqual([])
      w.at(1000)
      expect(await w.start()).toEqual(['a2'])
      w.at(5000)
      expect(await w.start()).toEqual(['later'])
      expect(namesOf(await change(w, to('q'), { queue: 'slow' }))).toEqual([])
    })

    test('closes and opens with the budget of a key that waits in both queues', async () => {
      const w = harness()
      await w.define({ r: { concurrency: 1 } })
      await w.add('runs', { limits: ['r:k'] })
      await w.start()
      await w.add('moved', { limits: ['r:k'], queue: 'p', fairKey: 'f', share: 3 }, 2)
      await w.add('head', { limits: ['r:k'], queue: 'p' })
      expect(await w.start({ queue: 'p' })).toEqual([])
      await change(w, to('q'), { task: 'moved1' })
      await w.complete('runs')
      expect(await w.start({ queues: { q: 9 } })).toEqual(['moved1'])
      await w.complete('moved1')
      expect((await w.start({ queues: { p: 9 } })).length).toBe(1)
    })

    test('gets no job of a flow, nor one that runs or has ended', async () => {
      const w = harness()
      await w.add('a', {}, 2)
      await w.start(1)
      const flow = await w.chain('x', 'y')
      expect(namesOf(await change(w, to('p'), { flow }))).toEqual([])
      expect(namesOf(await change(w, to('p'), { queue: 'q' }))).toEqual(['a2 available'])
    })
  })

  test('another priority changes the order of what waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r'] }, 4)
    expect(await w.start()).toEqual(['a1'])
    const answer = await change(w, { kind: 'place', queue: null, priority: 9 }, { task: 'a4' })
    expect(namesOf(answer)).toEqual(['a4 available'])
    expect(await w.get('a4')).toMatchObject({ priority: 9, queue: 'q' })
    w.at(1000)
    expect(await w.start()).toEqual(['a4'])
    await change(w, { kind: 'place', queue: null, priority: -1 }, { task: 'a2' })
    w.at(2000)
    expect(await w.start()).toEqual(['a3'])
  })

  describe('another time', () => {
    const retime = async (w: StoreHarness, name: string, ms: number | null): Promise<string> =>
      (await w.store.retime(w.id(name), ms === null ? null : w.clock.now() + ms)).kind

    test('is now, for a job that is scheduled or waits for its next attempt', async () => {
      const w = harness()
      await w.add('later', { runAtMs: w.clock.now() + 60_000 })
      await w.add('failed')
      await w.start()
      await w.retry('failed', 60_000)
      expect([await retime(w, 'later', null), await retime(w, 'failed', null)]).toEqual(['retimed', 'retimed'])
      expect((await w.start()).toSorted()).toEqual(['failed', 'later'])
      expect((await w.get('failed')).attempt).toBe(2)
    })

    test('is later for a job that waits, and those behind it move up', async () => {
      const w = harness()
      await w.define({ r: { rate: 1, per: '1s' } })
      await w.add('a', { limits: ['r'] }, 3)
      await w.start()
      expect(await retime(w, 'a2', 5_000)).toBe('retimed')
      w.at(1000)
      expect(await w.start()).toEqual(['a3'])
      expect(await w.states('a2')).toEqual(['scheduled'])
      w.at(5000)
      expect(await w.start()).toEqual(['a2'])
      expect(await retime(w, 'a2', 5_000)).toBe('refused')
      await w.complete('a2')
      expect(await w.store.retime(w.id('a2'), null)).toEqual({ kind: 'refused', state: 'completed' })
      expect(await w.store.retime('none', null)).toEqual({ kind: 'missing' })
    })

    test('is refused to the step of a flow that waits for another', async () => {
      const w = harness()
      await w.chain('x', 'y')
      expect(await w.store.retime(w.id('y'), null)).toEqual({ kind: 'refused', state: 'pending' })
    })
  })
}
