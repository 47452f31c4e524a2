import { expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness } from './store-harness.ts'

/** More than one claim reads. */
const KEYS = 4200
const STRICT = { rate: 10, per: '1s', burst: 1 } as const

/** Thousands of wait lists that are due, and in which nothing can start for this claimer. */
export function manyDue(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('keep no other key waiting, and no claim follows at once', async () => {
    const w = harness()
    await w.define({ r: STRICT })
    const other = await w.store.join(['full'], 1e15)
    await w.pause('r', 100)
    for (let n = 0; n < KEYS; n += 700)
      await w.store.enqueue(
        Array.from({ length: 700 }, (_, i) => w.job('x', { queue: 'full', limits: [`r:${n + i}`] })),
      )
    for (let again = true; again;) {
      const { nextWakeUs, nowUs } = await w.claim({ worker: other, queue: 'full', slots: 1000 })
      again = nextWakeUs !== null && nextWakeUs <= nowUs
    }
    w.at(200)
    await w.add('mine', { limits: ['r:mine'] }, 4)
    const started: string[] = []
    // A queue of others, and one that is full here.
    for (const [ms, queues] of [
      [200, { q: 20 }],
      [300, { q: 20 }],
      [400, { full: 0, q: 20 }],
      [500, { full: 0, q: 20 }],
    ] as const) {
      w.at(ms)
      const claim = await w.claim({ queues })
      started.push(...claim.jobs.map(({ task }) => task))
      expect(claim.nextWakeUs === null || claim.nextWakeUs > claim.nowUs).toBe(true)
    }
    expect(started).toEqual(['mine1', 'mine2', 'mine3', 'mine4'])
    // They are as due as before for the worker whose queue has room.
    expect(await w.start({ worker: other, queue: 'full', slots: 3 })).toEqual(['x', 'x', 'x'])
  })

  test('of a backend that the claimer lacks keep no other key waiting, and no claim follows at once', async () => {
    const w = harness()
    await w.define({ r: { ...STRICT, backend: 'shared' }, here: STRICT })
    for (let n = 0; n < KEYS; n += 700)
      await w.store.enqueue(Array.from({ length: 700 }, (_, i) => w.job('x', { limits: [`r:${n + i}`] })))
    const settled = async (): Promise<string[]> => {
      const started: string[] = []
      for (let again = true; again;) {
        const { jobs, nextWakeUs, nowUs } = await w.claim({ slots: 1000 })
        started.push(...jobs.map(({ task }) => task))
        again = nextWakeUs !== null && nextWakeUs <= nowUs
      }
      return started
    }
    await w.pause('r', 100)
    expect(await settled()).toEqual([])
    await w.add('mine', { limits: ['here'] }, 3)
    expect(await settled()).toEqual(['mine1'])
    w.at(150)
    expect(await settled()).toEqual(['mine2'])
    w.at(250)
    const claim = await w.claim({ slots: 20 })
    expect(claim.jobs.map(({ task }) => task)).toEqual(['mine3'])
    expect(claim.nextWakeUs === null || claim.nextWakeUs > claim.nowUs).toBe(true)
    // They are as due as before for a process with the backend.
    const elsewhere = { backends: new Set(['shared']), paid: [], refused: [], down: new Map(), atMost: new Map() }
    expect((await w.claim({ slots: 3, elsewhere })).wanted).toHaveLength(3)
  })
}
