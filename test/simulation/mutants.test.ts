// The simulator has to be able to fail: each of these faults is put into the store, and must be noticed within 200 seeds.
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, vi } from 'vitest'
import type { GrantedJob, NewJob } from '../../src/jobs/job.ts'
import type { ClaimRequest, Store } from '../../src/store/contract/store.ts'
import type { LimitDefinition } from '../../src/policy/limits/limit.ts'
import type { Sabotage } from './fleet.ts'
import { BrokenPromise, simulate } from './simulation.ts'
import { withStatements } from './with-statements.ts'

const SEEDS = 200

// A fault that is found late has to be found on a busy machine too; one that ran on would spoil the next.
vi.setConfig({ testTimeout: 180_000 })

/** A store with some of its verbs replaced. */
function altered(store: Store, changes: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name): unknown {
      if (Object.hasOwn(changes, name)) return Reflect.get(changes, name)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** The first broken promise, and how it broke. @param first the first seed: the one that notices it as things are */
async function firstBroken(sabotage: Sabotage = (store) => store, first = 1, ahead = false): Promise<string | null> {
  for (let tried = 0; tried < SEEDS; tried++) {
    try {
      await simulate(((first - 1 + tried) % SEEDS) + 1, sabotage, ahead)
    } catch (error) {
      if (error instanceof BrokenPromise) return error.message
      throw error
    }
  }
  return null
}

describe('the simulator notices', () => {
  it('a limiter that ignores weight', async () => {
    const light = (job: NewJob): NewJob => ({ ...job, uses: job.uses.map((use) => ({ ...use, weight: 1 })) })
    const broken = await firstBroken((store) => altered(store, { enqueue: (jobs) => store.enqueue(jobs.map(light)) }))
    expect(broken).toContain('admits')
  })

  it('a bucket that lets one more through', async () => {
    const wider = (limit: LimitDefinition): LimitDefinition => {
      const { rule } = limit.policy
      if (rule?.kind === 'rate')
        return { ...limit, policy: { ...limit.policy, rule: { ...rule, burst: rule.burst + 1 } } }
      return rule?.kind === 'sliding'
        ? { ...limit, policy: { ...limit.policy, rule: { ...rule, max: rule.max + 1 } } }
        : limit
    }
    const broken = await firstBroken((store) => altered(store, { define: (limits) => store.define(limits.map(wider)) }))
    expect(broken).toContain('admits')
  })

  it('an interval that is one microsecond short', async () => {
    const shorter = (limit: LimitDefinition): LimitDefinition => {
      const { rule } = limit.policy
      if (rule?.kind !== 'spacing') return limit
      return { ...limit, policy: { ...limit.policy, rule: { ...rule, everyUs: rule.everyUs - 1 } } }
    }
    const broken = await firstBroken(
      (store) => altered(store, { define: (limits) => store.define(limits.map(shorter)) }),
      4,
    )
    expect(broken).toContain('admits')
  })

  it.each<[string, (job: GrantedJob, nowUs: number) => GrantedJob]>([
    ['starts before its instant', (job) => ({ ...job, startedUs: job.startedUs - 1000 })],
    ['is not held', (job, nowUs) => ({ ...job, startedUs: nowUs })],
  ])('a start granted ahead that %s', async (_, changed) => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          claim: async (request: () => ClaimRequest) => {
            const claim = await store.claim(request)
            const jobs = claim.jobs.map((job) => (job.startedUs > claim.nowUs ? changed(job, claim.nowUs) : job))
            return { ...claim, jobs }
          },
        }),
      1,
      true,
    )
    expect(broken).toMatch(/to start at|before its instant/)
  })

  it('a start granted ahead that pays for less than it takes', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          claim: async (request: () => ClaimRequest) => {
            const claim = await store.claim(request)
            const ahead = claim.jobs.filter((job) => job.startedUs > claim.nowUs)
            // A give-back of units that are in use, and the run goes on.
            for (const job of ahead)
              for (const use of job.uses) await store.charge(use.limit, use.key, -1, claim.nowUs).catch(() => undefined)
            return claim
          },
        }),
      1,
      true,
    )
    expect(broken).toContain('units in')
  })

  it('a claim that forgets to pay', async () => {
    const broken = await withStatements(
      'UPDATE buckets SET state = ?,',
      'UPDATE buckets SET state = iif(1, state, ?),',
      firstBroken,
    )
    // Nor does a push-back close what it should: the same run may come twice in one instant.
    expect(broken).toMatch(/admits|counts/)
  })

  it('a claim that skips a lane', async () => {
    const broken = await withStatements(
      'FROM lanes WHERE queue = ? AND state = 1',
      'FROM lanes WHERE id % 4 > 0 AND queue = ? AND state = 1',
      firstBroken,
    )
    expect(broken).toContain('waits, although everything admits it')
  })

  it('a wake-up that is a millisecond late', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          claim: async (request: () => ClaimRequest) => {
            const claim = await store.claim(request)
            return { ...claim, nextWakeUs: claim.nextWakeUs === null ? null : claim.nextWakeUs + 1000 }
          },
        }),
      7,
    )
    expect(broken).toMatch(/waits, although everything admits it|was not moved on/)
  })

  it('a line that is not woken when its first leaves', async () => {
    const broken = await withStatements(
      'SET wake_at = min(wake_at, ?) WHERE id = ? AND',
      'SET wake_at = iif(1, wake_at, ?) WHERE id = ? AND',
      () => firstBroken(undefined, 192),
    )
    expect(broken).toContain('waits, although everything admits it')
  })

  it('a permit that returns without a word to those who wait for it', async () => {
    const broken = await withStatements(
      'active = max(active - 1, 0), wake_at = min(wake_at, ?)',
      'active = max(active - 1, 0), wake_at = iif(1, wake_at, ?)',
      firstBroken,
    )
    expect(broken).toContain('waits, although everything admits it')
  })

  it('a settle that forgets the permit', async () => {
    const broken = await withStatements('active = max(active - 1, 0)', 'active = active', firstBroken)
    expect(broken).toMatch(/waits, although everything admits it|permits, but nothing runs/)
  })

  it('a settle that does not ask whose the job is', async () => {
    const broken = await withStatements('AND jobs.attempt = s.value ->> 1 AND jobs.worker = s.value ->> 2', '', () =>
      withStatements('AND (s.value ->> 8 IS NULL OR jobs.started = s.value ->> 8)', '', () =>
        firstBroken(undefined, 134),
      ),
    )
    expect(broken).not.toBeNull()
  })

  it('a job that is taken back before its lease is over', async () => {
    const broken = await withStatements('AND due <= ? ORDER BY due', 'AND due - 500000 <= ? ORDER BY due', () =>
      firstBroken(undefined, 13),
    )
    expect(broken).not.toBeNull()
  })

  it('jobs of dead workers that no process takes back', async () => {
    const broken = await firstBroken((store) => altered(store, { recover: () => Promise.resolve([]) }), 22)
    expect(broken).toContain('still active')
  })

  it('rows of waiting jobs that are written again', async () => {
    const broken = await firstBroken((store, path) =>
      altered(store, {
        promote: (limit) => store.promote(limit),
        claim: async (request: () => ClaimRequest) => {
          const claim = await store.claim(request)
          const db = new DatabaseSync(path)
          db.exec('UPDATE jobs SET since = since WHERE state = 1')
          db.close()
          return claim
        },
      }),
    )
    expect(broken).toContain('was rewritten while it waited')
  })

  it('an override that forgets those who wait', async () => {
    const broken = await withStatements(
      'UPDATE buckets SET wake_at = min(wake_at, ?) WHERE',
      'UPDATE buckets SET wake_at = iif(1, wake_at, ?) WHERE',
      firstBroken,
    )
    expect(broken).toContain('waits, although everything admits it')
  })

  it('an override that fills its buckets', async () => {
    const broken = await withStatements(
      'UPDATE buckets SET wake_at = min(wake_at, ?) WHERE',
      'UPDATE buckets SET state = NULL, wake_at = min(wake_at, ?) WHERE',
      () => firstBroken(undefined, 22),
    )
    expect(broken).toContain('admits')
  })

  it('an override that does not end by itself', async () => {
    const broken = await firstBroken((store) =>
      altered(store, { override: (request) => store.override({ ...request, untilUs: null }) }),
    )
    expect(broken).toMatch(/waits, although everything admits it|admits|never ended/)
  })

  it("an override of one key that is everybody's", async () => {
    const broken = await firstBroken(
      (store) => altered(store, { override: (request) => store.override({ ...request, key: null }) }),
      34,
    )
    expect(broken).not.toBeNull()
  })

  it('a pause that leaks', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          override: (request) => store.override(request.kind === 'pause' ? { ...request, key: 'k1' } : request),
        }),
      5,
    )
    expect(broken).toContain('admits')
  })

  it('a penalty that ends with a burst', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          penalize: async (limit, key, untilUs) => {
            const held = {
              limit,
              key: key === '' ? null : key,
              kind: 'pause',
              untilUs,
              by: null,
              reason: null,
            } as const
            await store.override({ ...held, change: { concurrency: 0 } })
            return true
          },
        }),
      12,
    )
    expect(broken).toContain('admits')
  })

  it('an older definition that takes the place of a newer one', async () => {
    const flat = (limit: LimitDefinition): LimitDefinition => ({ ...limit, version: 0 })
    const broken = await firstBroken(
      (store) => altered(store, { define: (limits) => store.define(limits.map(flat)) }),
      77,
    )
    expect(broken).not.toBeNull()
  })

  it('active jobs that hold no permit when their limit is given some', async () => {
    const broken = await withStatements('SET active = active + 1 WHERE', 'SET active = active WHERE', () =>
      firstBroken(undefined, 137),
    )
    expect(broken).not.toBeNull()
  })

  it('an occurrence that becomes two jobs', async () => {
    const broken = await firstBroken((store, path) => {
      const again = new Set<string>()
      return altered(store, {
        claim: async (request: () => ClaimRequest) => {
          const claim = await store.claim(request)
          for (const news of claim.schedules) {
            if (news.kind !== 'fired' || again.has(news.id)) continue
            again.add(news.id)
            const db = new DatabaseSync(path)
            db.prepare(
              `UPDATE schedules SET next_at = next_at - (spec ->> '$.recurrence.everyUs') WHERE name = ? AND wall = 0`,
            ).run(news.occurrence.schedule)
            db.close()
          }
          return claim
        },
      })
    })
    expect(broken).toContain('accounted for')
  })

  it('a grid that drifts', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          schedule: (given) =>
            store.schedule(
              given.recurrence.kind === 'every'
                ? { ...given, recurrence: { kind: 'every', everyUs: given.recurrence.everyUs + 1000 } }
                : given,
            ),
        }),
      19,
    )
    expect(broken).toMatch(/too early|nothing has come of it/)
  })

  it('an occurrence that is a millisecond late', async () => {
    const broken = await firstBroken(
      (store) =>
        altered(store, {
          claim: async (request: () => ClaimRequest) => {
            const claim = await store.claim(request)
            const { nextFireUs, nextWakeUs } = claim
            if (nextFireUs === null || nextFireUs <= claim.nowUs) return claim
            return {
              ...claim,
              nextFireUs: nextFireUs + 1000,
              nextWakeUs: nextWakeUs === nextFireUs ? nextFireUs + 1000 : nextWakeUs,
            }
          },
        }),
      9,
    )
    // The same instant tells when delayed jobs of a full queue are due.
    expect(broken).toMatch(/nothing has come of it|was not moved on/)
  })
})
