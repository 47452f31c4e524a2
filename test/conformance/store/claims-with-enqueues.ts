import { expect, test } from 'vitest'
import type { Claim, Store } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type JobSpec, type StoreHarness } from './store-harness.ts'

/** A claim made at once after an enqueue may share its commit; it must take what any claim would. */
export function claimsWithEnqueues(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a job that nothing precedes starts with its enqueue', async () => {
    const w = await warm(harness())
    w.at(5)
    const claim = await together(w, 'a')
    expect(claim.jobs).toMatchObject([{ task: 'a', attempt: 1, createdUs: w.us(5), startedUs: w.us(5), uses: [] }])
    expect(await w.states('a')).toEqual(['active'])
    await w.complete('a')
    expect(await w.start()).toEqual([])
  })

  test('no more start than there are slots, and the others wait', async () => {
    const w = await warm(harness())
    const adding = w.add('a', {}, 5)
    expect(await w.start(2)).toEqual(['a1', 'a2'])
    await adding
    expect(await w.states('a1', 'a2', 'a3', 'a5')).toEqual(['active', 'active', 'available', 'available'])
    expect(await w.start(0)).toEqual([])
    expect(await w.start()).toEqual(['a3', 'a4', 'a5'])
  })

  test('a job that waits already goes first', async () => {
    const w = await warm(harness())
    await w.add('first')
    expect(names(await together(w, 'second'))).toEqual(['first'])
    expect(await w.start()).toEqual(['second'])
  })

  test('the job of the higher priority goes first, new or not', async () => {
    const w = await warm(harness())
    await w.add('low')
    expect(names(await together(w, 'high', { priority: 5 }))).toEqual(['high'])
    await w.add('higher', { priority: 9 })
    expect(names(await together(w, 'lower', { priority: 3 }))).toEqual(['higher'])
    expect(await w.start()).toEqual(['lower', 'low'])
  })

  test('a job with a limit that waits already takes its turn', async () => {
    const w = await warm(harness())
    await w.define({ r: { rate: 1, per: '1m' } })
    await w.add('limited', { limits: ['r'] }, 2)
    const claims = [names(await together(w, 'plain')), await w.start(1), await w.start(1)]
    expect(claims.flat().toSorted()).toEqual(['limited1', 'plain'])
  })

  test('a paused queue starts nothing', async () => {
    const w = await warm(harness())
    await w.store.pauseQueue('q', true)
    expect(names(await together(w, 'a'))).toEqual([])
    await w.store.pauseQueue('q', false)
    expect(await w.start()).toEqual(['a'])
  })

  test('the limit of the queue holds', async () => {
    const w = await warm(harness())
    await w.define({ all: { concurrency: 1 } })
    await w.declare('q', ['all'])
    const adding = w.add('a', {}, 3)
    const started = await w.start()
    await adding
    expect([...started, ...(await w.start())]).toEqual(['a1'])
  })

  test('a job of another queue, or of a task that is not listed, stays', async () => {
    const w = await warm(harness())
    const adding = w.add('other', { queue: 'p' })
    expect(await w.start()).toEqual([])
    await adding
    const unlisted = w.add('unlisted')
    expect(await w.start({ tasks: ['listed'] })).toEqual([])
    await unlisted
    expect(await w.states('other', 'unlisted')).toEqual(['available', 'available'])
  })

  test('an enqueue that fails does not fail the claim, which takes what waits', async () => {
    const w = await warm(harness())
    await w.add('a')
    const twice = { ...w.job('b'), id: w.id('a') }
    const failing = w.store.enqueue([twice])
    const starting = w.start()
    await expect(failing).rejects.toThrow()
    expect(await starting).toEqual(['a'])
  })

  test('of many enqueues and claims at once each job starts once', async () => {
    const w = await warm(harness())
    const adding = Array.from({ length: 30 }, (_, i) => w.add(`j${i}`))
    const claims = await Promise.all([w.claim({ slots: 7 }), w.claim({ slots: 7 }), w.claim({ slots: 7 })])
    await Promise.all(adding)
    const started = [...claims.flatMap(names), ...(await w.start())]
    expect(started.toSorted()).toEqual(Array.from({ length: 30 }, (_, i) => `j${i}`).toSorted())
    for (const claim of claims) expect(claim.jobs.length).toBeLessThanOrEqual(7)
  })
}

/** A store whose last claims had nothing to decide. */
async function warm(w: StoreHarness): Promise<StoreHarness> {
  await w.add('warm')
  await w.start()
  await w.complete('warm')
  await w.start()
  return w
}

/** Makes a claim of one slot in the turn in which a job is enqueued. */
async function together(w: StoreHarness, name: string, spec: JobSpec = {}): Promise<Claim> {
  const adding = w.add(name, spec)
  const { takesClaim = true }: Pick<Store, 'takesClaim'> = w.store
  expect(takesClaim, 'the claim shares the commit').toBe(true)
  const claim = await w.claim({ slots: 1 })
  await adding
  return claim
}

function names({ jobs }: Claim): string[] {
  return jobs.map(({ task }) => task)
}
