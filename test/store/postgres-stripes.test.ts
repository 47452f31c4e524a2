// Stripes of a queue on PostgreSQL: claims of different stripes do not wait for each other, and many claimers beside
// changes of the number start each job once.
import { Pool } from 'pg'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { laneKey, stripeOf } from '../../src/jobs/lane.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Claim } from '../../src/store/contract/store.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'
import { dropSchema } from '../drop-schema.ts'
import { job } from './plain-job.ts'

const LONG_US = 1e15
const KEYS = Array.from({ length: 12 }, (_, i) => `k${i}`)
const admin = new Pool({ connectionString: POSTGRES_URL, max: 2 })
let schema = ''
let count = 0
let pools: WatchedPool[]
let stores: PostgresStore[]

/** A store as a process of its own has it, with its worker. */
async function claimer(): Promise<{ pool: WatchedPool; store: PostgresStore; worker: number }> {
  const pool = new WatchedPool()
  pools.push(pool)
  const store = new PostgresStore({ connection: pool, schema, clock: systemClock, retention: RETENTION, notify: false })
  stores.push(store)
  await store.open()
  return { pool, store, worker: await store.join(['q'], LONG_US) }
}

const keyed = (task: string, key: string, limits: readonly string[] = []): NewJob => job(task, limits, { fairKey: key })

function claim(store: PostgresStore, worker: number, slots: number): Promise<Claim> {
  return store.claim(() => ({ worker, leaseUs: LONG_US, queues: [{ queue: 'q', slots }] }))
}

withPostgres('stripes of a queue on PostgreSQL', () => {
  beforeEach(() => {
    schema = `sluice_stripes_${process.pid}_${count++}`
    pools = []
    stores = []
  })
  afterEach(async () => {
    for (const store of stores) await store.close()
    for (const pool of pools) await pool.end()
    await dropSchema(admin, schema)
  })
  afterAll(() => admin.end())

  test.each([1, 4])('a claim beside one that is about to write, in a queue of %d stripes', async (stripes) => {
    const [first, second] = [await claimer(), await claimer()]
    await first.store.stripeQueue('q', stripes)
    await first.store.enqueue(KEYS.map((key) => keyed(key, key)))
    await claim(first.store, first.worker, 0)
    let beside: Promise<Claim> | null = null
    let wasDone = false
    first.pool.before = async (text) => {
      if (!text.includes('claim_write') || beside) return
      beside = claim(second.store, second.worker, 100).finally(() => (wasDone = true))
      // The claim beside has time, though a decision may not become older than 50 ms.
      await Promise.race([beside, new Promise((resolve) => setTimeout(resolve, 40))])
      if (stripes === 1) expect(wasDone).toBe(false)
    }
    const started = (await claim(first.store, first.worker, 100)).jobs
    first.pool.before = null
    const others = (await (beside as Promise<Claim> | null))?.jobs ?? []
    const stripe = (key: string): number => stripeOf(laneKey('q', [], key), stripes)
    // A decision that waited for too long is made again, behind the claim beside it.
    if (stripes === 1) expect([started.length, others.length].toSorted((a, b) => a - b)).toEqual([0, KEYS.length])
    else {
      expect(started.length).toBeGreaterThan(0)
      expect(others.length).toBeGreaterThan(0)
      const mine = new Set(started.map(({ task }) => stripe(task)))
      expect(others.some(({ task }) => mine.has(stripe(task)))).toBe(false)
    }
  })

  test('with every stripe that has work held by others, a claim waits for one of them', async () => {
    const { store, worker } = await claimer()
    await store.stripeQueue('q', 2)
    await store.enqueue(KEYS.map((key) => keyed(key, key)))
    const client = await admin.connect()
    await client.query('BEGIN')
    await client.query(`SELECT "${schema}".lock_queues(ARRAY['q'])`)
    let isDone = false
    const claimed = claim(store, worker, 100).then((answer) => {
      isDone = true
      return answer
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(isDone).toBe(false)
    await client.query('COMMIT')
    client.release()
    expect((await claimed).jobs.length).toBeGreaterThan(0)
  })

  test('who waits for a bucket is counted over all stripes in one row', async () => {
    const { store, worker } = await claimer()
    await store.define([{ name: 'none', policy: normalisePolicy({ concurrency: 0 }, 'none'), version: 0 }])
    await store.stripeQueue('q', 4)
    await store.enqueue(KEYS.map((key) => keyed(key, key, ['none'])))
    while ((await store.throttled(10)).waiting < KEYS.length) await claim(store, worker, 100)
    const { waiting, rows } = await store.throttled(10)
    expect(waiting).toBe(KEYS.length)
    expect(rows).toEqual([{ queue: 'q', limit: 'none', key: '', waiting: KEYS.length, nextStartUs: null }])
  })

  test('many claimers, arrivals and changes of the number: each job starts once, and permits hold', async () => {
    const crew = [await claimer(), await claimer(), await claimer(), await claimer()]
    const [{ store }] = crew as [(typeof crew)[0]]
    await store.define([{ name: 'all', policy: normalisePolicy({ concurrency: 5 }, 'all'), version: 0 }])
    const [started, jobs] = [new Map<string, number[]>(), 12]
    let [active, most, ran] = [0, 0, 0]
    const produce = async (): Promise<void> => {
      for (let n = 0; n < jobs; n++) await store.enqueue(KEYS.map((key) => keyed(`${key}.${n}`, key, ['all'])))
    }
    const change = async (): Promise<void> => {
      for (const stripes of [3, 1, 7, 2, 64, 4, 1, 5]) {
        await store.stripeQueue('q', stripes)
      }
    }
    const work = async ({ store: own, worker }: (typeof crew)[0]): Promise<void> => {
      while (ran < jobs * KEYS.length) {
        const claimed = (await claim(own, worker, 3)).jobs
        active += claimed.length
        most = Math.max(most, active)
        for (const { task } of claimed) {
          const [key = '', n] = task.split('.')
          started.set(key, [...(started.get(key) ?? []), Number(n)])
        }
        ran += claimed.length
        // Their permits return with the settlement, which ends after this.
        active -= claimed.length
        const settled = claimed.map(({ seq, attempt }) =>
          own.settle(worker, { kind: 'complete', seq, attempt, result: null }),
        )
        for (const answer of await Promise.all(settled)) expect(answer.kind).toBe('settled')
      }
    }
    await Promise.all([produce(), change(), ...crew.map(work)])
    expect(ran).toBe(jobs * KEYS.length)
    expect(most).toBeLessThanOrEqual(5)
    for (const key of KEYS)
      expect(started.get(key)?.toSorted((a, b) => a - b)).toEqual(Array.from({ length: jobs }, (_, n) => n))
  }, 60_000)
})
