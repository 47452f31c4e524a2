// Work from outside on PostgreSQL, where many servers serve one store: what it costs, and what keeps whom waiting.
import { Pool } from 'pg'
import { uuidv7 } from 'uuidv7'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { JobTerms, NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { FUNCTIONS, MIGRATIONS } from '../../src/store/postgres/sql/embedded.ts'
import type { PushAnswer } from '../../src/store/contract/remote-jobs.ts'
import type { Claim } from '../../src/store/contract/store.ts'
import type { LimitDefinition } from '../../src/policy/limits/limit.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'
import { dropSchema } from '../drop-schema.ts'
import { job } from './plain-job.ts'

const admin = new Pool({ connectionString: POSTGRES_URL, max: 4 })
admin.on('error', () => undefined)
const TERMS: JobTerms = { givenId: false, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }
let schema = ''
let count = 0
let pools: WatchedPool[]
let stores: PostgresStore[]

/** A store as a server of its own has it. */
async function server(): Promise<{ readonly pool: WatchedPool; readonly store: PostgresStore }> {
  const pool = new WatchedPool()
  pools.push(pool)
  const store = new PostgresStore({ connection: pool, schema, clock: systemClock, retention: RETENTION, notify: false })
  stores.push(store)
  await store.open()
  return { pool, store }
}

const remoteJob = (task: string, limits: readonly string[] = [], more: Partial<NewJob> = {}): NewJob =>
  job(task, limits, { terms: TERMS, ...more })

function defined(name: string, policy: Policy): LimitDefinition {
  return { name, policy: normalisePolicy(policy, name), version: -1 }
}

async function worker(store: PostgresStore, name = 'w'): Promise<number> {
  return (await store.registerWorker({ name, queues: ['q'], aliveUs: 60_000_000, about: null })).worker
}

function claim(store: PostgresStore, by: number, slots = 100): Promise<Claim> {
  return store.claim(() => ({
    worker: by,
    leaseUs: 30_000_000,
    remote: true,
    queues: [{ queue: 'q', slots }],
  }))
}

const unique = (key: string, onConflict: 'ignore' | 'reject' = 'ignore'): Partial<NewJob> => ({
  unique: { key, onConflict, withinUs: null, states: null },
})

withPostgres('work from outside on PostgreSQL', () => {
  beforeEach(() => {
    schema = `sluice_outside_${process.pid}_${++count}`
    pools = []
    stores = []
  })

  afterEach(async () => {
    for (const pool of pools) pool.before = pool.after = null
    for (const store of stores) await store.close()
    for (const pool of pools) await pool.end()
    await dropSchema(admin, schema)
  })

  afterAll(() => admin.end())

  test('an offer is one statement, whatever the batch, once its limits are known and its queue is on record', async () => {
    const { pool, store } = await server()
    const limits = [defined('c', { concurrency: 5 })]
    await store.push([remoteJob('a', ['c:k'])], limits)
    pool.queries.length = 0
    await store.push(
      Array.from({ length: 50 }, (_, i) =>
        remoteJob(`b${i}`, ['c:k'], { terms: { ...TERMS, leaseUs: 5, givenId: true } }),
      ),
      limits,
    )
    await store.push([remoteJob('c', ['c:k'], unique('k', 'reject'))], limits)
    expect(pool.queries).toHaveLength(2)
  })

  test('offers made together are one statement, and each learns its own: what is in it, and how full its queue was', async () => {
    const { pool, store } = await server()
    await store.boundQueue('q', { maxDepth: 45, warnAt: null })
    await store.push([remoteJob('first')], [])
    pool.queries.length = 0
    const offered = (n: number): Promise<PushAnswer>[] =>
      Array.from({ length: n }, (_, i) =>
        store.push([remoteJob(`a${i}`), remoteJob(`b${i}`, [], { queue: 'free' })], []),
      )
    const answers = await Promise.all(offered(40))
    expect(pool.queries.filter((text) => !text.includes('INTO'))).toHaveLength(1)
    const stored = answers.flatMap((each) => (each.kind === 'stored' ? [each] : []))
    expect(stored.map(({ depths }) => depths)).toMatchObject(stored.map((_, i) => [{ queue: 'q', depth: 2 + i }]))
    expect(new Set(stored.flatMap((each) => each.answers.map(({ id }) => id))).size).toBe(80)
    // Where there is not room for all there is for some.
    const kinds = (await Promise.all(offered(10))).map(({ kind }) => kind)
    expect(kinds).toEqual([...Array<string>(4).fill('stored'), ...Array<string>(6).fill('refused')])
  })

  test('a claim from outside is two round trips, with terms of the jobs and limits of the queue', async () => {
    const { pool, store } = await server()
    await store.define([defined('r', { rate: 30, per: '1h' })])
    await store.limitQueue('q', 'r')
    await store.push(
      Array.from({ length: 40 }, (_, i) =>
        remoteJob(`a${i}`, [], { terms: { ...TERMS, leaseUs: 9_000_000, timeoutUs: 5 } }),
      ),
      [],
    )
    const by = await worker(store)
    await claim(store, by, 0)
    pool.queries.length = 0
    expect((await claim(store, by)).jobs).toHaveLength(30)
    expect(pool.queries).toHaveLength(2)
  })

  test('jobs that are asked for while others are read come together', async () => {
    const { pool, store } = await server()
    const jobs = Array.from({ length: 60 }, (_, i) => remoteJob(`a${i}`))
    await store.push(jobs, [])
    pool.queries.length = 0
    const found = await Promise.all([...jobs, remoteJob('none')].map(({ id }) => store.details(id)))
    expect(found.map((each) => each?.task)).toEqual([...jobs.map(({ task }) => task), undefined])
    expect(pool.queries).toHaveLength(1)
  })

  test('offers of many servers never fill a bounded queue beyond its bound, nor leave room in it', async () => {
    const servers = await Promise.all([server(), server(), server()])
    await servers[0].store.boundQueue('q', { maxDepth: 20, warnAt: null })
    const answers = await Promise.all(
      servers.flatMap(({ store }) =>
        Array.from({ length: 20 }, (_, i) => store.push([remoteJob('a', [], i % 2 ? unique(uuidv7()) : {})], [])),
      ),
    )
    expect(answers.filter(({ kind }) => kind === 'stored')).toHaveLength(20)
    expect(await servers[0].store.queueCounts('q')).toMatchObject([{ queue: 'q', state: 'available', jobs: 20 }])
  })

  test('of two servers that are given one id together, one is told that it is taken', async () => {
    const servers = await Promise.all([server(), server()])
    for (let i = 0; i < 10; i++) {
      const same = remoteJob('a', [], { terms: { ...TERMS, givenId: true } })
      const answers = await Promise.all(servers.map(({ store }) => store.push([same], [])))
      expect(answers.map(({ kind }) => kind).sort()).toEqual(['refused', 'stored'])
    }
  })

  test('limits that two servers define in turn hold as the later one says, for all', async () => {
    const [first, second] = await Promise.all([server(), server()])
    for (const max of [1, 2, 3, 4])
      await (max % 2 ? first : second).store.push([remoteJob(`a${max}`, ['c'])], [defined('c', { concurrency: max })])
    // The second does not know yet what the first says here.
    await first.store.push([], [defined('c', { concurrency: 1 })])
    await second.store.push([remoteJob('b', ['c'])], [defined('c', { concurrency: 4 })])
    expect((await first.store.limits())[0]?.policy.concurrency).toBe(4)
  })

  test('an offer whose answer was lost is not stored again', async () => {
    const { pool, store } = await server()
    const lose = (): void => {
      pool.after = (text) => {
        if (!text.includes('check_offer')) return
        pool.after = null
        throw new Error('Connection terminated unexpectedly')
      }
    }
    const given = remoteJob('a', [], { terms: { ...TERMS, givenId: true } })
    lose()
    expect(await store.push([given], [])).toMatchObject({ kind: 'stored' })
    lose()
    expect(await store.push([remoteJob('u', [], unique('k', 'reject'))], [])).toMatchObject({ kind: 'stored' })
    expect(await store.push([given], [])).toMatchObject({ why: { kind: 'taken' } })
    expect(await store.list({})).toHaveLength(2)
  })

  test('an offer that waits for a unique key keeps no claim waiting, though it has a limit to define', async () => {
    const { store } = await server()
    await store.push([remoteJob('a')], [])
    const by = await worker(store)
    const client = await admin.connect()
    await client.query('BEGIN')
    await store.enqueue([remoteJob('u', [], unique('k'))], client)
    const waiting = store.push([remoteJob('u', [], unique('k'))], [defined('c', { concurrency: 1 })])
    await expect
      .poll(async () => {
        const { rows } = await admin.query(
          `SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query LIKE '%"${schema}"%'`,
        )
        return rows.length
      })
      .toBe(1)
    expect((await claim(store, by)).jobs.map(({ task }) => task)).toEqual(['a'])
    await client.query('COMMIT')
    client.release()
    expect(await waiting).toMatchObject({ kind: 'stored', answers: [{ kind: 'duplicate' }] })
  })

  test('once a queue is paused nothing of it starts: the pause waits for a claim that has begun', async () => {
    const { pool, store } = await server()
    const other = await server()
    const by = await worker(store)
    await store.define([defined('r', { rate: 9, per: '1h' })])
    await store.push([remoteJob('a', ['r']), remoteJob('b', ['r'])], [])
    let started = 0
    // A claim that took too long is repeated, and is behind the pause then: so it goes once more.
    while (started === 0) {
      const pauses: Promise<void>[] = []
      let isPaused = false
      pool.before = async (text) => {
        if (!text.includes('claim_write')) return
        pauses.push(other.store.pauseQueue('q', true).then(() => void (isPaused = true)))
        await new Promise((resolve) => setTimeout(resolve, 20))
        expect(isPaused).toBe(false)
      }
      started = (await claim(store, by, 1)).jobs.length
      pool.before = null
      await Promise.all(pauses)
      if (started === 0) await other.store.pauseQueue('q', false)
    }
    expect(started).toBe(1)
    expect((await claim(store, by, 1)).jobs).toEqual([])
    await other.store.pauseQueue('q', false)
    expect((await claim(store, by, 1)).jobs).toHaveLength(1)
  })

  test('a pause waits for a claim of jobs without limits, too', async () => {
    const { store } = await server()
    await store.push([remoteJob('a')], [])
    const client = await admin.connect()
    await client.query('BEGIN')
    const open = `SELECT "${schema}".claim_open(ARRAY['q'], ARRAY['["q"]'], ARRAY[1], 1, 1, 0, NULL, '{}', false, NULL, NULL)`
    expect((await client.query(open)).rows).toHaveLength(2)
    let isPaused = false
    const paused = store.pauseQueue('q', true).then(() => void (isPaused = true))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(isPaused).toBe(false)
    await client.query('COMMIT')
    await paused
    expect((await client.query(open)).rows).toHaveLength(0)
    client.release()
  })

  test('an emptied store goes on, also for servers that know what it held', async () => {
    const [first, second] = await Promise.all([server(), server()])
    const limits = [defined('c', { concurrency: 1 })]
    const by = await worker(second.store)
    await second.store.push([remoteJob('a', ['c:k'])], limits)
    expect((await claim(second.store, by)).jobs).toHaveLength(1)
    await first.store.clear()
    expect(await second.store.list({})).toEqual([])
    await second.store.push([remoteJob('b', ['c:k'])], limits)
    expect((await claim(second.store, await worker(second.store))).jobs.map(({ task }) => task)).toEqual(['b'])
  })

  test('a process of 0.1.0 goes on with a store that a newer one has upgraded', async () => {
    const { store } = await server()
    await store.push([remoteJob('a')], [])
    // Each as it was called then: what was added since has a default.
    const calls = [
      `take_arrivals(ARRAY['q'], 0)`,
      `claim_open(ARRAY['q'], ARRAY['["q"]'], ARRAY[1], 1, 1000000, 0, NULL, '{}', false)`,
      `claim_write((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 60000000, 1, 1000000, '[]', '[]', '[]', '[]', '[]', false)`,
      `settle('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{1,1,1}')`,
    ]
    for (const call of calls) await expect(admin.query(`SELECT * FROM "${schema}".${call}`)).resolves.toBeDefined()
  })

  test('a store of the first version is upgraded with all that it holds', async () => {
    // The functions before remote work existed: they took other arguments.
    const before = `CREATE SCHEMA "${schema}"; ${MIGRATIONS[0]}
      CREATE FUNCTION sluice.claim_write(bigint, bigint, bigint, bigint, json, json, json, json, json) RETURNS int LANGUAGE sql AS 'SELECT 1';
      INSERT INTO sluice.store (name, value) VALUES ('version', '1');
      INSERT INTO sluice.jobs (id, task, queue, state, lane, priority, max_attempts, created, since, input)
      VALUES (gen_random_uuid(), 'old', 'q', 1, '["q"]', 0, 3, 1, 1, 'null')`
    await admin.query(before.replaceAll('sluice.', `"${schema}".`))
    expect(FUNCTIONS).toContain('FUNCTION sluice.claim_write(')
    const { store } = await server()
    const by = await worker(store)
    const [old] = (await claim(store, by)).jobs
    expect(old?.task).toBe('old')
    const { seq = 0, attempt = 0 } = old ?? {}
    await store.settle(by, { seq, attempt, kind: 'discard', error: { code: 'x', message: 'no' } })
    expect(await store.details(old?.id ?? '')).toMatchObject({ deadLetter: false, errors: [{ attempt: 1 }] })
  })
})
