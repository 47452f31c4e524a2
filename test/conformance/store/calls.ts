import { expect, test } from 'vitest'
import { TICKETS } from '../../../src/store/contract/budgets.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

const [MINE, THEIRS] = [`${TICKETS}mine`, `${TICKETS}theirs`]

/** Calls of plain code that come while calls of another process wait. */
export function calls(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  /** How many of several calls start, by whose they are. */
  async function started(w: StoreHarness, own: string | undefined, count: number, priority = 0): Promise<number> {
    const uses = [{ limit: 'r', key: '', weight: 1 }]
    const request = { uses, priority, line: 0, permit: 'p', leaseUs: 1e6 }
    const answers = await w.store.budgets.acquire(
      Array.from({ length: count }, () => request),
      own,
    )
    return answers.filter(({ kind }) => kind === 'granted').length
  }

  const starts = async (...[w, own, priority]: [StoreHarness, string | undefined, number?]): Promise<boolean> =>
    (await started(w, own, 1, priority)) === 1

  /** A call waits in the queue of its process, whose claim has found the bucket empty. */
  async function waiting(w: StoreHarness, priority = 0): Promise<void> {
    await w.define({ r: { rate: 1000, per: '1s', burst: 100 } })
    await w.add('first', { limits: ['r*100'] })
    await w.start()
    await w.add('ticket', { limits: ['r'], queue: THEIRS, priority })
    const worker = await w.store.join([THEIRS], 1e12)
    await w.store.join([MINE], 1e12)
    expect(await w.start({ worker, queue: THEIRS })).toEqual([])
  }

  test.each(['a\0b', '\ud800'])('are refused a key that no store keeps: %j', async (key) => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s' } })
    const uses = [
      { limit: 'r', key: '', weight: 1 },
      { limit: 'r', key, weight: 1 },
    ]
    const request = { uses, priority: 0, line: 0, permit: 'p', leaseUs: 1e6 }
    const { budgets } = w.store
    const name = { limit: 'r', key }
    for (const call of [
      () => budgets.acquire([request]),
      () => budgets.reserve(request, 1e6),
      () => budgets.forget(name),
      () => budgets.inspect(name),
    ])
      await expect(call()).rejects.toMatchObject({ code: 'limit.key.invalid' })
    expect(await budgets.inspect({ limit: 'r', key: '' })).toMatchObject({ available: 10 })
  })

  test('go first where units are to spare and only that process is slow', async () => {
    const w = harness()
    await waiting(w)
    w.at(49)
    expect(await starts(w, MINE)).toBe(false)
    w.at(60)
    expect(await starts(w, MINE)).toBe(true)
  })

  test('go first together only as long as units are to spare', async () => {
    const w = harness()
    await waiting(w)
    w.at(60)
    // A half of the burst but for the 1 that makes it one: 49.5 of 100.
    expect(await started(w, MINE, 30)).toBe(11)
  })

  test('go before none of their own process, and before nobody without one', async () => {
    const w = harness()
    await waiting(w)
    w.at(90)
    expect(await starts(w, THEIRS)).toBe(false)
    expect(await starts(w, undefined)).toBe(false)
  })

  test('go before no call that is more urgent', async () => {
    const w = harness()
    await waiting(w, 1)
    w.at(90)
    expect(await starts(w, MINE)).toBe(false)
    expect(await starts(w, MINE, 1)).toBe(true)
  })

  test('go before no call that has waited for half a second', async () => {
    const w = harness()
    await waiting(w)
    w.at(500)
    expect(await starts(w, MINE)).toBe(true)
    w.at(501)
    expect(await starts(w, MINE)).toBe(false)
  })

  test('go before no job', async () => {
    const w = harness()
    await waiting(w)
    await w.add('job', { limits: ['r*200'] })
    expect(await w.start()).toEqual([])
    w.at(90)
    expect(await starts(w, MINE)).toBe(false)
  })
}
