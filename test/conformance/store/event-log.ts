import { expect, test } from 'vitest'
import { uuidv7 } from 'uuidv7'
import type { EventPage, StoredChange } from '../../../src/store/contract/event-log.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

const LEASE_US = 30_000_000
/** As many changes as are kept. */
const KEPT = 10_000

/** The changes that readers in any process follow. */
export function eventLog(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a reader gets each change of a job once, in its order', async () => {
    const w = harness()
    const reader = await join(w)
    await w.add('a', { attempts: 2 })
    await w.add('b')
    expect(await reader.names()).toEqual(['a: → available', 'b: → available'])
    expect(await w.start(1)).toEqual(['a'])
    await w.retry('a', 1000)
    expect(await reader.names()).toEqual(['a: available → active', 'a: active → retryable'])
    w.at(1000)
    expect(await w.start()).toEqual(['a', 'b'])
    await w.complete('b')
    await w.settle('a', { kind: 'discard', error: FAILURE })
    expect((await reader.names()).toSorted()).toEqual([
      'a: active → discarded',
      'a: available → active',
      'b: active → completed',
      'b: available → active',
    ])
    expect(await reader.names()).toEqual([])
  })

  test('a change has what was stored with it', async () => {
    const w = harness()
    const reader = await join(w)
    await w.add('a')
    w.at(500)
    await w.start()
    w.at(700)
    await w.retry('a', 1000)
    const { changes } = await reader.read()
    const about = { of: 'job', id: w.id('a'), task: 'a', queue: 'q', createdUs: w.us(0) }
    expect(changes).toEqual([
      expect.objectContaining({ ...about, was: null, state: 'available', attempt: 0, hasFailed: false, error: null }),
      expect.objectContaining({ ...about, was: 'available', attempt: 1, readyUs: w.us(0), startedUs: w.us(500) }),
      expect.objectContaining({
        ...about,
        state: 'retryable',
        attempt: 1,
        sinceUs: w.us(700),
        dueUs: w.us(1700),
        hasFailed: true,
        error: FAILURE,
      }),
    ])
  })

  test('what sets a job back, moves it on or ends it without a run is told apart', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 5 } })
    const reader = await join(w)
    await w.add('snoozed')
    await w.add('pushed', { limits: ['c'] })
    await w.add('lost')
    await w.add('dead', { attempts: 1 })
    await w.add('cancelled')
    await w.cancel('cancelled')
    await w.claim({ leaseMs: 1000 })
    await w.settle('snoozed', { kind: 'snooze', delayUs: 5_000_000 })
    await w.settle('pushed', { kind: 'push-back', limit: 'c', key: '', closedForUs: 1e6, error: FAILURE })
    w.at(1000)
    await w.recover()
    const ends = (await reader.read()).changes.filter((each) => each.was !== null && each.state !== 'active')
    const of = (name: string): unknown[] =>
      ends.flatMap((each) =>
        each.of === 'job' && each.task === name ? [[each.was, each.state, each.hasFailed, each.error?.code]] : [],
      )
    expect(of('snoozed')).toEqual([['active', 'scheduled', false, undefined]])
    expect(of('pushed')).toEqual([['active', 'available', false, undefined]])
    expect(of('lost')).toEqual([['active', 'available', true, undefined]])
    expect(of('dead')).toEqual([['active', 'discarded', true, 'lease.lost']])
    expect(of('cancelled')).toEqual([['available', 'cancelled', false, undefined]])
  })

  test('a flow is told at its start and at its end', async () => {
    const w = harness()
    const reader = await join(w)
    const id = await w.chain('a', 'b')
    await w.start()
    await w.complete('a')
    await w.start()
    await w.complete('b')
    const { changes } = await reader.read()
    const about = { of: 'flow', id, kind: 'chain', name: null, jobs: 2, error: null }
    expect(changes.filter((each) => each.of === 'flow')).toEqual([
      { ...about, was: null, state: 'running' },
      { ...about, was: 'running', state: 'completed' },
    ])
    expect(changes.filter((each) => each.of === 'job' && each.task === 'b').map(inWords)).toEqual([
      'b: → pending',
      'b: available → active',
      'b: active → completed',
    ])
  })

  test('nothing is written before a reader joins, nor once the last one has left', async () => {
    const w = harness()
    await w.add('before')
    const reader = await join(w)
    await w.add('a')
    const other = await join(w)
    expect(await reader.names()).toEqual(['a: → available'])
    expect(await other.names()).toEqual([])
    await reader.leave()
    await w.add('b')
    expect(await other.names()).toEqual(['b: → available'])
    await other.leave()
    await w.add('after')
    const { position } = other
    const last = await join(w)
    expect((await w.store.readEvents(position)).changes).toEqual([])
    await w.add('again')
    expect(await last.names()).toEqual(['again: → available'])
  })

  test('a reader whose lease was over may have missed changes', async () => {
    const w = harness()
    const reader = await join(w)
    w.at(29_999)
    expect(await reader.keep()).toBe('kept')
    w.at(60_001)
    expect(await reader.keep()).toBe('behind')
    expect(await reader.keep()).toBe('kept')
  })

  test('what all readers have read is deleted, and what one has not is kept', async () => {
    const w = harness()
    const [fast, slow] = [await join(w), await join(w)]
    const { position: first } = fast
    await w.add('a')
    await fast.read()
    expect(await fast.keep()).toBe('kept')
    expect((await w.store.readEvents(first)).changes).toHaveLength(1)
    expect(await slow.names()).toEqual(['a: → available'])
    expect(await slow.keep()).toBe('kept')
    expect((await w.store.readEvents(first)).changes).toHaveLength(0)
  })

  test('a reader that died is ended once its lease is over, and then nothing is written', async () => {
    const w = harness()
    const dead = await join(w)
    await w.add('a')
    w.at(LEASE_US / 1000 + 1)
    await w.store.prune(100)
    await w.add('b')
    expect((await w.store.readEvents(dead.position)).changes).toEqual([])
    expect(await dead.keep()).toBe('gone')
  })

  test('a live reader outlives a dead one', async () => {
    const w = harness()
    const [live] = [await join(w), await join(w)]
    w.at(20_000)
    await live.keep()
    w.at(40_000)
    await w.store.prune(100)
    await w.add('a')
    expect(await live.names()).toEqual(['a: → available'])
  })

  test('a reader that falls behind the bound learns it once, and goes on from there', async () => {
    const w = harness()
    const [slow, fast] = [await join(w), await join(w)]
    await w.add('a', {}, KEPT + 1)
    const cut = await slow.read()
    expect([cut.isCut, cut.changes.length, inWords(cut.changes.at(-1)!)]).toEqual([
      true,
      KEPT,
      `a${KEPT + 1}: → available`,
    ])
    expect((await slow.read()).isCut).toBe(false)
    expect(await slow.keep()).toBe('kept')
    // The other one has read nothing when pruning deletes what is too much.
    await w.add('b')
    await w.store.prune(100)
    expect(await fast.keep()).toBe('behind')
    expect(await fast.keep()).toBe('kept')
    expect(await slow.keep()).toBe('kept')
    expect(await slow.names()).toEqual(['b: → available'])
    await w.add('c')
    expect((await slow.names()).at(-1)).toBe('c: → available')
  })

  test('a store that was emptied has no changes of before, and its readers learn that', async () => {
    const w = harness()
    const reader = await join(w)
    await w.add('before')
    await w.store.clear()
    await w.add('after')
    expect(await reader.names()).toEqual(['after: → available'])
    expect(await reader.keep()).toBe('behind')
    expect(await reader.keep()).toBe('kept')
  })

  test.runIf('reopen' in backend)('the changes of one process reach a reader of another', async () => {
    const w = harness()
    const there = await backend.reopen!(w.clock)
    const reader = await join(w, there)
    await w.add('a')
    await w.start()
    expect(await reader.names()).toEqual(['a: → available', 'a: available → active'])
    await reader.leave()
    await there.close()
  })
}

/** A reader of a store, by default the harness's own. */
async function join(w: StoreHarness, store = w.store) {
  const id = uuidv7()
  const first = await store.joinEvents(id, LEASE_US)
  if (first === null) throw new Error('Others stand in the way')
  const reader = {
    position: first,
    async read(): Promise<EventPage> {
      const page = await store.readEvents(reader.position)
      reader.position = page.position
      return page
    },
    names: async (): Promise<string[]> => (await reader.read()).changes.map(inWords),
    keep: () => store.keepEvents(id, reader.position, LEASE_US),
    leave: () => store.leaveEvents(id),
  }
  return reader
}

function inWords(change: StoredChange): string {
  const name = change.of === 'job' ? change.task : change.kind
  return `${name}: ${change.was === null ? '' : `${change.was} `}→ ${change.state}`
}
