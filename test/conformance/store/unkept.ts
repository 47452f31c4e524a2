import { describe, expect, test } from 'vitest'
import { uuidv7 } from 'uuidv7'
import type { Settlement, SettleResult } from '../../../src/jobs/settlement.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type Outcome, type StoreHarness } from './store-harness.ts'

/** A run whose job is kept for no time. */
const DONE = { kind: 'complete', result: '1', keepUs: 0 } as const
const SETTLED = { kind: 'settled', state: 'completed' } as const

/** Completed jobs that are kept for no time: the end of their run deletes them. */
export function unkept(backend: StoreBackend): void {
  describe('ends', () => ends(backend))
  describe('runs that do not count', () => runs(backend))
}

const left = async (w: StoreHarness): Promise<string[]> => (await w.store.list({})).map(({ task }) => task).toSorted()
const run = (w: StoreHarness, name: string, what: Outcome = DONE): Settlement => {
  const { seq, attempt, startedUs } = w.run(name)
  return { seq, attempt, startedUs, ...what }
}

function ends(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a completed job is gone with the end of its run, one that is kept is not', async () => {
    const w = harness()
    await w.add('a', {}, 2)
    await w.start()
    expect(await w.settle('a1', DONE)).toEqual(SETTLED)
    expect(await w.settle('a2', { ...DONE, keepUs: 1 })).toEqual(SETTLED)
    expect(await w.store.get(w.id('a1'))).toBeNull()
    expect(await w.store.details(w.id('a1'))).toBeNull()
    expect(await w.store.explain(w.id('a1'))).toBeNull()
    expect(await w.store.ended([w.id('a1')])).toEqual([w.id('a1')])
    expect(await w.get('a2')).toMatchObject({ state: 'completed', result: '1' })
    expect(await w.store.queueCounts()).toMatchObject([{ queue: 'q', state: 'completed', jobs: 1 }])
    expect(await w.start()).toEqual([])
  })

  test.each([1, 3, 40])('runs that end together go by their own times, %s of each kind', async (times) => {
    const w = harness()
    await w.define({ c: { concurrency: 1000 } })
    const kinds: Record<string, readonly [Outcome, string | null]> = {
      gone: [DONE, null],
      other: [{ ...DONE, result: '2' }, null],
      held: [DONE, null],
      kept: [{ kind: 'complete', result: '3' }, 'completed'],
      key: [{ ...DONE, keepAtLeastUs: 1 }, 'completed'],
      retried: [{ kind: 'retry', delayUs: 1e6, error: FAILURE }, 'retryable'],
      discarded: [{ kind: 'discard', error: FAILURE, keepUs: 0 }, 'discarded'],
      cancelled: [{ kind: 'cancel', keepUs: 0 }, 'cancelled'],
      back: [{ kind: 'give-back' }, 'available'],
    }
    const names = Array.from({ length: times }, (_, n) => Object.keys(kinds).map((kind) => [kind, `${kind}.${n}`]))
    const all = names.flat() as [kind: string, name: string][]
    for (const [kind, name] of all) await w.add(name, { limits: kind === 'held' ? ['c'] : [] })
    expect(await w.start(1000)).toHaveLength(all.length)
    expect(await w.bucket('c')).toMatchObject({ active: times })
    const answers = await Promise.all(
      all.map(([kind, name]) => w.store.settle(w.worker, run(w, name, kinds[kind]![0]))),
    )
    for (const [n, [kind, name]] of all.entries()) {
      const state = kinds[kind]![1]
      expect(answers[n]).toMatchObject({ kind: 'settled', state: state ?? 'completed' })
      expect((await w.store.get(w.id(name)))?.state ?? null).toBe(state)
    }
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
  })

  test('the permits of a deleted job let the next one start', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('a', { limits: ['c'] }, 2)
    expect(await w.start()).toEqual(['a1'])
    expect(await w.wake()).toBeNull()
    const { returned } = (await w.store.settle(w.worker, run(w, 'a1'))) as { returned?: true }
    expect(returned ?? false).toBe(!w.store.notifiesOwnWrites)
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
    expect(await w.start()).toEqual(['a2'])
  })

  test('a unique key is free with the deletion, unless it holds for longer', async () => {
    const w = harness()
    const unique = { key: 'k', states: ['available', 'active', 'completed'] as const }
    await w.add('a', { unique })
    await w.start()
    expect(await w.offer('b', { unique })).toMatchObject({ kind: 'duplicate', id: w.id('a') })
    await w.settle('a', DONE)
    expect(await w.offer('b', { unique })).toMatchObject({ kind: 'created' })
    await w.start()
    await w.settle('b', { ...DONE, keepAtLeastUs: 5_000_000 })
    expect(await w.offer('c', { unique })).toMatchObject({ kind: 'duplicate', id: w.id('b') })
    w.at(5_000)
    await w.store.prune(100)
    expect(await w.offer('c', { unique })).toMatchObject({ kind: 'created' })
  })

  test('the jobs of a flow stay, whether the caller knows of the flow or not', async () => {
    const w = harness()
    const id = await w.chain('a', 'b', 'c')
    await w.add('x')
    expect((await w.start()).toSorted()).toEqual(['a', 'x'])
    const answers = await Promise.all(['a', 'x'].map((name) => w.settle(name, DONE)))
    expect(answers).toMatchObject([SETTLED, SETTLED])
    await w.start()
    expect(await w.settle('b', { ...DONE, inFlow: true })).toMatchObject(SETTLED)
    await w.start()
    expect(await w.settle('c', DONE)).toMatchObject({ ...SETTLED, flow: { id, ended: 'completed' } })
    expect(await left(w)).toEqual(['a', 'b', 'c'])
    expect(await w.get('a')).toMatchObject({ state: 'completed', result: '1' })
    expect(await w.tally(id)).toEqual(['completed', 3, 0, 0])
  })

  test('a job that a caller cancels while it runs counts as completed, and is gone', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.cancel('a')
    expect(await w.store.cancellations(w.worker)).toEqual([w.run('a').seq])
    expect(await w.settle('a', DONE)).toEqual(SETTLED)
    expect(await left(w)).toEqual([])
    expect(await w.cancel('a')).toBe('missing')
    expect(await w.store.cancellations(w.worker)).toEqual([])
  })

  test('the lines that its runs have logged go with it', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    const line = { atMs: 0, level: 'info', attempt: 1, message: 'hello' } as const
    const note = { id: w.id('a'), attempt: 1, lines: [line], progress: null }
    await w.store.addNotes([note])
    expect(await w.store.jobLog(w.id('a'))).toHaveLength(1)
    await w.settle('a', DONE)
    await w.store.addNotes([note])
    expect(await w.store.jobLog(w.id('a'))).toEqual([])
  })

  test('readers of the events learn of the completion', async () => {
    const w = harness()
    const position = (await w.store.joinEvents(uuidv7(), 30_000_000))!
    await w.add('a')
    await w.start()
    w.at(500)
    await w.settle('a', DONE)
    await w.add('kept')
    await w.start()
    await w.store.clear()
    await w.add('b')
    await w.start()
    await w.settle('b', DONE)
    const { changes } = await w.store.readEvents(position)
    // `clear` deletes the changes before it, and writes none of the active jobs that it deletes.
    expect(changes.map((each) => each.of === 'job' && [each.task, each.was, each.state])).toEqual([
      ['b', null, 'available'],
      ['b', 'available', 'active'],
      ['b', 'active', 'completed'],
    ])
    const about = { id: w.id('b'), attempt: 1, hasFailed: false, error: null, sinceUs: w.us(500) }
    expect(changes.at(-1)).toMatchObject(about)
  })
}

function runs(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const LOST = { kind: 'lost' }

  test('of another worker, another attempt, another start or after a recovery delete nothing', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 5 } })
    await w.add('a', { limits: ['c'] })
    await w.claim({ leaseMs: 1000 })
    const first = run(w, 'a') as Settlement & { startedUs: number }
    const other = await w.store.join(['q'], 1e9)
    expect(await w.store.settle(other, first)).toEqual(LOST)
    expect(await w.store.settle(w.worker, { ...first, attempt: 2 })).toEqual(LOST)
    expect(await w.store.settle(w.worker, { ...first, startedUs: first.startedUs + 1 })).toEqual(LOST)
    w.at(1000)
    expect(await w.recover()).toEqual([['a', 'available']])
    for (const again of [false, true]) expect(await w.store.settle(w.worker, first, again)).toEqual(LOST)
    await w.start({ worker: other })
    for (const again of [false, true]) expect(await w.store.settle(w.worker, first, again)).toEqual(LOST)
    expect(await w.get('a')).toMatchObject({ state: 'active', attempt: 2 })
    expect(await w.bucket('c')).toMatchObject({ active: 1 })
    expect(await w.store.settle(other, run(w, 'a'))).toMatchObject(SETTLED)
    expect(await w.store.settle(w.worker, first)).toEqual(LOST)
    expect(await w.bucket('c')).toMatchObject({ active: 0 })
  })

  test('that were given back delete nothing', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    await w.store.release(w.worker, [w.run('a')])
    expect(await w.settle('a', DONE)).toEqual(LOST)
    expect(await w.get('a')).toMatchObject({ state: 'available', attempt: 0 })
  })

  test('a second settlement of a run is lost, whichever of the two deletes the job', async () => {
    const w = harness()
    const two = async (...both: readonly Outcome[]): Promise<SettleResult['kind'][]> => {
      await w.add('a')
      await w.start()
      const together = await Promise.all(both.map((what) => w.store.settle(w.worker, run(w, 'a', what))))
      return together.map(({ kind }) => kind)
    }
    expect(await two(DONE, { kind: 'cancel' })).toEqual(['settled', 'lost'])
    expect(await left(w)).toEqual([])
    expect(await two({ kind: 'discard', error: FAILURE }, DONE)).toEqual(['settled', 'lost'])
    expect(await w.get('a')).toMatchObject({ state: 'discarded' })
    await w.add('b')
    await w.start()
    expect(await w.settle('b', DONE)).toEqual(SETTLED)
    expect(await w.settle('b', DONE)).toEqual(LOST)
  })

  test('one that cannot be written fails alone, the others of its batch count', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.start()
    // PostgreSQL refuses such a text.
    const [gone, kept] = await Promise.allSettled([
      w.settle('a1', DONE),
      w.settle('a2', { kind: 'retry', delayUs: 1e6, error: FAILURE }),
      w.settle('a3', { kind: 'complete', result: '"\0"' }),
    ])
    expect([gone, kept]).toMatchObject([{ value: SETTLED }, { value: { kind: 'settled', state: 'retryable' } }])
    expect((await left(w)).slice(0, 1)).toEqual(['a2'])
  })

  test('a late settlement of a deleted job leaves the next job of its worker alone', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    const late = run(w, 'a')
    w.at(10)
    await w.settle('a', DONE)
    await w.add('b')
    await w.start()
    expect(await w.store.settle(w.worker, late)).toEqual(LOST)
    expect(await w.get('b')).toMatchObject({ state: 'active' })
  })

  test('a settlement that is made again since the first was not written deletes the job', async () => {
    const w = harness()
    await w.add('a')
    await w.start()
    expect(await w.store.settle(w.worker, run(w, 'a'), true)).toMatchObject(SETTLED)
    expect(await left(w)).toEqual([])
  })
}
