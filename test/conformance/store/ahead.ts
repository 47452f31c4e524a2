import { describe, expect, it } from 'vitest'
import { normalisePolicy } from '../../../src/policy/limits/normalise.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'
import { firstExcess, type Start } from '../../policy/histories.ts'
import * as fc from '../../properties.ts'
import { sized } from '../../sized.ts'
import type { StoreBackend } from './backend.ts'
import { type ClaimSpec, eachHarness, StoreHarness } from './store-harness.ts'

const AHEAD: ClaimSpec = { aheadMs: 20 }
const STRICT: Policy = { rate: 100, per: '1s', burst: 1 }

export function ahead(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const started = async (spec: ClaimSpec = AHEAD): Promise<[string, number | null][]> =>
    (await harness().claim(spec)).jobs.map((job) => [job.task, harness().ms(job.startedUs)])

  describe('what a claim grants', () => {
    it('is charged at exact instants up to the horizon, and wakes half a horizon before the next', async () => {
      const { add, at, claim, define } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 10)
      const first = await claim(AHEAD)
      expect(first.jobs.map((job) => [job.task, harness().ms(job.startedUs)])).toEqual([
        ['j1', 0],
        ['j2', 10],
        ['j3', 20],
      ])
      expect(harness().ms(first.nextWakeUs)).toBe(20)
      at(20)
      expect(await started()).toEqual([
        ['j4', 30],
        ['j5', 40],
      ])
    })

    it('is left to its time where a fixed window that is open now is closed then, by its guard', async () => {
      const { add, at, claim, define } = bound(harness())
      await define({
        r: { rate: 1, per: '333ms', burst: 1 },
        f: { window: 'fixed', max: 5, per: '50ms', guard: '19ms' },
      })
      await add('j', { limits: ['r', 'f'] }, 2)
      expect(await started()).toEqual([['j1', 0]])
      at(323)
      const early = await claim(AHEAD)
      expect([early.jobs, harness().ms(early.nextWakeUs)]).toEqual([[], 333])
      at(333)
      expect(await started()).toEqual([['j2', 350]])
    })

    it('is left to its time where starts ahead have filled the fixed window of then', async () => {
      const { add, at, claim, define } = bound(harness())
      await define({ r: { rate: 1, per: '52ms', burst: 1 }, f: { window: 'fixed', max: 2, per: '50ms' } })
      for (const key of ['a', 'b', 'c']) await add(`${key}1`, { limits: [`r:${key}`] })
      expect(await started()).toHaveLength(3)
      for (const key of ['a', 'b', 'c']) await add(`${key}2`, { limits: [`r:${key}`, 'f'] })
      await claim({})
      at(45)
      const early = await claim(AHEAD)
      expect(early.jobs.map(({ task }) => task)).toEqual(['a2', 'b2'])
      expect(harness().ms(early.nextWakeUs)).toBe(52)
      at(52)
      const next = await claim(AHEAD)
      expect([next.jobs, harness().ms(next.nextWakeUs)]).toEqual([[], 90])
    })

    it('is nothing ahead without being asked, as for remote workers', async () => {
      const { add, define } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 3)
      expect(await started({})).toEqual([['j1', 0]])
      expect(await harness().wake()).toBe(10)
    })

    it('is at most so many of a queue, and then the claim names the exact instant', async () => {
      const { add, claim, define } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 10)
      const { jobs, nextWakeUs } = await claim({ ...AHEAD, ahead: 1 })
      expect(jobs).toHaveLength(2)
      expect(harness().ms(nextWakeUs)).toBe(20)
    })

    it('stores each start, and its lease counts from there', async () => {
      const { add, define, get } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 3)
      await started({ ...AHEAD, leaseMs: 1000 })
      const { state, startedUs, dueUs } = await get('j3')
      expect([state, harness().ms(startedUs), harness().ms(dueUs)]).toEqual(['active', 20, 1020])
    })

    it('keeps to priorities and turns as if each start were decided in its time', async () => {
      const { add, define } = bound(harness())
      await define({ shared: STRICT })
      for (const key of ['a', 'b', 'c']) await add(key, { limits: ['shared'], fairKey: key }, 2)
      await add('urgent', { limits: ['shared'], fairKey: 'u', priority: 5 })
      const tasks = (await started({ aheadMs: 60 })).map(([task]) => task)
      expect(tasks).toEqual(['urgent', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
    })

    it('reaches to the horizon where a limit around strict keys sets the instants', async () => {
      const { add, claim, define } = bound(harness())
      await define({ around: { rate: 200, per: '1s', burst: 1 }, key: { rate: 30, per: '1s', burst: 1 } })
      for (let n = 0; n < 8; n++) await add(`k${n}`, { limits: ['around', `key:${n}`] }, 2)
      const { jobs, nextWakeUs } = await claim(AHEAD)
      expect(jobs.map((job) => [job.task, harness().ms(job.startedUs)])).toEqual([
        ['k01', 0],
        ['k11', 5],
        ['k21', 10],
        ['k31', 15],
        ['k41', 20],
      ])
      expect(harness().ms(nextWakeUs)).toBe(15)
    })

    it('is the same for keys of which each has its own instants', async () => {
      const { add, at, define } = bound(harness())
      await define({ r: STRICT })
      await add('a', { limits: ['r:a'] }, 3)
      at(4)
      await add('b', { limits: ['r:b'] }, 3)
      expect((await started()).map(([, ms]) => ms)).toEqual([4, 4, 14, 14, 24, 24])
    })

    it.each<[string, Policy, number[]]>([
      ['spacing', { every: '10ms' }, [0, 10, 20]],
      ['rate with a burst', { rate: 100, per: '1s', burst: 3 }, [0, 0, 0, 10, 20]],
      ['sliding window', { window: 'sliding', max: 2, per: '15ms', guard: 0 }, [0, 0, 15, 15]],
      ['rate beside a spacing', { rate: 1000, per: '1s', burst: 5, every: '8ms' }, [0, 8, 16]],
    ])('of a %s is what it admits at each instant', async (_, policy, instants) => {
      const { add, define } = bound(harness())
      await define({ r: policy })
      await add('j', { limits: ['r'] }, 8)
      expect((await started()).map(([, ms]) => ms)).toEqual(instants)
    })

    it.each<[string, Policy]>([
      ['permits', { concurrency: 2 }],
      ['a strict rate', { rate: 1, per: '1s' }],
      ['a fixed window', { window: 'fixed', max: 1, per: '1m' }],
      ['heavier starts than its window', { window: 'sliding', max: 1, per: '1s' }],
    ])('is the same beside a limit in shadow mode with %s', async (_, policy) => {
      const { add, define } = bound(harness())
      await define({ r: STRICT, s: { ...policy, mode: 'shadow' } })
      await add('j', { limits: ['r', 's*2'] }, 8)
      expect((await started()).map(([, ms]) => ms)).toEqual([0, 10, 20])
    })

    it('of a fixed window counts the window that runs and the next one apart', async () => {
      const { add, at, define } = bound(harness())
      await define({ f: { window: 'fixed', max: 2, per: '1s' } })
      const edgeMs = 1000 - ((harness().startUs / 1000) % 1000)
      at(edgeMs + 985)
      await add('j', { limits: ['f'] }, 5)
      const first = await started()
      expect(first.map(([, ms]) => ms! - edgeMs)).toEqual([985, 985, 1000, 1000])
      at(edgeMs + 1000)
      expect(await started()).toEqual([])
    })
  })

  describe('what it leaves to its own time', () => {
    it.each<[string, Policy]>([
      ['drop', { ...STRICT, onLimit: 'drop' }],
      ['reschedule', { ...STRICT, onLimit: 'reschedule' }],
      ['maxWait', { ...STRICT, maxWait: '1m' }],
    ])('a job under a limit with %s', async (_, policy) => {
      const { add, define } = bound(harness())
      await define({ r: policy })
      await add('j', { limits: ['r'] }, 2)
      expect(await started()).toEqual([['j1', 0]])
    })

    it('a job that expires before the instant, and none that expires later', async () => {
      const { add, define } = bound(harness())
      await define({ r: STRICT })
      const wallMs = harness().clock.now()
      await add('soon', { limits: ['r:a'] })
      await add('gone', { limits: ['r:a'], expiresAtMs: wallMs + 5 })
      await add('first', { limits: ['r:b'] })
      await add('late', { limits: ['r:b'], expiresAtMs: wallMs + 500 })
      expect((await started()).map(([task]) => task)).toEqual(['soon', 'first', 'late'])
    })

    it('a permit of a fixed window that does not set the instant', async () => {
      const { add, define } = bound(harness())
      await define({ r: STRICT, f: { window: 'fixed', max: 9, per: '1s', concurrency: 5 } })
      await add('j', { limits: ['r', 'f'] }, 3)
      expect(await started()).toEqual([['j1', 0]])
      expect(await harness().bucket('f')).toMatchObject({ active: 1 })
    })

    it('a permit of another bucket, while the permits of the bucket that sets the instant are taken', async () => {
      const { add, define } = bound(harness())
      await define({ r: STRICT, own: { ...STRICT, concurrency: 2 }, permits: { concurrency: 5 } })
      await add('other', { limits: ['r', 'permits'] }, 3)
      await add('mine', { limits: ['own'] }, 3)
      expect(await started()).toEqual([
        ['other1', 0],
        ['mine1', 0],
        ['mine2', 10],
      ])
      expect(await harness().bucket('permits')).toMatchObject({ active: 1 })
    })

    it('a bucket under a penalty', async () => {
      const { add, define } = bound(harness())
      await define({ r: STRICT })
      await harness().store.penalize('r', '', harness().us(10))
      await add('j', { limits: ['r'] }, 2)
      const claim = await harness().claim(AHEAD)
      expect(claim.jobs).toEqual([])
      expect(harness().ms(claim.nextWakeUs)).toBe(10)
      expect(claim.closedNow).toEqual([{ limit: 'r', key: '' }])
    })

    it('the next start of a strict bucket that more lanes need, but for the last 5 ms', async () => {
      const { add, at, define } = bound(harness())
      await define({ key: { rate: 10, per: '1s', burst: 1 }, shared: STRICT })
      await add('other', { limits: ['shared'] })
      await add('j', { limits: ['key:a', 'shared'] }, 2)
      expect(await started()).toEqual([
        ['other', 0],
        ['j1', 10],
      ])
      at(100)
      const claim = await harness().claim(AHEAD)
      expect([claim.jobs.length, harness().ms(claim.nextWakeUs)]).toEqual([0, 107.5])
      at(107.5)
      expect(await started()).toEqual([['j2', 110]])
    })
  })

  describe('giving back', () => {
    it('returns every unit if the last start goes first', async () => {
      const { add, at, define } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 6)
      const { jobs } = await harness().claim(AHEAD)
      at(5)
      await harness().store.release(harness().worker, jobs.slice(1).toReversed())
      expect(await harness().states('j2', 'j3')).toEqual(['available', 'available'])
      expect(await started()).toEqual([
        ['j2', 10],
        ['j3', 20],
      ])
    })

    it('ends a job that was cancelled meanwhile', async () => {
      const { add, at, define } = bound(harness())
      await define({ r: STRICT })
      await add('j', { limits: ['r'] }, 2)
      const { jobs } = await harness().claim(AHEAD)
      at(5)
      expect(await harness().cancel('j2')).toBe('requested')
      expect(await harness().store.release(harness().worker, jobs.slice(1))).toEqual([{ seq: jobs[1]!.seq }])
      expect(await harness().states('j2')).toEqual(['cancelled'])
      await add('k', { limits: ['r'] })
      expect(await started()).toEqual([['k', 10]])
    })
  })

  describe('what it tells its process', () => {
    it('grows with a change of a limit', async () => {
      const { define } = bound(harness())
      await define({ r: STRICT })
      const before = (await harness().claim(AHEAD)).generation!
      expect((await harness().claim(AHEAD)).generation).toBe(before)
      await harness().pause('r')
      expect((await harness().claim(AHEAD)).generation).toBeGreaterThan(before)
    })

    it('names the closed buckets of its held starts, after claims of others too', async () => {
      const { add, claim, define } = bound(harness())
      await define({ r: STRICT, own: { ...STRICT, scope: 'worker' } })
      for (const limit of ['r:shut', 'r:open', 'own']) await add(limit, { limits: [limit] }, 3)
      await claim(AHEAD)
      const holds = ['r:shut', 'r:open', 'own', 'r:unused']
      expect((await claim({ ...AHEAD, holds })).closedNow).toEqual([])
      await harness().store.penalize('r', 'shut', harness().us(1000))
      await harness().store.penalize('own', '', harness().us(1000))
      await claim({ ...AHEAD, worker: await harness().store.join(['q'], 1e15) })
      const closed = (await claim({ ...AHEAD, slots: 0, holds })).closedNow!
      expect(closed.map(({ limit, key }) => `${limit}:${key}`).toSorted()).toEqual(['own:', 'r:shut'])
      harness().at(1000)
      expect((await claim({ ...AHEAD, slots: 0, holds })).closedNow).toEqual([])
    })

    it('of only unlimited jobs, too, while it holds starts', async () => {
      const { add, claim, define } = bound(harness())
      await define({ r: STRICT })
      await add('plain', {}, 3)
      await claim({ ...AHEAD, slots: 1 })
      await claim({ ...AHEAD, slots: 1 })
      await harness().store.penalize('r', '', harness().us(1000))
      const { closedNow, generation } = await claim({ ...AHEAD, slots: 1, holds: ['r'] })
      expect([closedNow, typeof generation]).toEqual([[{ limit: 'r', key: '' }], 'number'])
    })

    it('names paused queues', async () => {
      await harness().store.pauseQueue('q', true)
      expect((await harness().claim(AHEAD)).pausedQueues).toEqual(['q'])
    })

    it('tells as much to a process that holds starts and asks for none ahead', async () => {
      const { add, claim, define } = bound(harness())
      await define({ r: STRICT })
      await add('r', { limits: ['r'] }, 2)
      const terms = { aheadMs: 0, holds: ['r'] }
      expect((await claim(terms)).jobs).toHaveLength(1)
      await harness().store.penalize('r', '', harness().us(1000))
      await harness().store.pauseQueue('q', true)
      const { closedNow, generation, pausedQueues } = await claim(terms)
      expect([closedNow, pausedQueues, typeof generation]).toEqual([[{ limit: 'r', key: '' }], ['q'], 'number'])
    })
  })

  it('shows when a held job starts', async () => {
    const { add, define } = bound(harness())
    await define({ r: STRICT })
    await add('j', { limits: ['r'] }, 2)
    await harness().claim(AHEAD)
    expect(harness().ms((await harness().explain('j2')).expectedStartUs)).toBe(10)
    expect((await harness().explain('j1')).expectedStartUs).toBe(null)
  })

  it('never exceeds a budget: two claimers, several limits a job, give-backs and late claims', async () => {
    let ahead = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.boolean(), fc.boolean(), async (steps, heavy, striped) => {
        const own = await StoreHarness.open(backend)
        try {
          if (striped) await own.store.stripeQueue('q', 4)
          ahead += await playSteps(own, steps, heavy)
        } finally {
          await own.store.close()
        }
      }),
      { numRuns: sized(backend.name === 'sqlite' ? 60 : 6, backend.name === 'sqlite' ? 3000 : 200) },
    )
    expect(ahead).toBeGreaterThan(5)
  })
}

const POLICIES: Readonly<Record<string, Policy>> = {
  strict: STRICT,
  burst: { rate: 100, per: '1s', burst: 3 },
  every: { every: '7ms' },
  sliding: { window: 'sliding', max: 3, per: '30ms', guard: 0 },
  fixed: { window: 'fixed', max: 3, per: '25ms' },
  spaced: { rate: 200, per: '1s', burst: 4, every: '4ms' },
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('add' as const),
    limits: fc.uniqueArray(fc.constantFrom(...Object.keys(POLICIES)), { minLength: 1, maxLength: 3 }),
    count: fc.integer({ min: 1, max: 6 }),
    weight: fc.integer({ min: 1, max: 2 }),
  }),
  fc.record({
    kind: fc.constant('claim' as const),
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 25 })),
    worker: fc.integer({ min: 0, max: 1 }),
    aheadMs: fc.constantFrom(0, 20, 50),
    slots: fc.integer({ min: 1, max: 30 }),
  }),
  fc.record({
    kind: fc.constant('back' as const),
    worker: fc.integer({ min: 0, max: 1 }),
    count: fc.integer({ min: 1, max: 10 }),
  }),
)
type PlayedStep = typeof step extends fc.Arbitrary<infer S> ? S : never

/** Plays claims of two workers, and checks the starts that were not given back by brute force. */
async function playSteps(harness: StoreHarness, steps: readonly PlayedStep[], heavy: boolean): Promise<number> {
  await harness.define(POLICIES)
  const workers = [harness.worker, await harness.store.join(['q'], 1e15)]
  const held: { job: Awaited<ReturnType<StoreHarness['claim']>>['jobs'][number]; worker: number }[] = []
  const done = new Map<string, Start[]>()
  let nowMs = 0
  let ahead = 0
  const begin = (): void => {
    for (const each of held.filter(({ job }) => harness.ms(job.startedUs)! <= nowMs)) {
      held.splice(held.indexOf(each), 1)
      for (const { limit, weight } of each.job.uses)
        done.set(limit, [...(done.get(limit) ?? []), { atUs: each.job.startedUs, weight }])
    }
  }
  for (const [i, each] of [...steps, ...steps].entries()) {
    if (each.kind === 'add') {
      const limits = each.limits.map((limit) => `${limit}*${heavy && limit !== 'strict' ? each.weight : 1}`)
      await harness.add(`j${i}x`, { limits }, each.count)
    } else if (each.kind === 'claim') {
      nowMs += each.gapMs
      harness.at(nowMs)
      begin()
      const worker = workers[each.worker]!
      const { jobs, nowUs } = await harness.claim({ worker, aheadMs: each.aheadMs, slots: each.slots })
      for (const job of jobs) {
        expect(job.startedUs).toBeGreaterThanOrEqual(nowUs)
        expect(job.startedUs).toBeLessThanOrEqual(nowUs + each.aheadMs * 1000)
        if (job.startedUs > nowUs) ahead++
        held.push({ job, worker })
      }
      begin()
    } else {
      const worker = workers[each.worker]!
      const mine = held.filter((one) => one.worker === worker).sort((a, b) => b.job.startedUs - a.job.startedUs)
      const back = mine.slice(0, each.count)
      await harness.store.release(
        worker,
        back.map(({ job }) => job),
      )
      for (const one of back) held.splice(held.indexOf(one), 1)
    }
  }
  nowMs += 1000
  begin()
  for (const [limit, starts] of done) {
    const { rule, spacing } = normalisePolicy(POLICIES[limit]!, limit)
    const inOrder = starts.toSorted((a, b) => a.atUs - b.atUs)
    for (const each of [rule, spacing]) if (each) expect([limit, firstExcess(each, inOrder)]).toEqual([limit, null])
  }
  return ahead
}

/** The harness's methods, to be called by themselves. */
function bound(harness: StoreHarness): Pick<StoreHarness, 'add' | 'at' | 'claim' | 'define' | 'get'> {
  return {
    add: (...args) => harness.add(...args),
    at: (ms) => harness.at(ms),
    claim: (spec) => harness.claim(spec),
    define: (policies) => harness.define(policies),
    get: (name) => harness.get(name),
  }
}
