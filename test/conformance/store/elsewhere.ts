import { expect, test } from 'vitest'
import { type ElsewhereTerms, idOfBucket } from '../../../src/policy/admission/elsewhere.ts'
import type { Claim } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

const BACKEND = 'shared'
const ELSEWHERE = { rate: 10, per: '1s', backend: BACKEND } as const

/** The uses of one start, `name` or `name:key`, each with `*weight` behind it. */
function usesOf(texts: readonly string[]): { limit: string; key: string; weight: number }[] {
  return texts.map((text) => {
    const [name = '', weight = '1'] = text.split('*')
    const [limit = '', key = ''] = name.split(':')
    return { limit, key, weight: Number(weight) }
  })
}

interface Known {
  /** Starts that are paid, by their uses joined with a comma. */
  readonly paid?: Readonly<Record<string, number>>
  readonly paidUntilMs?: number
  /** Buckets that refused so many units, and until when. */
  readonly refused?: Readonly<Record<string, number>>
  readonly atMost?: Readonly<Record<string, number>>
  readonly backends?: readonly string[]
  /** Limits whose backend cannot be reached, and until when. */
  readonly down?: Readonly<Record<string, number>>
}

/** The knowledge of a process about the one backend of these tests. */
function terms(
  w: StoreHarness,
  { paid = {}, paidUntilMs = 1e6, refused = {}, atMost = {}, ...more }: Known = {},
): ElsewhereTerms {
  return {
    backends: new Set(more.backends ?? [BACKEND]),
    paid: Object.entries(paid).map(([uses, starts]) => ({
      backend: BACKEND,
      uses: usesOf(uses.split(',')),
      starts,
      untilUs: w.us(paidUntilMs),
    })),
    refused: Object.entries(refused).map(([use, untilMs]) => ({
      ...usesOf([use])[0]!,
      untilUs: w.us(untilMs),
      told: false,
    })),
    down: new Map(Object.entries(more.down ?? {}).map(([limit, untilMs]) => [limit, w.us(untilMs)])),
    atMost: new Map(Object.entries(atMost).map(([use, units]) => [idOfBucket(usesOf([use])[0]!), units])),
  }
}

/** The starts that a claim wants paid: the uses of each, joined with a comma. */
function wanted({ wanted: starts = [] }: Claim): string[] {
  return starts.map(({ uses }) =>
    uses.map(({ limit, key, weight }) => `${limit}${key && `:${key}`}${weight === 1 ? '' : `*${weight}`}`).join(),
  )
}

const started = ({ jobs }: Claim): string[] => jobs.map(({ task }) => task)

/** Limits whose budgets a backend keeps: a claim says what it wants, and grants what was paid. */
export function elsewhere(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a claim wants as many starts as it has slots, and grants them once they are paid', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] }, 5)
    const first = await w.claim({ slots: 3, elsewhere: terms(w) })
    expect([started(first), wanted(first)]).toEqual([[], ['r', 'r', 'r']])
    const paid = terms(w, { paid: { r: 2 } })
    const second = await w.claim({ slots: 3, elsewhere: paid })
    expect([started(second), wanted(second)]).toEqual([['a1', 'a2'], ['r']])
    expect(second.jobs[0]!.uses).toEqual([{ limit: 'r', key: '', weight: 1 }])
    expect(paid.paid[0]!.starts).toBe(0)
    const third = await w.claim({ slots: 3, elsewhere: paid })
    expect([started(third), wanted(third)]).toEqual([[], ['r', 'r', 'r']])
  })

  test('what was paid too long ago starts nothing', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] })
    w.at(11)
    const claim = await w.claim({ elsewhere: terms(w, { paid: { r: 1 }, paidUntilMs: 10 }) })
    expect([started(claim), wanted(claim)]).toEqual([[], ['r']])
    w.at(20)
    expect(started(await w.claim({ elsewhere: terms(w, { paid: { r: 1 }, paidUntilMs: 20 }) }))).toEqual(['a'])
  })

  test('a refusal closes the bucket until its instant, for every process, and the claim names that', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] }, 2)
    const closed = await w.claim({ elsewhere: terms(w, { refused: { r: 500 } }) })
    expect([started(closed), wanted(closed), w.ms(closed.nextWakeUs)]).toEqual([[], [], 500])
    expect(closed.closed).toMatchObject([{ limit: 'r', key: '', wanted: 1, waiting: 2 }])
    const again = await w.claim({ elsewhere: terms(w) })
    expect([wanted(again), w.ms(again.nextWakeUs)]).toEqual([[], 500])
    expect(await w.explain('a1')).toMatchObject({ waitsOn: { limit: 'r', key: '' }, untilUs: w.us(500) })
    w.at(500)
    expect(wanted(await w.claim({ elsewhere: terms(w) }))).toEqual(['r', 'r'])
  })

  test('what was paid starts, although the backend refuses any more', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] }, 4)
    const known = { paid: { r: 2 }, refused: { r: 500 } }
    expect(started(await w.claim({ elsewhere: terms(w, known) }))).toEqual(['a1', 'a2'])
    // In the wait list, too, once it is due.
    w.at(500)
    const again = await w.claim({ elsewhere: terms(w, { paid: { r: 1 }, refused: { r: 900 } }) })
    expect([started(again), wanted(again), w.ms(again.nextWakeUs)]).toEqual([['a3'], [], 900])
    await w.store.penalize('r', '', w.us(2000))
    w.at(900)
    expect(started(await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) }))).toEqual([])
  })

  test('a start that needs less than was refused is still wanted', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('heavy', { limits: ['r*5'] })
    await w.add('light', { limits: ['r*2'], priority: 1 })
    const claim = await w.claim({ elsewhere: terms(w, { refused: { 'r*5': 500 } }) })
    expect(wanted(claim)).toEqual(['r*2'])
  })

  test('a key that its backend refuses delays no other key', async () => {
    const w = harness()
    await w.define({ a: { rate: 5, per: '10s', backend: BACKEND }, b: { rate: 100, per: '10s', backend: BACKEND } })
    await w.add('x', { limits: ['a:t0', 'b'] }, 50)
    await w.add('y', { limits: ['a:t1', 'b'] }, 3)
    const claim = await w.claim({ slots: 4, elsewhere: terms(w, { refused: { 'a:t0': 10_000 } }) })
    expect(wanted(claim)).toEqual(['a:t1,b', 'a:t1,b', 'a:t1,b'])
    const paid = await w.claim({ slots: 4, elsewhere: terms(w, { paid: { 'a:t1,b': 3 } }) })
    expect(started(paid)).toEqual(['y1', 'y2', 'y3'])
  })

  test('a process without the backend starts none of its jobs, and all others', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE, here: { rate: 2, per: '1s' } })
    await w.add('a', { limits: ['r', 'here'], priority: 1 }, 3)
    await w.add('b', { limits: ['here'] }, 3)
    await w.add('c', {}, 2)
    const claim = await w.claim()
    expect(started(claim).sort()).toEqual(['b1', 'b2', 'c1', 'c2'])
    expect([wanted(claim), w.ms(claim.nextWakeUs)]).toEqual([[], 500])
    w.at(500)
    expect(await w.start()).toEqual(['b3'])
    // They are there for a process with it.
    w.at(1000)
    const other = await w.claim({ elsewhere: terms(w) })
    expect(wanted(other)).toEqual(['r'])
    expect(started(await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) }))).toEqual(['a1'])
  })

  test('units in the store are not taken by jobs behind one whose other units are asked for', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE, here: { rate: 1, per: '1m' } })
    await w.add('a', { limits: ['here', 'r'], priority: 1 })
    await w.add('b', { limits: ['here'] })
    const asks = await w.claim({ elsewhere: terms(w) })
    expect([started(asks), wanted(asks)]).toEqual([[], ['r']])
    expect((await w.bucket('here')).available).toBe(1)
    // The backend refuses: then they are for the job behind it.
    const refused = await w.claim({ elsewhere: terms(w, { refused: { r: 5000 } }) })
    expect(started(refused)).toEqual(['b'])
    w.at(60_000)
    expect(wanted(await w.claim({ elsewhere: terms(w) }))).toEqual(['r'])
    expect(started(await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) }))).toEqual(['a'])
  })

  test('no slot is left to jobs behind one that is asked for', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'], priority: 1 })
    await w.add('b', {}, 2)
    const asks = await w.claim({ slots: 2, elsewhere: terms(w) })
    expect([started(asks), wanted(asks)]).toEqual([['b1'], ['r']])
  })

  test('a claim wants no more of a bucket than it may', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    for (const fairKey of ['x', 'y', 'z']) await w.add(fairKey, { limits: ['r'], fairKey }, 2)
    const claim = await w.claim({ elsewhere: terms(w, { atMost: { r: 2 } }) })
    expect(wanted(claim)).toEqual(['r', 'r'])
    // The lanes that it left come once the bucket is asked again.
    const paid = await w.claim({ elsewhere: terms(w, { paid: { r: 6 } }) })
    expect(started(paid).sort()).toEqual(['x1', 'x2', 'y1', 'y2', 'z1', 'z2'])
  })

  test('starts of different units are asked for and granted one by one, in order', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r*3'] })
    await w.add('b', { limits: ['r'] })
    expect(wanted(await w.claim({ elsewhere: terms(w) }))).toEqual(['r*3', 'r'])
    // The second waits behind the first, paid or not.
    const second = await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) })
    expect(started(second)).toEqual([])
    const both = await w.claim({ elsewhere: terms(w, { paid: { 'r*3': 1, r: 1 } }) })
    expect(started(both)).toEqual(['a', 'b'])
  })

  test('a backend that cannot be reached closes its buckets for a while, and delays no others', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE, s: ELSEWHERE, here: { rate: 5, per: '1s' } })
    await w.add('a', { limits: ['here', 'r'], priority: 1 })
    await w.add('b', { limits: ['here', 's'] })
    await w.add('c', { limits: ['here'] })
    const claim = await w.claim({ elsewhere: terms(w, { down: { r: 250 } }) })
    expect([started(claim), wanted(claim), w.ms(claim.nextWakeUs)]).toEqual([['c'], ['s'], 250])
    w.at(250)
    expect(wanted(await w.claim({ elsewhere: terms(w) })).sort()).toEqual(['r', 's'])
  })

  test('a changed limit makes a refusal void', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] })
    await w.claim({ elsewhere: terms(w, { refused: { r: 60_000 } }) })
    await w.override('r', { rate: 20 })
    expect(wanted(await w.claim({ elsewhere: terms(w) }))).toEqual(['r'])
  })

  test('a pause stops its starts, paid or not', async () => {
    const w = harness()
    await w.define({ r: ELSEWHERE })
    await w.add('a', { limits: ['r'] })
    await w.pause('r')
    const claim = await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) })
    expect([started(claim), wanted(claim)]).toEqual([[], []])
    await w.resume('r')
    expect(started(await w.claim({ elsewhere: terms(w, { paid: { r: 1 } }) }))).toEqual(['a'])
  })

  test('no start is granted ahead', async () => {
    const w = harness()
    await w.define({ r: { every: '10ms', backend: BACKEND } })
    await w.add('a', { limits: ['r'] }, 4)
    const claim = await w.claim({ aheadMs: 100, elsewhere: terms(w, { paid: { r: 1 }, refused: { r: 10 } }) })
    expect(started(claim)).toEqual(['a1'])
    w.at(10)
    const next = await w.claim({ aheadMs: 100, elsewhere: terms(w, { paid: { r: 2 } }) })
    expect(next.jobs.map(({ task, startedUs }) => [task, w.ms(startedUs)])).toEqual([
      ['a2', 10],
      ['a3', 10],
    ])
  })

  test('a job that its backend refuses for longer than it waits is rejected', async () => {
    const w = harness()
    await w.define({ r: { ...ELSEWHERE, maxWait: '1s' } })
    await w.add('a', { limits: ['r'] })
    expect((await w.claim({ elsewhere: terms(w) })).rejected).toEqual([])
    const claim = await w.claim({ elsewhere: terms(w, { refused: { r: 1500 } }) })
    expect(claim.rejected).toMatchObject([{ reason: 'late', limit: 'r', expectedStartUs: w.us(1500) }])
  })
}
