// One test for each rule of the claim on PostgreSQL that was learned by breaking it; on the server's own clock.
import { Pool, type PoolClient } from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { seededRandom } from '../../src/base/random.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import type { Settlement } from '../../src/jobs/settlement.ts'
import { inLaneOrder } from '../../src/jobs/lane.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { FUNCTIONS } from '../../src/store/postgres/sql/embedded.ts'
import type { Claim } from '../../src/store/contract/store.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { usesOf } from '../conformance/store/store-harness.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'
import { dropSchema } from '../drop-schema.ts'
import { job } from './plain-job.ts'

const admin = new Pool({ connectionString: POSTGRES_URL, max: 8 })
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

function jobs(name: string, limits: readonly string[], n: number, more: Partial<NewJob> = {}): NewJob[] {
  return Array.from({ length: n }, (_, i) => job(`${name}${i + 1}`, limits, more))
}

function claim(slots = 100, from: PostgresStore = store, queue = 'q', by: number = worker): Promise<Claim> {
  return from.claim(() => ({ worker: by, leaseUs: 30_000_000, queues: [{ queue, slots }] }))
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
    await dropSchema(admin, schema)
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
    })

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

    test('a claim after a slow read asks for the wait lists that come due within as much more time', async () => {
      await define({ r: { rate: 1e6, per: '1s' } })
      await store.enqueue(jobs('a', ['r:k'], 3))
      const ahead = (): Promise<Claim> =>
        store.claim(() => ({
          worker,
          leaseUs: 30_000_000,
          queues: [{ queue: 'q', slots: 1, ahead: 1 }],
          aheadUs: 20_000,
        }))
      const asked = (): number =>
        Number(/"aheadUs":(\d+)/.exec(pool.queries.findLast((text) => isLook(text)) ?? '')?.[1])
      await ahead()
      const holder = await admin.connect()
      await holder.query('BEGIN')
      await holder.query(`SELECT 1 FROM "${schema}".buckets FOR UPDATE`)
      const claiming = ahead()
      await waiting(holder)
      await holder.query('SELECT pg_sleep(0.1)')
      await holder.query('COMMIT')
      holder.release()
      await claiming
      await ahead()
      expect(asked()).toBeGreaterThanOrEqual(120_000)
    })

    test('decisions that all come to their writing late are not each made twice', async () => {
      await define({ r: { rate: 1e6, per: '1s' } })
      await store.enqueue(jobs('a', ['r:k'], 6))
      pool.before = async (text) => void (isWrite(text) && (await admin.query('SELECT pg_sleep(0.06)')))
      for (let n = 1; n <= 6; n++) expect(names(await claim(1))).toEqual([`a${n}`])
      expect(pool.errors.get('SL001')).toBeGreaterThanOrEqual(1)
      expect(pool.errors.get('SL001')).toBeLessThan(5)
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

    test('jobs that are rescheduled while another transaction holds one of them delay no other claim', async () => {
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

  describe('budgets of each worker', () => {
    const own = { rate: 2, per: '1h', scope: 'worker' } as const

    test('many workers at once: none over its own budget, nothing lost, no deadlock, no permit kept', async () => {
      await define({
        all: { concurrency: 7 },
        own: { rate: 12, per: '1h', scope: 'worker' },
        few: { concurrency: 2, scope: 'worker' },
      })
      const members = [{ store, pool, worker }]
      for (let i = 0; i < 3; i++) {
        const more = await another()
        members.push({ ...more, worker: await more.store.join(['q'], 60_000_000) })
      }
      await store.enqueue(Array.from({ length: 90 }, (_, i) => job(`j${i}`, ['all', `few:${i % 3}`, 'own'])))
      const started: string[] = []
      await Promise.all(
        members.map(async (member) => {
          for (let rounds = 0; rounds < 40; rounds++) {
            const claimed = await claim(4, member.store, 'q', member.worker)
            started.push(...names(claimed))
            await Promise.all(claimed.jobs.map((_, at) => member.store.settle(member.worker, done(claimed, at))))
            if (rounds === 10) await member.store.prune(100)
          }
        }),
      )
      expect(new Set(started).size).toBe(started.length)
      const reports = await store.inspect('own')
      expect(reports.map((each) => each.available)).toEqual([0, 0, 0, 0])
      expect(started).toHaveLength(4 * 12)
      expect(members.map((each) => each.pool.errors.get('40P01') ?? 0)).toEqual([0, 0, 0, 0])
      expect(await number('SELECT coalesce(sum(active), 0) FROM sluice.buckets')).toBe(0)
      expect(
        await number(
          'SELECT count(*) FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket WHERE l.state = 2 AND b.wake_at IS NULL',
        ),
      ).toBe(0)
      for (const each of members) await each.store.leave(each.worker)
      expect(await number('SELECT count(*) FROM sluice.lanes WHERE base IS NOT NULL')).toBe(0)
      expect(await number('SELECT count(*) FROM sluice.buckets WHERE worker <> 0')).toBe(0)
    })

    test('workers that come and go, and a scope that changes, under load: every job starts once, and nobody fails', async () => {
      const keyed = { rate: 2000, per: '1s', concurrency: 2 } as const
      await define({ all: { concurrency: 9 }, r: { ...keyed, scope: 'worker' } })
      const batch = Array.from({ length: 300 }, (_, i) =>
        job(`j${i}`, ['all', `r:${i % 11}`], { queue: i % 3 ? 'q' : 'p' }),
      )
      await store.enqueue(batch)
      const started: string[] = []
      const endMs = performance.now() + 30_000
      const work = async (): Promise<void> => {
        const its = await another()
        while (started.length < batch.length && performance.now() < endMs) {
          const by = await its.store.join(['q', 'p'], 60_000_000)
          for (let rounds = 0; rounds < 6; rounds++)
            for (const queue of ['q', 'p']) {
              const claimed = await claim(3, its.store, queue, by)
              started.push(...names(claimed))
              await Promise.all(claimed.jobs.map((_, at) => its.store.settle(by, done(claimed, at))))
            }
          await its.store.leave(by)
        }
      }
      const meddle = async (): Promise<void> => {
        for (let i = 0; started.length < batch.length && performance.now() < endMs; i++) {
          await define({ r: i % 2 ? { ...keyed, scope: 'worker' } : keyed })
          await store.throttled(10)
          await store.penalize('r', `${i % 11}`, store.nowUs() + 1000)
          await store.prune(100)
          await store.recover()
        }
      }
      await Promise.all([work(), work(), work(), work(), meddle()])
      expect(started.toSorted()).toEqual(batch.map(({ task }) => task).toSorted())
      expect(await number('SELECT coalesce(sum(active), 0) FROM sluice.buckets')).toBe(0)
      // The one that every test has was there all the time.
      expect(await number(`SELECT count(*) FROM sluice.lanes WHERE worker <> ${worker}`)).toBe(0)
      expect(
        await number(
          'SELECT count(*) FROM sluice.buckets b WHERE lanes <> (SELECT count(*) FROM sluice.lanes l WHERE b.id = ANY (l.buckets))',
        ),
      ).toBe(0)
    })

    test('a limit that loses this scope is the fleet’s at once, also for what waits, and each worker’s own again', async () => {
      const second = await store.join(['q'], 60_000_000)
      const both = async (): Promise<number> =>
        (await claim()).jobs.length + (await claim(100, store, 'q', second)).jobs.length
      await define({ r: own })
      await store.enqueue(jobs('a', ['r:k'], 20))
      expect(await both()).toBe(4)
      await define({ r: { rate: 3, per: '1h' } })
      expect(await both()).toBe(3)
      expect(await store.inspect('r')).toMatchObject([{ key: 'k', available: 0, waiting: 13 }])
      expect(await number('SELECT count(*) FROM sluice.lanes WHERE base IS NOT NULL OR state = 3')).toBe(0)
      // Units that a worker has used of its own budget stay used.
      await define({ r: own })
      expect(await both()).toBe(0)
      await define({ r: { ...own, rate: 5 } })
      expect((await store.throttled(10)).rows.map((each) => each.worker)).toEqual([worker, second])
    })

    test('a worker that fell silent has its budget as it left it when it is heard of again', async () => {
      const second = await store.join(['q'], 60_000_000)
      await define({ r: own })
      await store.enqueue(jobs('a', ['r'], 20))
      expect(names(await claim(1, store, 'q', second))).toEqual(['a1'])
      await rows(`UPDATE sluice.workers SET alive_until = 1 WHERE id = ${second}`)
      await store.recover()
      expect(await number(`SELECT count(*) FROM sluice.lanes WHERE worker = ${second}`)).toBe(0)
      expect(names(await claim())).toEqual(['a2', 'a3'])
      await store.heartbeat(second, [], 60_000_000)
      expect(names(await claim(100, store, 'q', second))).toEqual(['a4'])
    })

    test('costs nothing without such a limit, and two round trips with one', async () => {
      const look = async (): Promise<string[]> => {
        await claim(0)
        pool.queries.length = 0
        expect((await claim()).jobs).toHaveLength(2)
        return pool.queries.map((text) => (isLook(text) ? 'look' : isWrite(text) ? 'write' : 'other'))
      }
      await store.enqueue(jobs('a', [], 2))
      expect((await look()).length).toBeLessThanOrEqual(2)
      expect(await number('SELECT count(*) FROM sluice.apart')).toBe(0)
      await define({ r: own })
      await store.enqueue(jobs('b', ['r'], 3))
      // Once, as a bucket closes, who waits for it is counted for the event.
      expect(await look()).toEqual(['look', 'write', 'other'])
      await store.penalize('r', '', 1)
      pool.queries.length = 0
      expect((await claim()).jobs).toEqual([])
      expect(pool.queries.length).toBeLessThanOrEqual(2)
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

    test('a claim of jobs without limits alone is one round trip, until there is something to decide again', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue([job('first')])
      expect(names(await claim())).toEqual(['first'])
      await store.enqueue([job('low'), job('high', [], { priority: 1 }), job('last')])
      pool.queries.length = 0
      expect(names(await claim(2))).toEqual(['high', 'low'])
      expect(pool.queries).toHaveLength(1)
      await store.enqueue([job('limited', ['r'], { priority: 2 })])
      expect(names(await claim(1))).toEqual(['limited'])
      expect(names(await claim())).toEqual(['last'])
    })

    test('a job without limits that somebody else holds is left out, and looked for again soon', async () => {
      await store.enqueue([job('first')])
      expect(names(await claim())).toEqual(['first'])
      await store.enqueue(jobs('a', [], 3))
      const holder = await admin.connect()
      await holder.query('BEGIN')
      await holder.query(`SELECT 1 FROM "${schema}".jobs WHERE task = 'a1' FOR UPDATE`)
      const around = await claim()
      expect(names(around)).toEqual(['a2', 'a3'])
      expect((around.nextWakeUs ?? Infinity) - around.nowUs).toBeLessThan(1_000_000)
      await holder.query('ROLLBACK')
      holder.release()
      const then = await claim()
      expect(names(then)).toEqual(['a1'])
      expect(then.nextWakeUs).toBeNull()
    })

    test('of processes that claim the same jobs without limits at once, each job goes to one', async () => {
      const fleet = [{ store, worker }]
      for (let n = 0; n < 3; n++) {
        const { store: other } = await another()
        fleet.push({ store: other, worker: await other.join(['q'], 60_000_000) })
      }
      const ask = (each: (typeof fleet)[number], slots: number): Promise<Claim> =>
        each.store.claim(() => ({
          worker: each.worker,
          leaseUs: 60_000_000,
          queues: [{ queue: 'q', slots }],
        }))
      for (const each of fleet) {
        await store.enqueue([job('first')])
        expect(names(await ask(each, 1))).toEqual(['first'])
      }
      await store.enqueue(jobs('a', [], 200))
      const had: string[] = []
      while (had.length < 200) had.push(...(await Promise.all(fleet.map((each) => ask(each, 10)))).flatMap(names))
      expect(new Set(had).size).toBe(200)
      expect(had).toHaveLength(200)
    })

    test('more arrivals of a key that has run out than one claim takes in do not hide another key', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue(jobs('a', ['r:closed'], 2))
      expect(names(await claim())).toEqual(['a1'])
      // Each call of SQL's is an arrival of its own.
      await admin.query(
        `SELECT "${schema}".enqueue('b', 'null', queue => 'q', limits => '[{"limit": "r", "key": "closed"}]') FROM generate_series(1, 2500)`,
      )
      await store.enqueue([job('fresh', ['r:open'])])
      const started: string[] = []
      let claimed = await claim()
      for (; claimed.nextWakeUs === claimed.nowUs; claimed = await claim()) started.push(...names(claimed))
      expect([...started, ...names(claimed)]).toEqual(['fresh'])
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

    test('in whatever order transactions begin, write and end, each claim takes in all that has been committed until then', async () => {
      await define({ r: { rate: 1e6, per: '1s' } })
      const other = (await another()).store
      const its = await other.join(['q'], 60_000_000)
      const random = seededRandom(7)
      const chance = (): number => random.next()
      const writers = await Promise.all(Array.from({ length: 5 }, () => admin.connect()))
      const written = new Map<PoolClient, string[]>()
      let [made, due] = [0, [] as string[]]
      for (let step = 0; step < 150; step++) {
        const writer = writers[Math.floor(chance() * writers.length)] as PoolClient
        const what = chance()
        if (what < 0.4) {
          if (!written.has(writer)) await writer.query('BEGIN')
          const name = `j${++made}`
          await store.enqueue([job(name, [`r:k${Math.floor(chance() * 4)}`])], writer)
          written.set(writer, [...(written.get(writer) ?? []), name])
        } else if (what < 0.6) {
          const commits = chance() < 0.7
          if (commits) due.push(...(written.get(writer) ?? []))
          if (written.delete(writer)) await writer.query(commits ? 'COMMIT' : 'ROLLBACK')
        } else {
          const claimed = await (chance() < 0.5 ? claim(1000) : claim(1000, other, 'q', its))
          expect(names(claimed).sort(), `step ${step}`).toEqual(due.sort())
          due = []
        }
      }
      for (const writer of writers) writer.release(true)
      expect(made).toBeGreaterThan(30)
    })

    test('while an old snapshot keeps them from being vacuumed, arrivals that were taken in are not read again', async () => {
      await define({ r: { rate: 1e6, per: '1s' } })
      const holder = await admin.connect()
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()')
      await admin.query(
        `SELECT "${schema}".enqueue('b', 'null', queue => 'q', limits => '[{"limit": "r", "key": "k"}]') FROM generate_series(1, 5000)`,
      )
      const taker = await admin.connect()
      const run = (sql: string): Promise<{ rows: Record<string, string>[] }> =>
        taker.query(sql.replaceAll('sluice.', `"${schema}".`))
      for (let turn = 0; turn < 8; turn++) await run(`SELECT sluice.take_arrivals(ARRAY['q'], 0, NULL, NULL, 0)`)
      expect(await number('SELECT count(*) FROM sluice.arrivals')).toBe(0)
      const pages = async (): Promise<number> => {
        const explained = await run(`EXPLAIN (ANALYZE, BUFFERS, TIMING off) SELECT sluice.has_arrived(ARRAY['q'])`)
        const hit = /shared hit=(\d+)/.exec(explained.rows.map((each) => each['QUERY PLAN']).join('\n'))
        return Number(hit?.[1] ?? 0)
      }
      // The plans are made first.
      await pages()
      const later = await pages()
      await run(`SELECT sluice.remember_taken_in(ARRAY['q'], '1:1:')`)
      expect(later).toBeLessThan((await pages()) / 5)
      taker.release(true)
      holder.release(true)
    })

    test('sets of queues that share a place of what a connection remembers do not pass for each other', async () => {
      const placed = await rows<{ name: string }>(
        `SELECT 'q' || n AS name FROM generate_series(1, 1000) n WHERE sluice.taken_in_place(sluice.taken_in_set(ARRAY['q' || n]))
         = sluice.taken_in_place(sluice.taken_in_set(ARRAY['q'])) LIMIT 1`,
      )
      const neighbour = placed[0]?.name ?? expect.fail('None of a thousand shares a place')
      await define({ r: { rate: 9, per: '1h' } })
      const near = await store.join([neighbour], 60_000_000)
      await store.enqueue([job('there', ['r'], { queue: neighbour })])
      // A later snapshot of other queues, on the only connection that claims.
      await store.enqueue([job('here', ['r'])])
      expect(names(await claim())).toEqual(['here'])
      expect(names(await claim(1, store, neighbour, near))).toEqual(['there'])
    })

    test('what comes due while a claim waits for a bucket is looked at again at once', async () => {
      await define({ soon: { rate: 1, per: '300ms' }, other: { rate: 9, per: '1h' } })
      await store.enqueue([...jobs('a', ['soon:k'], 2), job('b', ['other:k'])])
      expect(names(await claim()).sort()).toEqual(['a1', 'b'])
      await store.enqueue([job('c', ['other:k'])])
      const holder = await admin.connect()
      await holder.query(`BEGIN; SELECT FROM "${schema}".buckets WHERE limit_name = 'other' FOR UPDATE`)
      const waiting = claim()
      const isDue = `SELECT count(*) FROM sluice.buckets WHERE wake_at <= sluice.now_us()`
      const isHeldUp = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${schema}%claim_look%'`
      await expect.poll(() => number(isHeldUp)).toBe(1)
      await expect.poll(() => number(isDue)).toBe(1)
      await holder.query('COMMIT')
      holder.release()
      const claimed = await waiting
      expect(names(claimed)).toEqual(['c'])
      expect(claimed.nextWakeUs).toBeLessThanOrEqual(claimed.nowUs)
      expect(names(await claim())).toEqual(['a2'])
    })

    test.each(['workers', 'jobs'])('a heartbeat that waits for the %s counts the lease from its end', async (table) => {
      await store.enqueue([job('a')])
      const { jobs: runs } = await claim()
      const holder = await admin.connect()
      await holder.query(`BEGIN; LOCK TABLE "${schema}".${table}`)
      const beat = store.heartbeat(worker, runs, 30_000_000)
      await waiting(holder)
      const waitedUntil = await number('SELECT sluice.now_us()')
      await holder.query('COMMIT')
      holder.release()
      expect(await beat).toEqual({ cancelled: [], lost: [] })
      const least = waitedUntil + 30_000_000
      expect(await number('SELECT due FROM sluice.jobs')).toBeGreaterThan(least)
      expect(await number(`SELECT alive_until FROM sluice.workers WHERE id = ${worker}`)).toBeGreaterThan(
        table === 'workers' ? least : 0,
      )
    })

    test('a clock that was given to a schema is given again after an upgrade has put the server’s back', async () => {
      const clock = createManualClock()
      const opened = async (): Promise<number> => {
        const given = new PostgresStore({ connection: pool, schema, clock, retention: RETENTION, notify: false })
        await given.open()
        const { nowUs } = await claim(1, given, 'q', await given.join(['q'], 60_000_000))
        return nowUs - given.nowUs()
      }
      expect(await opened()).toBe(0)
      await admin.query(FUNCTIONS.replaceAll('sluice.', `"${schema}".`))
      expect(await opened()).toBe(0)
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

    test('who dies while it resolves jobs has changed nothing or all, and the next claim of anybody finds what is left', async () => {
      await define({ crm: { rate: 2, per: '1h' } })
      await admin.query(`SELECT "${schema}".enqueue('sql', '1', 'q', max_attempts => n) FROM generate_series(1, 5) n`)
      const found = await claim()
      expect([names(found), found.unresolved]).toEqual([[], [{ queue: 'q', task: 'sql' }]])
      const kind = { queue: 'q', task: 'sql' }
      const resolve = async (by: PostgresStore, count: number): Promise<number> => {
        const listed = await by.unresolved.list(kind, count)
        const as = { uses: [{ limit: 'crm', key: 'k', weight: 1 }] }
        return (await by.unresolved.resolve(listed.map((each) => ({ job: each, as })))).length
      }
      pool.before = (text) => {
        if (text.includes('.resolve(')) throw new TypeError('the process dies here')
      }
      await expect(resolve(store, 5)).rejects.toThrow('dies here')
      pool.before = null
      const other = await another()
      expect((await claim(10, other.store)).unresolved).toEqual([kind])
      expect(await resolve(other.store, 2)).toBe(2)
      // Two at once: each job is resolved once.
      const both = await Promise.all([resolve(store, 5), resolve(other.store, 5)])
      expect(both[0] + both[1]).toBe(3)
      expect((await claim()).jobs.map(({ maxAttempts }) => maxAttempts)).toEqual([1, 2])
      expect((await claim()).unresolved).toEqual([])
      expect(await store.inspect('crm', 'k')).toMatchObject([{ available: 0, waiting: 3 }])
    })

    test('an unresolved job is given up when its longest wait is over, counted from when it came, and keeps its priority', async () => {
      await define({ crm: { rate: 9, per: '1h', maxWait: '10m' } })
      await admin.query(`SELECT "${schema}".enqueue('sql', '1', 'q', priority => p) FROM unnest(ARRAY[1, 7, 3]) p`)
      await rows(`UPDATE sluice.jobs SET since = since - 3600 * 1000000::bigint WHERE priority = 3`)
      const listed = await store.unresolved.list({ queue: 'q', task: 'sql' }, 9)
      expect(listed.map(({ priority }) => priority)).toEqual([7, 3, 1])
      await store.unresolved.resolve(listed.map((each) => ({ job: each, as: { uses: usesOf(['crm:k']) } })))
      const claimed = await claim()
      expect(claimed.jobs.map(({ priority }) => priority)).toEqual([7, 1])
      expect(claimed.rejected).toMatchObject([{ reason: 'late', limit: 'crm', key: 'k' }])
    })

    test('a claim that starts nothing tells the next instant of a wait list that another claim moves meanwhile', async () => {
      await define({ r: { rate: 1, per: '1h' } })
      await store.enqueue(jobs('r', ['r'], 2))
      expect(names(await claim())).toEqual(['r1'])
      const atUs = (await claim()).nextWakeUs
      expect(atUs).toBeGreaterThan(store.nowUs())
      // After a start that needed no decision the next claim of a process is made without one.
      const other = await another()
      await store.enqueue(jobs('plain', [], 1))
      expect(names(await claim(9, other.store))).toEqual(['plain1'])
      const holder = await admin.connect()
      try {
        // Another process has charged the bucket, and rung its list.
        await rows('UPDATE sluice.buckets SET wake_at = 1')
        await holder.query(`BEGIN; SELECT pg_advisory_xact_lock(hashtext('"${schema}".held'), hashtext('q'))`)
        const claimed = claim(9, other.store)
        await waiting(holder)
        await rows(`UPDATE sluice.buckets SET wake_at = ${atUs}`)
        await holder.query('COMMIT')
        expect((await claimed).nextWakeUs).toBe(atUs)
      } finally {
        holder.release()
      }
    })

    test('the function in SQL has limits in the order of the engine, with their weights, whatever planes their characters are of', async () => {
      await define({ crm: { rate: 9, per: '1h' } })
      const uses = inLaneOrder(['\u{1f600}', '\uff21', 'z'].map((key, i) => ({ limit: 'crm', key, weight: i + 1 })))
      await store.enqueue([job('engine', [], { uses })])
      const limits = JSON.stringify(uses.toReversed())
      await admin.query(`SELECT "${schema}".enqueue('sql', '1', 'q', $1::json)`, [limits])
      expect(await number('SELECT count(DISTINCT (lane, uses, weights)) FROM sluice.jobs')).toBe(1)
      expect((await claim()).jobs.map((each) => each.uses)).toEqual([uses, uses])
    })
  })
})

/** Until a transaction waits for a lock that this connection holds. */
async function waiting(holder: PoolClient): Promise<void> {
  const { rows: own } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  for (;;) {
    const { rows: found } = await admin.query('SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
      own[0]?.pid,
    ])
    if (found.length > 0) return
  }
}
