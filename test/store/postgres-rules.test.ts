// One test for each rule of the claim on PostgreSQL that was learned by breaking it; on the server's own clock.
import { Pool, type PoolClient } from 'pg'
import { uuidv7 } from 'uuidv7'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { NewJob, Settlement } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/normalise-policy.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Claim } from '../../src/store/store.ts'
import { RETENTION } from '../conformance/store/harness.ts'
import { usesOf } from '../conformance/store/world.ts'
import { POSTGRES_URL } from './postgres-harness.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'

const admin = new Pool({ connectionString: POSTGRES_URL, max: 4 })
admin.on('error', () => undefined)
let schema = ''
let count = 0
let pool: WatchedPool
let store: PostgresStore
let worker: number
const others: (() => Promise<void>)[] = []

function open(on: WatchedPool): PostgresStore {
  return new PostgresStore({ connection: on, schema, clock: systemClock, retention: RETENTION, notify: false })
}

/** A further store over the same tables, as another process would have it. */
async function another(): Promise<{ readonly pool: WatchedPool; readonly store: PostgresStore }> {
  const its = new WatchedPool()
  const opened = open(its)
  await opened.open()
  others.push(async () => {
    await opened.close()
    await its.end()
  })
  return { pool: its, store: opened }
}

function define(policies: Readonly<Record<string, Policy>>): Promise<string[]> {
  return store.define(
    Object.entries(policies).map(([name, policy]) => ({ name, policy: normalisePolicy(policy, name), version: 0 })),
  )
}

function job(task: string, limits: readonly string[] = [], more: Partial<NewJob> = {}): NewJob {
  return {
    id: uuidv7(),
    task,
    queue: 'q',
    priority: 0,
    input: 'null',
    uses: usesOf(limits),
    maxAttempts: 3,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: null,
    ...more,
  }
}

function jobs(name: string, limits: readonly string[], n: number, more: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: n }, (_, i) => job(`${name}${i + 1}`, limits, more))
}

function claim(slots = 100, from: PostgresStore = store, queue = 'q', by: number = worker): Promise<Claim> {
  return from.claim(() => ({ worker: by, leaseUs: 30_000_000, queues: [{ queue, slots, uses: [] }] }))
}

function names(claimed: Claim): string[] {
  return claimed.jobs.map(({ task }) => task)
}

async function rows<T = Record<string, unknown>>(sql: string): Promise<T[]> {
  const text = sql.replaceAll('sluice.', `"${schema}".`)
  return (await admin.query(text)).rows as T[]
}

async function number(sql: string): Promise<number> {
  const [row] = await rows<Record<string, string>>(sql)
  return Number(Object.values(row ?? {})[0])
}

const done = (claimed: Claim, at: number): Settlement => {
  const { seq, attempt } = claimed.jobs[at]!
  return { seq, attempt, kind: 'complete', result: null }
}
const isLook = (text: string): boolean => text.includes('claim_look(')
const isWrite = (text: string): boolean => text.includes('claim_write(')

withPostgres('the rules of the claim on PostgreSQL', () => {
  beforeEach(async () => {
    schema = `sluice_rules_${process.pid}_${++count}`
    pool = new WatchedPool()
    store = open(pool)
    await store.open()
    worker = await store.join(['q'], 60_000_000)
  })

  afterEach(async () => {
    pool.before = null
    for (const close of others.splice(0)) await close()
    await store.close()
    await pool.end()
    await admin.query(`DROP SCHEMA "${schema}" CASCADE`)
  })

  afterAll(() => admin.end())

  describe('who writes what', () => {
    test('only a claim writes lanes: all else announces what it did by arrivals', async () => {
      await define({ c: { concurrency: 2 }, r: { rate: 1, per: '1h' } })
      await store.enqueue([...jobs('c', ['c:k'], 4), ...jobs('r', ['r'], 2)])
      await store.enqueue([
        job('u', ['r'], { unique: { key: 'u', onConflict: 'ignore', withinUs: null, states: null } }),
      ])
      const claimed = await claim()
      const [first, second] = claimed.jobs.filter(({ task }) => task.startsWith('c'))
      const before = await rows('SELECT id, xmin, ctid FROM sluice.lanes ORDER BY id')
      expect(before).toHaveLength(2)
      await store.settle(worker, {
        seq: first!.seq,
        attempt: 1,
        kind: 'retry',
        delayUs: 0,
        error: { code: 'x', message: 'x' },
      })
      await store.settle(worker, { seq: second!.seq, attempt: 1, kind: 'complete', result: null })
      const [waiting] = await store.list({ states: ['available'], task: 'r2' })
      await store.cancel(waiting!.id)
      await store.enqueue([
        job('u', ['c:k'], { unique: { key: 'u', onConflict: 'update', withinUs: null, states: null } }),
      ])
      await store.enqueue([job('late', ['c:k'], { runAtMs: systemClock.now() + 20 })])
      await store.promote(10)
      await store.penalize('r', '', store.nowUs() + 1_000_000)
      await store.recover()
      expect(await rows('SELECT id, xmin, ctid FROM sluice.lanes ORDER BY id')).toEqual(before)
      expect(await number('SELECT count(*) FROM sluice.arrivals')).toBeGreaterThanOrEqual(3)
    })

    test('an enqueue locks no lane and no bucket: it is done while others hold all of them', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue(jobs('a', ['r:k'], 3))
      await claim()
      const holder = await admin.connect()
      try {
        await holder.query('BEGIN')
        await holder.query(`SELECT 1 FROM "${schema}".lanes FOR UPDATE`)
        await holder.query(`SELECT 1 FROM "${schema}".buckets FOR UPDATE`)
        const answers = await store.enqueue(jobs('b', ['r:k'], 3))
        expect(answers.map(({ kind }) => kind)).toEqual(['created', 'created', 'created'])
      } finally {
        await holder.query('ROLLBACK')
        holder.release()
      }
    })

    test('an arrival is taken in even if the decision after it could not be written', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue([job('a', ['r:k'])])
      pool.before = (text) => {
        if (isWrite(text)) throw new TypeError('the process dies here')
      }
      await expect(claim()).rejects.toThrow('dies here')
      expect(await number('SELECT count(*) FROM sluice.arrivals')).toBe(0)
      expect(await number('SELECT count(*) FROM sluice.lanes WHERE state = 1')).toBe(1)
      pool.before = null
      expect(names(await claim())).toEqual(['a'])
    })
  })

  describe('locks', () => {
    test('claims of queues that share buckets, settlements, penalties and overrides never deadlock', async () => {
      const policies: Record<string, Policy> = {}
      for (let i = 0; i < 6; i++) policies[`b${i}`] = { rate: 500, per: '1s', concurrency: 3 }
      await define(policies)
      const other = await another()
      const second = await other.store.join(['p'], 60_000_000)
      const batch: NewJob[] = []
      for (let i = 0; i < 240; i++)
        batch.push(
          job(
            `j${i}`,
            [`b${i % 6}`, `b${(i * 5 + 1) % 6}`, `b${(i * 3 + 2) % 6}`].filter(
              (each, at, all) => all.indexOf(each) === at,
            ),
            { queue: i % 2 ? 'q' : 'p' },
          ),
        )
      await store.enqueue(batch)
      let started = 0
      const work = async (its: PostgresStore, queue: string, by: number): Promise<void> => {
        for (let rounds = 0; started < batch.length && rounds < 400; rounds++) {
          const claimed = await claim(10, its, queue, by)
          started += claimed.jobs.length
          await Promise.all(claimed.jobs.map((_, at) => its.settle(by, done(claimed, at))))
        }
      }
      const meddle = async (): Promise<void> => {
        for (let i = 0; i < 20; i++) {
          await store.penalize(`b${i % 6}`, '', store.nowUs() + 1000)
          const change = {
            limit: `b${(i + 3) % 6}`,
            key: null,
            kind: 'override',
            untilUs: null,
            by: null,
            reason: null,
          } as const
          await store.override({ ...change, change: { rate: 400 + i } })
        }
      }
      await Promise.all([work(store, 'q', worker), work(other.store, 'p', second), work(store, 'q', worker), meddle()])
      expect(started).toBe(batch.length)
      expect([pool.errors.get('40P01') ?? 0, other.pool.errors.get('40P01') ?? 0]).toEqual([0, 0])
      expect(await number('SELECT coalesce(sum(active), 0) FROM sluice.buckets')).toBe(0)
      expect(
        await number(
          'SELECT count(*) FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket WHERE l.state = 2 AND b.wake_at IS NULL',
        ),
      ).toBe(0)
    }, 120_000)

    test('of many claimers one at a time wakes a line: no start is given twice, none is looked for in vain', async () => {
      await define({ g: { rate: 1, per: '1h', burst: 30 }, k: { rate: 9, per: '1h' } })
      await store.enqueue(Array.from({ length: 60 }, (_, i) => job(`t${i}`, ['g', `k:${i}`])))
      const other = await another()
      const claims = await Promise.all(Array.from({ length: 8 }, (_, i) => claim(10, i % 2 ? other.store : store)))
      const started = claims.flatMap(names)
      expect(new Set(started).size).toBe(started.length)
      expect(started).toHaveLength(30)
      expect(claims.reduce((sum, { looks }) => sum + looks, 0)).toBeLessThanOrEqual(2 * started.length)
    })

    test('the clock of a decision is read after its last lock', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue(jobs('a', ['r:k'], 2))
      const first = await claim()
      await store.settle(worker, done(first, 0))
      await store.enqueue([job('b', ['r:k'], { priority: 5 })])
      const holder = await admin.connect()
      await holder.query('BEGIN')
      await holder.query(`SELECT 1 FROM "${schema}".buckets FOR UPDATE`)
      const claiming = claim()
      await waiting(holder)
      const { rows: clock } = await holder.query<{ now: string }>(`SELECT "${schema}".now_us() AS now`)
      await holder.query('COMMIT')
      holder.release()
      expect((await claiming).nowUs).toBeGreaterThanOrEqual(Number(clock[0]?.now))
    })

    test('a decision that comes to its writing late is made anew: what starts is counted when it starts', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue([job('a', ['r:k'])])
      let writes = 0
      let releasedUs = 0
      pool.before = async (text) => {
        if (!isWrite(text) || ++writes > 1) return
        await admin.query('SELECT pg_sleep(0.12)')
        releasedUs = await number('SELECT sluice.now_us()')
      }
      const claimed = await claim()
      expect(names(claimed)).toEqual(['a'])
      expect(writes).toBeGreaterThanOrEqual(2)
      expect(claimed.nowUs).toBeGreaterThanOrEqual(releasedUs)
      expect(pool.errors.get('SL001')).toBeGreaterThanOrEqual(1)
    })

    test('a claimer that stalls between its round trips loses its connection, and others go on', async () => {
      await define({ r: { rate: 9, per: '1h' } })
      await store.enqueue(jobs('a', ['r:k'], 2))
      const stalled = await another()
      let resume = (): void => undefined
      let reached = (): void => undefined
      const looked = new Promise<void>((resolve) => (reached = resolve))
      stalled.pool.before = async (text) => {
        if (!isWrite(text)) return
        reached()
        await new Promise<void>((resolve) => (resume = resolve))
      }
      const lost = claim(10, stalled.store)
      await looked
      expect(names(await claim())).toEqual(['a1', 'a2'])
      stalled.pool.before = null
      resume()
      await expect(lost).rejects.toMatchObject({ code: 'store.io' })
      expect(names(await claim(10, stalled.store))).toEqual([])
    })

    test("a waiting job's row that somebody holds keeps nobody else waiting, is looked for again soon, and is not forgotten", async () => {
      await define({ r: { rate: 9, per: '1h' } })
      await store.enqueue([job('held', ['r:k']), job('other', ['r:o']), job('plain')])
      const holder = await admin.connect()
      await holder.query('BEGIN')
      await holder.query(`SELECT 1 FROM "${schema}".jobs WHERE task = 'held' FOR UPDATE`)
      const claimed = await claim()
      expect(names(claimed).sort()).toEqual(['other', 'plain'])
      expect(claimed.nextWakeUs! - claimed.nowUs).toBeLessThan(1_000_000)
      await holder.query('ROLLBACK')
      holder.release()
      expect(names(await claim())).toEqual(['held'])
    })

    test('a bucket that was pruned is a new bucket', async () => {
      await define({ r: { rate: 5, per: '1ms' }, ql: { rate: 5, per: '1ms' } })
      await store.enqueue([job('a', ['r:k'])])
      const claimed = await claim()
      await store.settle(worker, done(claimed, 0))
      await rows(`UPDATE sluice.lanes SET emptied = 0`)
      await admin.query('SELECT pg_sleep(0.01)')
      await store.prune(100)
      expect(await number('SELECT count(*) FROM sluice.buckets')).toBe(0)
      await store.enqueue([job('b', ['r:k'])])
      await Promise.all([store.prune(100), claim().then((each) => expect(names(each)).toEqual(['b']))])
    })
  })

  describe('closed budgets', () => {
    test('the jobs of many lanes that cannot start are ended in few round trips, not in some for each lane', async () => {
      await define({
        d: { rate: 1, per: '1h', burst: 1, onLimit: 'drop' },
        m: { rate: 1, per: '1h', burst: 1, maxWait: '90m' },
      })
      const keys = Array.from({ length: 80 }, (_, i) => i)
      await store.enqueue(keys.flatMap((i) => jobs(`d${i}-`, [`d:${i}`], 5)))
      await store.enqueue(keys.flatMap((i) => jobs(`m${i}-`, [`m:${i}`], 5)))
      await claim(0)
      pool.queries.length = 0
      const started: string[] = []
      const rejected: string[] = []
      for (let more = true; more;) {
        const claimed = await claim(200)
        started.push(...names(claimed))
        rejected.push(...claimed.rejected.map(({ task }) => task))
        more = claimed.nextWakeUs !== null && claimed.nextWakeUs <= claimed.nowUs
      }
      expect(started).toHaveLength(160)
      expect(rejected).toHaveLength(80 * 4 + 80 * 3)
      expect(pool.queries.filter(isLook).length).toBeLessThanOrEqual(12)
    })

    test('an arrival behind all that were sifted has none of them looked at again', async () => {
      await define({ r: { rate: 1, per: '1h', burst: 1, maxWait: '1000h' } })
      await store.enqueue(jobs('a', ['r'], 400))
      await claim()
      await store.enqueue([job('b', ['r'])])
      pool.queries.length = 0
      await claim()
      expect(pool.queries.filter(isLook)).toHaveLength(1)
      const sieve = JSON.parse((await rows<{ sieve: string }>('SELECT sieve FROM sluice.lanes'))[0]!.sieve) as number[]
      expect(sieve[2]).toBe(400)
    })

    test('what is put off while somebody holds one of the jobs keeps nobody waiting', async () => {
      await define({ r: { rate: 1, per: '1h', burst: 1, onLimit: 'reschedule' } })
      await store.enqueue(jobs('a', ['r'], 4))
      const holder = await admin.connect()
      await holder.query('BEGIN')
      await holder.query(`SELECT 1 FROM "${schema}".jobs WHERE task = 'a3' FOR UPDATE`)
      expect(names(await claim())).toEqual(['a1'])
      expect((await store.list({ states: ['scheduled'] })).map(({ task }) => task)).toEqual(['a4', 'a2'])
      await holder.query('ROLLBACK')
      holder.release()
    })
  })

  describe('what is told and counted', () => {
    test('a claim is two round trips and a settlement one, whatever the batch', async () => {
      await define({ r: { rate: 1000, per: '1h' } })
      await store.enqueue([...jobs('a', ['r:k'], 30), ...jobs('b', [], 30)])
      // The limits are read once, by the first claim after a change of theirs.
      await claim(0)
      pool.queries.length = 0
      const claimed = await claim()
      expect(claimed.jobs).toHaveLength(60)
      expect(pool.queries.map((text) => (isLook(text) ? 'look' : isWrite(text) ? 'write' : text))).toEqual([
        'look',
        'write',
      ])
      pool.queries.length = 0
      await Promise.all(claimed.jobs.map((_, at) => store.settle(worker, done(claimed, at))))
      expect(pool.queries).toHaveLength(1)
      pool.queries.length = 0
      await Promise.all(Array.from({ length: 50 }, (_, i) => store.enqueue([job(`c${i}`)])))
      expect(pool.queries).toHaveLength(1)
    })

    test('a limit that another process changed holds in the very next claim', async () => {
      await define({ r: { rate: 5, per: '1h' } })
      await store.enqueue(jobs('a', ['r'], 5))
      expect(names(await claim(1))).toEqual(['a1'])
      const other = await another()
      await other.store.define([{ name: 'r', policy: normalisePolicy({ rate: 1, per: '1h' }, 'r'), version: 0 }])
      expect(names(await claim())).toEqual(['a2'])
    })

    test('jobs enqueued in a transaction of the caller are seen when it commits, however late, and hold up nobody', async () => {
      await define({ r: { rate: 99, per: '1h' } })
      const client = await admin.connect()
      await client.query('BEGIN')
      await store.enqueue([job('late', ['r:k'])], client)
      await store.enqueue([job('a', ['r:k'])])
      expect(names(await claim())).toEqual(['a'])
      await client.query('COMMIT')
      expect(names(await claim())).toEqual(['late'])
      await client.query('BEGIN')
      await store.enqueue([job('never', ['r:k'])], client)
      await client.query('ROLLBACK')
      client.release()
      expect(names(await claim())).toEqual([])
    })

    test('the function in SQL names lanes as the engine does', async () => {
      await define({ crm: { rate: 1, per: '1h' } })
      const keys = ['acme', 'ä"\\\n', 'a long key that is hashed in the end, 😀', '\u0001\u007f']
      for (const key of keys) {
        await store.enqueue([job('engine', [], { uses: [{ limit: 'crm', key, weight: 1 }] })])
        await admin.query(`SELECT "${schema}".enqueue('sql', '{"a":1}', 'q', $1::json, 3)`, [
          JSON.stringify([{ limit: 'crm', key }]),
        ])
      }
      expect(await number('SELECT count(DISTINCT lane) FROM sluice.jobs')).toBe(keys.length)
      const claimed = await claim()
      expect(names(claimed)).toEqual(keys.map(() => 'sql'))
      expect(claimed.jobs[0]).toMatchObject({ input: '{"a":1}', priority: 3, uses: [{ limit: 'crm', weight: 1 }] })
    })
  })
})

/** Until somebody waits for a lock that this connection holds. */
async function waiting(holder: PoolClient): Promise<void> {
  const { rows: own } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  for (;;) {
    const { rows: found } = await admin.query('SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
      own[0]?.pid,
    ])
    if (found.length > 0) return
  }
}
