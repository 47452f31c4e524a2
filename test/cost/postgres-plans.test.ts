// The rows that a claim reads on PostgreSQL do not depend on how many jobs wait or have ended, with or without statistics.
import { uuidv7 } from 'uuidv7'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { type Watched, watchedStore } from '../store/postgres-watched.ts'

/** Keys that wait, each with two jobs; and jobs that have ended. CI asks for more. */
const KEYS = Number(process.env['SLUICE_PLAN_KEYS'] ?? 20_000)
const ENDED = 5 * KEYS
const SLOTS = 10
/** As many as one claim takes in. */
const NEW_LANES = 1000
const TABLES = ['jobs', 'lanes', 'buckets', 'arrivals']
const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 1, per: '1h' }, 'r'), version: 0 }
const FEW_KEYS = Array.from({ length: 50 }, (_, i) => `k${100 + i}`)

function newJob(queue: string): NewJob {
  const terms = { givenId: true, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }
  const none = { runAtMs: null, expiresAtMs: null, unique: null, extra: null }
  return { id: uuidv7(), task: 't', queue, priority: 0, input: '[]', uses: [], maxAttempts: 1, terms, ...none }
}

/** Rows of the big tables that a piece of work read, by any way. */
async function rowsReadIn({ schema, pool, sql }: Watched, work: () => Promise<void>): Promise<number> {
  const read = async (): Promise<number> => {
    const client = await pool.connect()
    // Both connections: what the test itself has read would else be counted whenever its connection reports it.
    for (const text of ['SELECT pg_stat_force_next_flush()', 'SELECT 1']) {
      await client.query({ text })
      await sql(text)
    }
    client.release()
    const { rows } = await sql(
      `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS n FROM pg_stat_user_tables
       WHERE schemaname = '${schema}' AND relname = ANY ('{${TABLES.join()}}')`,
    )
    return Number((rows as [{ n: string }])[0].n)
  }
  const before = await read()
  await work()
  return (await read()) - before
}

withPostgres('the plans of a store on PostgreSQL', () => {
  test('of empty analyzed tables let it take in new lanes without reading those that are there', async () => {
    const watched = watchedStore('plans_new', 1)
    const { store, sql } = watched
    onTestFinished(() => watched.end())
    await store.open()
    const worker = await store.join(['q'], 1e12)
    await store.define([LIMIT])
    await sql(`ANALYZE ${TABLES.join()}`)
    const taken: number[] = []
    for (let batch = 0; batch < 6; batch++) {
      const jobs = Array.from({ length: NEW_LANES }, (_, i) => ({
        ...newJob('q'),
        uses: [{ limit: 'r', key: `k${batch}-${i}`, weight: 1 }],
      }))
      await store.enqueue(jobs)
      const look = async (): Promise<void> => {
        const queues = [{ queue: 'q', slots: 1 }]
        expect((await store.claim(() => ({ worker, leaseUs: 30_000_000, queues }))).jobs).toHaveLength(1)
      }
      taken.push(await rowsReadIn(watched, look))
    }
    const [first = 0, last = 0] = [taken[0], taken.at(-1)]
    expect(last).toBeLessThan(first + NEW_LANES)
  }, 60_000)

  describe.each([
    ['made for the store as it is', false],
    ['made when it had one job', true],
  ])('%s', (_, isSmallFirst) => {
    // One connection: what it has read is what the store has read.
    const watched = watchedStore(isSmallFirst ? 'plans_small' : 'plans', 1)
    const { store, pool, schema, sql } = watched
    let worker = 0

    beforeAll(async () => {
      await store.open()
      worker = await store.join(['q'], 1e12)
      await store.define([LIMIT])
      for (const table of TABLES) await sql(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`)
      if (isSmallFirst) await throughAll()
      // Every bucket is empty for an hour; all keys wait.
      await sql(`INSERT INTO buckets (limit_name, key, lanes, wake_at, state, revision, touched)
      SELECT 'r', 'k' || i, 1, now_us() + 3600000000, '[' || now_us() || ',0,1,3600000000,0,0,0,-1]', 1, now_us() FROM generate_series(1, ${KEYS}) i`)
      await sql(`INSERT INTO lanes (key, queue, buckets, state, bucket, turn, head)
      SELECT lane_key('q', '[["r","' || b.key || '"]]'), 'q', ARRAY[b.id], 2, b.id, now_us(), b.id FROM buckets b WHERE b.key <> 'first'`)
      await sql(`INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, uses, input)
      SELECT gen_random_uuid(), 't', 'q', 1, l.key, 0, 3, now_us(), now_us(), '[["r","' || b.key || '"]]', 'null' FROM lanes l JOIN buckets b ON b.id = l.bucket, generate_series(1, 2)`)
      await sql(`INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, input)
      SELECT gen_random_uuid(), 't', 'q', 3, '["q"]', 0, 3, now_us(), now_us(), now_us() + 1000000000000, 'null' FROM generate_series(1, ${ENDED})`)
    }, 300_000)

    afterAll(() => watched.end())

    const PAGES: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['keys of a limit', () => store.limitKeys({ limit: 'r', sort: 'key', after: null, rows: 50 })],
      ['buckets by their keys', () => store.inspectKeys('r', FEW_KEYS)],
      ['a bucket', () => store.inspect('r', 'k77')],
      ['a wait list', () => store.waitList('r', 'k77', 25)],
      [
        'jobs of a state among the newest',
        () => store.list({ states: ['available'], from: 2 * KEYS, before: 2 * KEYS + 200 }),
      ],
      ['jobs of a rare state', () => store.jobsInStates(['discarded'], 100)],
    ]

    function offer(): Promise<unknown> {
      return store.push(
        [5, 6, 7].map((priority) => ({ ...newJob('bounded'), priority })),
        [],
      )
    }

    /** Has the connection plan the statements of a job's life while all tables are empty, or nearly so. */
    async function throughAll(): Promise<void> {
      await sql(`ANALYZE ${TABLES.join()}`)
      for (const uses of [[], [{ limit: 'r', key: 'first', weight: 1 }]]) {
        await store.enqueue([0, 1].map(() => ({ ...newJob('q'), uses })))
        await ofJobs((await claim()).jobs)
      }
      await store.recover()
      await store.promote(100)
      await store.prune(100)
      await store.boundQueue('bounded', { maxDepth: 100, warnAt: null })
      await offer()
      await store.overdueRuns(10)
      for (const [, page] of PAGES) await page()
      await store.limitKeys({ limit: 'r', sort: 'next', after: null, rows: 50 })
      await store.throttled(50, KEYS - 500)
      await store.sample(1)
    }

    async function ofJobs(jobs: readonly { seq: number; attempt: number }[]): Promise<void> {
      for (const { seq, attempt } of jobs)
        await store.settle(worker, { seq, attempt, kind: 'retry', delayUs: 0, error: { code: 'x', message: 'x' } })
      // Every other job is kept for no time.
      for (const [n, { seq, attempt }] of (await claim()).jobs.entries())
        await store.settle(worker, { seq, attempt, kind: 'complete', result: null, ...(n % 2 === 0 && { keepUs: 0 }) })
    }

    const rowsRead = (work: () => Promise<void>): Promise<number> => rowsReadIn(watched, work)

    const claim = (): Promise<{ jobs: readonly { seq: number; attempt: number }[] }> =>
      store.claim(() => ({ worker, leaseUs: 30_000_000, queues: [{ queue: 'q', slots: SLOTS }] }))

    async function due(count: number): Promise<void> {
      await sql(
        `UPDATE buckets SET wake_at = now_us(), state = NULL WHERE id IN (SELECT id FROM buckets WHERE wake_at > now_us() LIMIT ${count})`,
      )
    }

    describe.each([['without statistics'], ['with statistics']])('%s', (name) => {
      beforeAll(async () => {
        if (name === 'with statistics') await sql(`ANALYZE ${TABLES.join()}`)
      })

      test('an empty look reads next to nothing', async () => {
        await claim()
        const read = await rowsRead(async () => expect((await claim()).jobs).toHaveLength(0))
        expect(read).toBeLessThan(50)
      })

      test('a claim reads some rows for each of the lanes that it looks at, and no more', async () => {
        await due(SLOTS)
        const read = await rowsRead(async () => expect((await claim()).jobs).toHaveLength(SLOTS))
        expect(read).toBeGreaterThan(3 * SLOTS)
        expect(read).toBeLessThan(60 * SLOTS)
      })

      test('a settlement and an enqueue read what they write', async () => {
        await due(SLOTS)
        const claimed = await store.claim(() => ({
          worker,
          leaseUs: 30_000_000,
          queues: [{ queue: 'q', slots: SLOTS }],
        }))
        const read = await rowsRead(async () => {
          await Promise.all(
            claimed.jobs.map(({ seq, attempt }) =>
              store.settle(worker, { seq, attempt, kind: 'retry', delayUs: 0, error: { code: 'x', message: 'x' } }),
            ),
          )
        })
        expect(claimed.jobs).toHaveLength(SLOTS)
        expect(read).toBeLessThan(10 * SLOTS)
      })

      test('an offer to a bounded queue reads what stands in that queue, and looking after runs reads what is over', async () => {
        await store.boundQueue('bounded', { maxDepth: 100, warnAt: null })
        await offer()
        const read = await rowsRead(async () => {
          expect(await offer()).toMatchObject({ kind: 'stored' })
          await store.overdueRuns(10)
        })
        expect(read).toBeLessThan(100)
      })

      test.each(PAGES)('a page of %s reads its rows, and what waits for them', async (_, page) => {
        await page()
        expect(await rowsRead(async () => void (await page()))).toBeLessThan(1000)
      })

      test('the queues of lanes are found by one row for each', async () => {
        const read = await rowsRead(async () => {
          const client = await pool.connect()
          const answer = await client.query({ text: `SELECT unnest("${schema}".queues_of(77)) AS queue` })
          client.release()
          expect(answer).toMatchObject({ rows: expect.arrayContaining([{ queue: 'q' }]) as unknown })
        })
        expect(read).toBeLessThan(20)
      })

      test('a page of keys by their next start reads the keys of one limit at most, and what waits for its own', async () => {
        const page = () => store.limitKeys({ limit: 'r', sort: 'next', after: null, rows: 50 })
        expect(await rowsRead(async () => void (await page()))).toBeLessThan(KEYS + 1000)
      })

      test('a sample and a part of the wait lists read some thousand rows', async () => {
        expect(await rowsRead(async () => void (await store.throttled(50, KEYS - 500)))).toBeLessThan(5000)
        expect(await rowsRead(async () => void (await store.sample(1)))).toBeLessThan(30_000)
      })

      test('recovery, promotion and pruning read what they change', async () => {
        // Empty lanes with shares: pruning looks for jobs that may come back to them.
        await sql(`INSERT INTO lanes (key, queue, buckets, state, share, emptied)
        SELECT 'empty' || i || '${name}', 'q', '{}', 0, 3, 0 FROM generate_series(1, 20) i`)
        await sql(`INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, due, uses, input)
        SELECT gen_random_uuid(), 't', 'q', 0, 'later', 0, 3, now_us(), now_us(), wall_us() + 3600000000, '[["r","later"]]', 'null' FROM generate_series(1, 2000)`)
        const read = await rowsRead(async () => {
          await store.recover()
          await store.promote(100)
          await store.prune(100)
        })
        expect(read).toBeLessThan(1000)
      })
    })
  })
})
