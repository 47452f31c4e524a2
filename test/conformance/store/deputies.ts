import { describe, expect, test } from 'vitest'
import type { NewJob } from '../../../src/jobs/job.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, StoreHarness } from './store-harness.ts'

type LimitsOf = (tenant: number, tenants: number) => readonly string[]

// Tenants of one plan stand side by side, so that a plan runs out while others have units left, and a whole line has to give way.
const KINDS: Readonly<Record<string, LimitsOf>> = {
  'a global limit and one per tenant': (tenant) => ['g', `t:${tenant}`],
  'a global limit, one per plan and one per tenant': (tenant, tenants) => [
    'g',
    `p:${Math.floor((5 * tenant) / tenants)}`,
    `t:${tenant}`,
  ],
}
const JOBS_PER_LANE = 2

/** The cost of a claim where limits that many lanes share are near their bounds. */
export function deputies(backend: StoreBackend): void {
  describe('held lanes', () => held(backend))
  describe('a bucket that closes behind another', () => closedLater(backend))

  test.each(Object.entries(KINDS))(
    '%s: few lanes are looked at per start, as many with hundreds of lanes as with 50',
    async (_name, limitsOf) => {
      const few = await drainAnew(backend, 50, limitsOf)
      const most = await drainAnew(backend, backend.part === undefined ? 800 : 200, limitsOf)
      const allowed = 2 + 2 * limitsOf(0, 1).length
      for (const looks of [few, most]) expect(looks).toBeLessThanOrEqual(allowed)
      expect(most).toBeLessThanOrEqual(1.2 * few)
    },
  )
}

/** A deputy goes to another line; those that it left behind must not be forgotten when it is gone. */
function held(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  /** `first` stands in the line of `c` on behalf of the line of `b`, where `second` is held; `hold` has the only permit. */
  async function begin(w: StoreHarness): Promise<void> {
    await w.define({ b: { rate: 1, per: '1s' }, c: { concurrency: 1 }, k: { rate: 99, per: '1s' } })
    await w.add('drain', { limits: ['b'] })
    expect(await w.start()).toEqual(['drain'])
    await w.add('first', { limits: ['b', 'c', 'k:1'] })
    await w.add('second', { limits: ['b', 'c', 'k:2'] })
    expect(await w.wake()).toBe(1000)
    await w.add('hold', { limits: ['c'] })
    expect(await w.start()).toEqual(['hold'])
    w.at(1000)
    expect(await w.wake()).toBeNull()
    expect((await w.explain('first')).waitsOn).toEqual({ limit: 'c', key: '' })
  }

  test('when the deputy starts, those it left behind go on in their turn', async () => {
    const w = harness()
    await begin(w)
    await w.complete('hold')
    expect(await w.start()).toEqual(['first'])
    await w.complete('first')
    expect(await w.wake()).toBe(2000)
    w.at(2000)
    expect(await w.start()).toEqual(['second'])
  })

  test('when the deputy is cancelled, those it left behind are looked at again', async () => {
    const w = harness()
    await begin(w)
    await w.cancel('first')
    expect(await w.wake()).toBeNull()
    await w.complete('hold')
    expect(await w.start()).toEqual(['second'])
  })

  test('lanes of the line that do not need what the deputy waits for are not held', async () => {
    const w = harness()
    await begin(w)
    await w.add('third', { limits: ['b', 'k:3'] })
    expect(await w.start()).toEqual(['third'])
    await w.add('fourth', { limits: ['b', 'k:4'] })
    expect(await w.wake()).toBe(2000)
  })
}

/** A bucket that never refused anything closes while hundreds of lanes that need it stand in the line of another. */
function closedLater(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const LANES = 600

  /** The jobs that all claims of this instant start, and the number of these claims. */
  async function startAll(w: StoreHarness): Promise<{ tasks: string[]; claims: number }> {
    const tasks: string[] = []
    for (let claims = 1; ; claims++) {
      const { jobs, nextWakeUs, nowUs } = await w.claim({ slots: 10 })
      tasks.push(...jobs.map(({ task }) => task))
      if (nextWakeUs === null || nextWakeUs > nowUs) return { tasks, claims }
      expect(claims, 'claims at one instant').toBeLessThan(20)
    }
  }

  async function begin(w: StoreHarness): Promise<void> {
    await w.define({ b: { rate: 1, per: '1s' }, p: { rate: 100, per: '1s' }, k: { rate: 99, per: '1s' } })
    await w.add('drain', { limits: ['b'] })
    expect(await w.start()).toEqual(['drain'])
    const lanes = Array.from({ length: LANES }, (_, i) => w.job(`l${i}`, { limits: ['b', 'p:1', `k:${i}`] }))
    await w.store.enqueue(lanes)
    expect((await startAll(w)).tasks).toEqual([])
    await w.add('other', { limits: ['b', 'p:2', 'k:other'] })
    expect((await startAll(w)).tasks).toEqual([])
    await w.pause('p:1')
  }

  test('a lane behind them that does not need it starts at the instant of its turn', async () => {
    const w = harness()
    await begin(w)
    w.at(1000)
    expect((await startAll(w)).tasks).toEqual(['other'])
    await w.add('another', { limits: ['b', 'p:2', 'k:other'] })
    w.at(2000)
    expect(await startAll(w)).toEqual({ tasks: ['another'], claims: 1 })
  })

  test('no newcomer of lower priority overtakes a lane behind them', async () => {
    const w = harness()
    await begin(w)
    w.at(1000)
    await w.add('newcomer', { limits: ['b', 'k:new'], priority: -5 })
    expect((await startAll(w)).tasks).toEqual(['other'])
    w.at(2000)
    expect((await startAll(w)).tasks).toEqual(['newcomer'])
  })

  test('those that a dropping limit refuses meanwhile are rejected at once', async () => {
    const w = harness()
    await w.define({
      b: { rate: 1, per: '1s' },
      p: { rate: 100, per: '1s' },
      d: { rate: 3, per: '1h', burst: 3, onLimit: 'drop' },
    })
    await w.add('drain', { limits: ['b'] })
    await w.start()
    for (let i = 0; i < 40; i++) await w.add(`l${i}`, { limits: ['b', 'p:1', `d:${i}*3`] })
    expect((await startAll(w)).tasks).toEqual([])
    await w.pause('p:1')
    w.at(1000)
    expect((await startAll(w)).tasks).toEqual([])
    await w.add('taker', { limits: ['d:5'] })
    const { jobs, rejected } = await w.claim()
    expect([jobs.map(({ task }) => task), rejected.map(({ task }) => task)]).toEqual([['taker'], ['l5']])
  })

  test('once it opens, they start in their turn', async () => {
    const w = harness()
    await begin(w)
    w.at(1000)
    expect((await startAll(w)).tasks).toEqual(['other'])
    await w.resume('p:1')
    const started: string[] = []
    for (let n = 2; n < 7; n++) {
      w.at(n * 1000)
      started.push(...(await startAll(w)).tasks)
    }
    expect(started).toEqual(['l0', 'l1', 'l2', 'l3', 'l4'])
  })
}

async function drainAnew(backend: StoreBackend, tenants: number, limitsOf: LimitsOf): Promise<number> {
  const harness = await StoreHarness.open(backend)
  try {
    return await drain(harness, tenants, limitsOf)
  } finally {
    await harness.store.close()
  }
}

/** Drains the lanes of so many tenants, each claim at the instant that the last one named; answers lanes looked at per start. */
async function drain(w: StoreHarness, tenants: number, limitsOf: LimitsOf): Promise<number> {
  await w.define({
    g: { rate: 1, per: '10ms', burst: 5 },
    p: { rate: 1, per: '40ms', burst: 3 },
    t: { rate: 1, per: tenants * 5, burst: 1 },
  })
  const jobs: NewJob[] = []
  for (let tenant = 0; tenant < tenants; tenant++)
    for (let i = 0; i < JOBS_PER_LANE; i++) jobs.push(w.job(`t${tenant}`, { limits: limitsOf(tenant, tenants) }))
  await w.store.enqueue(jobs)
  let looks = 0
  let started = 0
  while (started < jobs.length) {
    const claim = await w.claim({ slots: 1_000_000 })
    looks += claim.looks
    started += claim.jobs.length
    const next = w.ms(claim.nextWakeUs)
    if (next === null) break
    w.at(next)
  }
  expect(started).toBe(jobs.length)
  return looks / started
}
