import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'
import { go, WorkflowHarness } from './workflow-harness.ts'

const SOON = 100_000
const BACK = 250_000
const NAMES = ['a1', 'a2', 'a3', 'a4']
const OWN = { limits: ['r:a'], share: 3 }

/** Takes the jobs `a1` to `a4` out of their lane, and brings them back at `BACK`, after pruning. */
interface Way {
  readonly leave: (w: StoreHarness) => Promise<void>
  readonly come: (w: StoreHarness) => Promise<unknown>
}

/** The jobs run until the clock stands at `SOON`. */
async function run(w: StoreHarness): Promise<void> {
  await w.add('a', { ...OWN, attempts: 1 }, 4)
  expect(await w.start({ leaseMs: BACK })).toEqual(NAMES)
  w.at(SOON)
}

const promoted = (w: StoreHarness): Promise<unknown> => w.store.promote(100)
const each =
  (work: (w: StoreHarness, name: string) => Promise<unknown>): Way['come'] =>
  async (w) => {
    for (const name of NAMES) await work(w, name)
  }

const WAYS: Readonly<Record<string, Way>> = {
  'a time of their own': {
    leave: (w) => w.add('a', { ...OWN, runAtMs: w.clock.now() + BACK }, 4),
    come: promoted,
  },
  'a delay before the next attempt': {
    async leave(w) {
      await w.add('a', OWN, 4)
      await w.start()
      for (const name of NAMES) await w.retry(name, BACK)
    },
    come: promoted,
  },
  'a long run that failed': { leave: run, come: each((w, name) => w.retry(name)) },
  'a long run that was released': {
    leave: run,
    come: (w) =>
      w.store.release(
        w.worker,
        NAMES.map((name) => w.run(name)),
      ),
  },
  'a lease that ran out': {
    async leave(w) {
      await w.add('a', OWN, 4)
      await w.start({ leaseMs: BACK })
    },
    come: (w) => w.recover(),
  },
  'all its attempts, by a manual retry': {
    async leave(w) {
      await run(w)
      for (const name of NAMES) await w.settle(name, { kind: 'discard', error: FAILURE })
    },
    come: each((w, name) => w.store.retry(w.id(name))),
  },
  'a job of their flow before them': {
    async leave(w) {
      const after = ['x']
      await w.flow({ jobs: { x: {}, ...Object.fromEntries(NAMES.map((name) => [name, { ...OWN, after }])) } })
      await w.start({ leaseMs: 2 * BACK })
    },
    come: (w) => w.complete('x'),
  },
  'a time of their own, moved from another queue': {
    async leave(w) {
      await w.add('a', { ...OWN, queue: 'p', runAtMs: w.clock.now() + BACK }, 4)
      await w.start({ queue: 'p' })
      await w.store.changeJobs({ kind: 'place', queue: 'q', priority: null }, { queue: 'p' }, {}, 10)
    },
    come: promoted,
  },
  'a time of their own, changed by their unique keys': {
    async leave(w) {
      const later = { runAtMs: w.clock.now() + BACK }
      for (const name of NAMES) {
        const unique = { key: name, onConflict: 'update' } as const
        await w.offer(name, { limits: ['r:old'], unique, ...later })
        expect(await w.offer(name, { ...OWN, unique, ...later })).toMatchObject({ kind: 'updated' })
      }
    },
    come: promoted,
  },
  'a queue that nobody serves': {
    leave: (w) => w.add('a', { ...OWN, queue: 'p' }, 4),
    come: (w) => w.store.changeJobs({ kind: 'place', queue: 'q', priority: null }, { queue: 'p' }, {}, 10),
  },
  'their activation by a client': {
    async leave(w) {
      const terms = { givenId: true, pending: true, leaseUs: null, timeoutUs: null, deadLetter: false }
      await w.store.push(
        NAMES.map((name) => ({ ...w.job(name, OWN), terms })),
        [],
      )
    },
    async come(w) {
      const pending = await w.store.list({ states: ['pending'] })
      for (const { id } of pending) await w.store.activate(id, null)
    },
  },
  'a step that begins later': {
    async leave(w) {
      const flows = new WorkflowHarness(w)
      for (const name of NAMES) await flows.begin(name)
      await flows.start()
      for (const name of NAMES) await flows.next(name, { then: go('s', { ...OWN, delayMs: BACK }) })
    },
    come: promoted,
  },
}

/** A lane keeps its share while a job may come back to it, however long it has been empty. */
export function keptShares(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const ways = Object.entries(WAYS)

  describe.each([['fleet'], ['worker']] as const)('under a limit of the scope %s', (scope) => {
    test.each(ways)('jobs come back to their share after %s', async (_, { leave, come }) => {
      const w = harness()
      await w.define({ r: { rate: 1000, per: '1s', scope } })
      await leave(w)
      // A claim takes in what has come.
      await w.start(0)
      for (const ms of [SOON, SOON + 100_000]) {
        w.at(ms)
        await w.store.prune(100)
      }
      w.at(BACK)
      await come(w)
      // No process claims for a while.
      w.at(BACK + 100_000)
      await w.store.prune(100)
      await w.add('b', { limits: ['r:b'] }, 4)
      expect((await w.start()).join(' ')).toBe('a1 a2 a3 b1 a4 b2 b3 b4')
    })
  })

  test('jobs under a limit of each worker come back to their share after the last worker has left', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s', scope: 'worker' } })
    await w.add('a', { ...OWN, runAtMs: w.clock.now() + BACK }, 4)
    await w.start()
    await w.store.leave(w.worker)
    w.at(SOON)
    await w.store.prune(100)
    w.at(BACK)
    const worker = await w.store.join(['q'], 1e12)
    await promoted(w)
    await w.add('b', { limits: ['r:b'] }, 4)
    expect((await w.start({ worker })).join(' ')).toBe('a1 a2 a3 b1 a4 b2 b3 b4')
  })

  test('a lane to which no job comes back is forgotten, behind any number that are kept', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    for (let n = 0; n < 5; n++)
      await w.add(`later${n}`, { limits: [`r:${n}`], share: 2, runAtMs: w.clock.now() + 3_600_000 })
    await w.start()
    await w.add('done', { ...OWN, attempts: 1 })
    await w.start()
    await w.complete('done')
    w.at(BACK)
    for (let n = 0; n < 8; n++) await w.store.prune(1)
    const keys = await w.store.limitKeys({ limit: 'r', sort: 'key', after: null, rows: 50 })
    expect(keys.map(({ key }) => key)).toEqual(['0', '1', '2', '3', '4'])
  })
}
