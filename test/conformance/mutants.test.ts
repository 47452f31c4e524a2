import { describe, expect, test } from 'vitest'
import type { NewJob } from '../../src/jobs/job.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Claim, Store } from '../../src/store/contract/store.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'
import { checkAgainstModel } from './store/model-check.ts'

/** A fault that a store could have, put between it and the check. */
type Mutation = (store: Store) => Partial<Store>

const changedJobs =
  (change: (job: NewJob) => NewJob): Mutation =>
  (store) => ({ enqueue: (jobs) => store.enqueue(jobs.map(change)) })

const changedClaims =
  (change: (claim: Claim) => Claim | Promise<Claim>): Mutation =>
  (store) => ({ claim: async (request) => change(await store.claim(request)) })

const changedLimits =
  (change: (policy: LimitPolicy) => LimitPolicy): Mutation =>
  (store) => ({ define: (limits) => store.define(limits.map((limit) => ({ ...limit, policy: change(limit.policy) }))) })

const later = (claim: Claim, byUs: number): Claim =>
  claim.nextWakeUs === null ? claim : { ...claim, nextWakeUs: claim.nextWakeUs + byUs }

const MUTATIONS: Readonly<Record<string, Mutation>> = {
  'a limiter that ignores weight': changedJobs((job) => ({
    ...job,
    uses: job.uses.map((use) => ({ ...use, weight: 1 })),
  })),
  'a limiter that forgets one of several buckets': changedJobs((job) =>
    job.uses.length > 1 ? { ...job, uses: job.uses.slice(1) } : job,
  ),
  'a limiter with one unit more than the burst': (store) => ({
    define: (limits) =>
      store.define(
        limits.map((limit) => {
          const { rule } = limit.policy
          return rule?.kind === 'rate'
            ? { ...limit, policy: { ...limit.policy, rule: { ...rule, burst: rule.burst + 1 } } }
            : limit
        }),
      ),
  }),
  'a limiter that forgets permits': (store) => ({
    define: (limits) =>
      store.define(limits.map((limit) => ({ ...limit, policy: { ...limit.policy, concurrency: 99 } }))),
  }),
  'a limiter that forgets a guarantee': changedLimits(({ of: _of, ...policy }) => policy),
  'a limiter that keeps no reserve for guarantees': changedLimits((policy) =>
    policy.of
      ? { ...policy, of: { ...policy.of, keys: 1, rule: policy.of.rule && { ...policy.of.rule, burst: 1 } } }
      : policy,
  ),
  'a limit in shadow mode that is enforced': changedLimits(({ mode: _mode, ...policy }) => policy),
  'a limit that tells nothing in shadow mode': changedClaims((claim) => ({
    ...claim,
    jobs: claim.jobs.map(({ shadowed: _shadowed, ...job }) => job),
  })),
  'a start that is told a millisecond early': changedClaims((claim) => ({
    ...claim,
    jobs: claim.jobs.map((job) => ({ ...job, startedUs: job.startedUs - (job.startedUs > claim.nowUs ? 1000 : 0) })),
  })),
  'a claim that grants further ahead than asked': (store) => ({
    claim: (request) => store.claim(() => ({ ...request(), ...(request().aheadUs && { aheadUs: 30_000 }) })),
  }),
  'a claim that grants nothing ahead': (store) => ({
    claim: (request) => store.claim(() => ({ ...request(), aheadUs: 0 })),
  }),
  'a lane that ignores priority': changedJobs((job) => ({ ...job, priority: 0 })),
  'a claim that skips a lane': (store) => ({
    claim: async (request) => {
      const { worker } = request()
      const claim = await store.claim(request)
      const skipped = claim.jobs.filter((job) => job.uses.some((use) => use.key === '1'))
      if (skipped.length > 0) await store.release(worker, skipped)
      return { ...claim, jobs: claim.jobs.filter((job) => !skipped.includes(job)) }
    },
  }),
  'a line that is never re-timed': (store) => {
    let asleep: Claim | null = null
    return {
      claim: async (request) => {
        if (asleep?.nextWakeUs && store.nowUs() < asleep.nextWakeUs) return asleep
        const claim = await store.claim(request)
        asleep = { ...claim, jobs: [] }
        return claim
      },
    }
  },
  'a wake that is named a microsecond late': changedClaims((claim) => later(claim, 1)),
  'a wake that is named a millisecond early': changedClaims((claim) => later(claim, -1000)),
  'a wake that is not named': changedClaims((claim) => ({ ...claim, nextWakeUs: null })),
  'a permit that does not return': (store) => ({
    settle: async (worker, settlement) => {
      const settled = settlement.seq % 5 === 0 ? null : await store.settle(worker, settlement)
      return settled ?? { kind: 'settled', state: 'completed', atUs: store.nowUs() }
    },
  }),
  'a cancel that leaves the job where it is': () => ({ cancel: async () => ({ kind: 'cancelled' }) }),
  'a claim that takes more than the slots': (store) => ({
    claim: (request) =>
      store.claim(() => {
        const asked = request()
        return { ...asked, queues: asked.queues.map((queue) => ({ ...queue, slots: queue.slots + 1 })) }
      }),
  }),
}

describe('a store with a fault is caught by the model check', () => {
  const backend = sqliteBackend('SQLite in memory', ':memory:')
  const faultsOf = async (mutation: Mutation): Promise<readonly string[]> => {
    const wrap = (store: Store): Store => mutated(store, mutation(store))
    const faults: string[] = []
    for (const [kind, aheadMs] of [
      ['single', 0],
      ['any', 0],
      ['shares', 0],
      ['single', 20],
    ] as const) {
      const options = { kind, aheadMs, from: 1, seeds: 20, wrap, faultsAtMost: 1 }
      if (faults.length === 0) faults.push(...(await checkAgainstModel(backend, options)).faults)
    }
    return faults
  }

  test('a store without one is not', async () => {
    expect(await faultsOf(() => ({}))).toEqual([])
  })

  test.each(Object.entries(MUTATIONS))('%s', async (_name, mutation) => {
    expect(await faultsOf(mutation)).toHaveLength(1)
  })
})

/** The store with some verbs replaced. */
function mutated(store: Store, verbs: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(verbs, name)) return verbs[name as keyof Store]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
