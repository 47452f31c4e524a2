import { expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness } from './store-harness.ts'

/** Limits that tell what they would have done, and admit every start. */
export function shadow(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('admits every start at once, and says in order by how much it would have delayed each', async () => {
    const w = harness()
    await w.define({ s: { rate: 1, per: '1s', mode: 'shadow' } })
    await w.add('a', { limits: ['s'] }, 4)
    const { jobs } = await w.claim()
    expect(jobs.map(({ task, shadowed }) => [task, shadowed?.[0]?.delayUs ?? 0])).toEqual([
      ['a1', 0],
      ['a2', 1e6],
      ['a3', 2e6],
      ['a4', 3e6],
    ])
    expect(await w.bucket('s')).toMatchObject({
      waiting: 0,
      shadow: { delayed: 3, dropped: 0, totalUs: 6e6, worstUs: 3e6, waitUs: 4e6 },
    })
    w.at(500)
    await w.add('b', { limits: ['s*2'] })
    expect((await w.claim()).jobs[0]?.shadowed).toEqual([{ limit: 's', key: '', delayUs: 3.5e6, drops: false }])
  })

  test('ends nothing by drop or maxWait, and keeps other limits and keys as they are', async () => {
    const w = harness()
    await w.define({
      s: { rate: 1, per: '1s', onLimit: 'drop', mode: 'shadow' },
      m: { rate: 1, per: '1s', maxWait: '100ms', mode: 'shadow' },
      e: { rate: 1, per: '1s' },
    })
    await w.add('a', { limits: ['s:1', 'm', 'e'] }, 3)
    await w.add('b', { limits: ['s:2'] }, 2)
    expect((await w.start()).sort()).toEqual(['a1', 'b1', 'b2'])
    expect((await w.bucket('s', '2')).shadow).toMatchObject({ delayed: 0, dropped: 1 })
    w.at(1000)
    expect(await w.start()).toEqual(['a2'])
    expect((await w.explain('a3')).waitsOn).toEqual({ limit: 'e', key: '' })
    expect(await w.states('a3')).toEqual(['available'])
  })

  test('is enforced by an override, and then lets go of what waits, without a restart', async () => {
    const w = harness()
    await w.define({ s: { rate: 1, per: '1s', mode: 'shadow' } })
    await w.add('a', { limits: ['s'] }, 50)
    expect(await w.start()).toHaveLength(50)
    expect(await w.override('s', { mode: 'enforce' })).toBe(true)
    await w.add('b', { limits: ['s'] }, 9)
    // As used up as after a start, but not by the queue that no job waited in.
    expect(await w.wake()).toBe(1000)
    expect((await w.bucket('s')).shadow).toBeUndefined()
    w.at(1000)
    expect(await w.start()).toEqual(['b1'])
    await w.clear('s')
    expect(await w.start()).toHaveLength(8)
    expect((await w.bucket('s')).shadow).toMatchObject({ delayed: 8 })
    await w.override('s', { mode: 'enforce' }, 3000)
    await w.add('c', { limits: ['s'] }, 9)
    expect(await w.start()).toEqual([])
    w.at(3000)
    expect((await w.start()).length).toBeGreaterThanOrEqual(7)
  })

  test('counts permits, and stops for a pause and for a penalty', async () => {
    const w = harness()
    await w.define({ s: { concurrency: 1, mode: 'shadow' } })
    await w.add('a', { limits: ['s'] }, 2)
    const { jobs } = await w.claim()
    expect(jobs.map(({ shadowed }) => shadowed ?? null)).toEqual([
      null,
      [{ limit: 's', key: '', delayUs: null, drops: false }],
    ])
    expect(await w.bucket('s')).toMatchObject({ active: 2, shadow: { delayed: 1, waitUs: null } })
    await w.complete('a1', 'a2')
    await w.pause('s')
    await w.add('b', { limits: ['s'] })
    expect(await w.start()).toEqual([])
    expect(await w.explain('b')).toMatchObject({ expectedStartUs: null, overrides: [{ limit: 's', kind: 'pause' }] })
    // It waits for the other limit, and then for the end of the pause.
    await w.define({ c: { concurrency: 1 } })
    await w.add('first', { limits: ['c'] })
    await w.add('second', { limits: ['c', 's'] })
    expect(await w.start()).toEqual(['first'])
    expect(await w.explain('second')).toMatchObject({
      waitsOn: { limit: 'c' },
      expectedStartUs: null,
      overrides: [{ limit: 's', kind: 'pause' }],
    })
    await w.complete('first')
    expect(await w.start()).toEqual([])
    await w.store.cancel(w.id('second'))
    await w.resume('s')
    expect(await w.start()).toEqual(['b'])
    await w.complete('b')
    await w.store.penalize('s', '', w.us(2000))
    await w.add('c', { limits: ['s'] })
    expect(await w.wake()).toBe(2000)
    w.at(2000)
    expect(await w.start()).toEqual(['c'])
  })

  test('gives a start that did not happen back to its queue', async () => {
    const w = harness()
    await w.define({ s: { rate: 10, per: '1s', burst: 1, mode: 'shadow' } })
    await w.add('a', { limits: ['s'] }, 3)
    await w.start()
    expect((await w.bucket('s')).shadow?.waitUs).toBe(3e5)
    await w.store.charge('s', '', -1, w.run('a3').startedUs)
    expect((await w.bucket('s')).shadow?.waitUs).toBe(2e5)
    await w.store.charge('s', '', 4, w.run('a3').startedUs)
    expect((await w.bucket('s')).shadow?.waitUs).toBe(6e5)
  })

  test('puts the calls of plain code in the same queue', async () => {
    const w = harness()
    await w.define({ s: { window: 'sliding', max: 3, per: '1s', guard: 0, mode: 'shadow' } })
    const call = (weight: number) =>
      w.store.budgets.acquire([
        { uses: [{ limit: 's', key: '', weight }], priority: 0, line: 1, permit: `p${weight}`, leaseUs: 1e6 },
      ])
    expect(await call(2)).toMatchObject([{ kind: 'granted', startInUs: 0 }])
    expect(await call(3)).toMatchObject([{ kind: 'granted', startInUs: 0 }])
    expect((await w.bucket('s')).shadow).toEqual({ delayed: 1, dropped: 0, totalUs: 1e6, worstUs: 1e6, waitUs: 2e6 })
    await w.add('a', { limits: ['s'] })
    expect((await w.claim()).jobs[0]?.shadowed).toEqual([{ limit: 's', key: '', delayUs: 2e6, drops: false }])
  })
}
