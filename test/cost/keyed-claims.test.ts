// The cost of a claim of many lanes on PostgreSQL: one read and one write, for any share and any number of lanes.
import { beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { createIds } from '../../src/base/ids.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { eachWatchedStore, type WatchedPool } from '../store/postgres-watched.ts'

const SLOTS = 40

withPostgres('the round trips of a keyed claim on PostgreSQL', () => {
  const newId = createIds(systemClock)
  const watched = eachWatchedStore('keyed')
  let pool: WatchedPool
  let store: PostgresStore
  let worker: number

  beforeEach(async () => {
    ;({ pool, store } = watched())
    worker = await store.join(['q'], 1e12)
    await store.define([{ name: 'r', policy: normalisePolicy({ rate: 1_000_000, per: '1s' }, 'r'), version: 0 }])
  })

  /** `each` jobs of every key. */
  async function add(keys: number, each: number, more: Partial<NewJob> = {}): Promise<void> {
    const jobs = Array.from({ length: keys * each }, (_, i) => ({
      id: newId(),
      task: `t${i % keys}`,
      queue: 'q',
      priority: 0,
      input: 'null',
      uses: [{ limit: 'r', key: `k${i % keys}`, weight: 1 }],
      maxAttempts: 1,
      runAtMs: null,
      expiresAtMs: null,
      unique: null,
      extra: null,
      ...more,
    }))
    await store.enqueue(jobs)
  }

  /** Starts and ends all jobs, and returns the starts of each claim, by key in their order. */
  async function drain(total: number): Promise<string[][]> {
    const claims: string[][] = []
    for (let left = total; left > 0;) {
      const { jobs } = await store.claim(() => ({ worker, leaseUs: 3e7, queues: [{ queue: 'q', slots: SLOTS }] }))
      claims.push(jobs.map(({ task }) => task))
      left -= jobs.length
      await Promise.all(
        jobs.map(({ seq, attempt }) => store.settle(worker, { kind: 'complete', seq, attempt, result: null })),
      )
      if (claims.length > total) throw new Error(`${left} jobs never start`)
    }
    return claims
  }

  /** Without those of decisions that were written too late, which a busy machine makes again. */
  const looks = (): number =>
    pool.queries.filter((text) => text.includes('claim_look(')).length - (pool.errors.get('SL001') ?? 0)

  test.each([1, 5, 100])('a share of %i takes no more looks than claims', async (share) => {
    await add(50, 12, { share })
    const claims = await drain(600)
    expect(claims.slice(0, -1).every((starts) => starts.length === SLOTS)).toBe(true)
    // Where few keys are left, or a lane ran out before its share did, a claim may look twice.
    expect(looks()).toBeLessThanOrEqual(claims.length + 3)
  })

  test('keys of a higher priority have all the slots at the cost of a few looks', async () => {
    await add(50, 2)
    await add(4, 100, { priority: 5 })
    const claims = await drain(500)
    for (const starts of claims.slice(0, 10)) expect(new Set(starts)).toEqual(new Set(['t0', 't1', 't2', 't3']))
    expect(looks()).toBeLessThanOrEqual(2 * claims.length)
  })

  test('keys with one job each fill the slots though each may have a hundred starts a turn', async () => {
    await add(400, 1, { share: 100 })
    const claims = await drain(400)
    expect(claims).toHaveLength(10)
    expect(looks()).toBeLessThanOrEqual(12)
  })
})
