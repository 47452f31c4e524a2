import { describe, expect, test } from 'vitest'
import { createManualClock } from '../../src/exports/testing.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { createStore } from '../../src/store/open.ts'
import type { Claim, Store } from '../../src/store/contract/store.ts'

const DAY_US = 86_400_000_000
const PLENTY: LimitPolicy = {
  rule: { kind: 'rate', rate: 100, periodUs: 1_000_000, burst: 100, startEmpty: false },
  concurrency: null,
  onLimit: 'wait',
  maxWaitUs: null,
  retries: 'charge',
}

describe('jobs from elsewhere that name an undefined limit', () => {
  const idOf = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`

  function job(n: number, limits: readonly string[]): NewJob {
    return {
      id: idOf(n),
      task: 'work.item',
      queue: 'default',
      priority: 0,
      input: '{}',
      uses: limits.map((name) => ({ limit: name, key: 'A', weight: 1 })),
      maxAttempts: 3,
      runAtMs: null,
      expiresAtMs: null,
      unique: null,
      extra: null,
    }
  }

  async function opened(): Promise<{ store: Store; claim: () => Promise<Claim> }> {
    const store = await createStore('sqlite::memory:', {
      clock: createManualClock(),
      durability: 'process',
      retention: { completedUs: DAY_US, cancelledUs: DAY_US, discardedUs: DAY_US },
    })
    await store.open()
    const worker = await store.join(['default'], 30_000_000)
    const queues = [{ queue: 'default', slots: 10 }]
    return { store, claim: () => store.claim(() => ({ worker, leaseUs: 30_000_000, queues })) }
  }

  test('wait, delay no other job, say so once, and start when it is defined', async () => {
    const { store, claim } = await opened()
    await store.enqueue(Array.from({ length: 10 }, (_, n) => job(n, ['later'])))
    await store.enqueue([job(10, [])])
    const first = await claim()
    expect(first.jobs.map(({ id }) => id)).toEqual([idOf(10)])
    expect(first.closed).toMatchObject([{ limit: 'later', key: 'A', nextAtUs: null }])
    expect(first.nextWakeUs).toBeNull()
    for (let i = 0; i < 5; i++) expect(await claim()).toMatchObject({ jobs: [], closed: [], looks: 0 })
    expect(await store.explain(idOf(3))).toMatchObject({
      waitsOn: { limit: 'later', key: 'A' },
      position: 4,
      untilUs: null,
    })
    expect(await store.define([{ name: 'later', policy: PLENTY, version: 0 }])).toEqual(['later'])
    const after = await claim()
    expect(after.jobs.map(({ id }) => id)).toEqual(Array.from({ length: 10 }, (_, n) => idOf(n)))
    await store.close()
  })
})
