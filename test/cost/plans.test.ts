import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { MAX_PARENT_RESULTS_BYTES } from '../../src/jobs/flow.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { FAILURE, StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteAt } from '../store/sqlite-backend.ts'
import { eachLog } from './statement-log.ts'

/** Reads a table from end to end, rightly: once when a process starts, leaves or dies; from the oldest on, to a bound. */
const ALLOWED: readonly RegExp[] = [
  /HAVING min\(queue\) < max\(queue\)/,
  /^SELECT b\.id, .* FROM buckets b WHERE b\.lanes = 0 AND b\.wake_at IS NULL ORDER BY b\.touched LIMIT/,
  // The jobs of one flow, in the order in which PostgreSQL locks them.
  /^SELECT count\(\*\) FROM \(SELECT 1\s+FROM jobs\s+WHERE flow = \?1\s/,
  /^SELECT DISTINCT q.value FROM workers/,
  /^SELECT DISTINCT tasks FROM workers/,
]

/** Flows that go on, fail, are opened again, cancelled and forgotten. */
async function flow(harness: StoreHarness): Promise<void> {
  const jobs = { a: {}, b: { after: ['a'] }, c: { after: ['a', 'b'], limits: ['g'] }, d: { after: ['c'] } }
  const callbacks = { success: 's', failure: 'f', complete: 'z' }
  const id = await harness.flow({ kind: 'batch', jobs, callbacks })
  const step = async (name: string): Promise<void> => {
    for (let i = 0; i < 10 && (await harness.get(name)).state === 'available'; i++) {
      harness.at(harness.clock.monotonicUs() / 1000 + 1000)
      await harness.claim({ slots: 50 })
    }
  }
  await step('a')
  await harness.complete('a')
  await step('b')
  await harness.settle('b', { kind: 'discard', error: FAILURE })
  await harness.store.retry(harness.id('b'))
  await step('b')
  await harness.settle('b', { kind: 'complete', result: JSON.stringify('x'.repeat(MAX_PARENT_RESULTS_BYTES)) })
  await harness.store.list({ flow: id })
  await harness.store.flows({})
  await harness.store.cancelFlow(await harness.chain('k', 'l'))
  await harness.cancel('d')
}

/** The work that a server does all the time for remote clients and workers. */
async function outsideWork(harness: StoreHarness): Promise<void> {
  const { store } = harness
  const terms = { givenId: true, pending: false, leaseUs: 1_000_000, timeoutUs: 500_000, deadLetter: true }
  const offered = ['o1', 'o2', 'o3'].map((task) => ({ ...harness.job(task, { limits: ['g'] }), terms }))
  const pending = { ...harness.job('o4'), terms: { ...terms, pending: true } }
  await store.boundQueue('q', { maxDepth: 1000, warnAt: null })
  await store.push([...offered, pending], [])
  await store.activate(pending.id, null)
  const { worker } = await store.registerWorker({ name: 'w', queues: ['q'], aliveUs: 1_000_000, about: null })
  const queues = [{ queue: 'q', slots: 4 }]
  const { jobs } = await harness.store.claim(() => ({ worker, leaseUs: 1_000_000, remote: true, queues }))
  for (const { id } of jobs) {
    await store.noteProgress(id, '{}')
    await store.details(id)
  }
  await store.overdueRuns(10)
  await store.pauseQueue('q', true)
  await store.pauseQueue('q', false)
}

/** Everything that a fleet at work does all the time. */
async function work(harness: StoreHarness): Promise<void> {
  const soon = harness.clock.now() + 5
  await harness.define({
    g: { rate: 3, per: '1s' },
    t: { rate: 2, per: '1s', concurrency: 2 },
    late: { rate: 1, per: '1s', maxWait: '1s' },
    h: { rate: 3, per: '1s', headroom: { units: 1, priority: 5 } },
    later: { rate: 1, per: '1s', onLimit: 'reschedule' },
    own: { rate: 1, per: '1s', concurrency: 1, scope: 'worker' },
  })
  await harness.store.join(['p'], 1_000_000)
  for (let tenant = 0; tenant < 20; tenant++) await harness.add(`t${tenant}-`, { limits: ['g', `t:${tenant}`] }, 3)
  await harness.add('late', { limits: ['late'] }, 4)
  await harness.add('later', { limits: ['later'] }, 4)
  for (let key = 0; key < 5; key++) await harness.add(`own${key}-`, { limits: ['g', `own:${key}`] }, 3)
  await harness.claim({ worker: await harness.store.join(['q'], 1_000_000) })
  await harness.store.list({ states: ['scheduled'] })
  await harness.cancel('later3')
  await harness.add('open', {}, 3)
  for (let tenant = 0; tenant < 3; tenant++) {
    await harness.add(`f${tenant}-`, { fairKey: `f${tenant}`, share: 2 }, 3)
    await harness.add(`l${tenant}-`, { limits: ['h'], fairKey: `f${tenant}` }, 3)
    await harness.add(`l${tenant}u`, { limits: ['h'], fairKey: `f${tenant}`, share: 3, priority: 5 })
  }
  await harness.add('timed', { runAtMs: soon }, 3)
  await harness.offer('unique', { unique: { key: 'k' } })
  await harness.offer('unique', { unique: { key: 'k', onConflict: 'update' }, limits: ['t:x'] })
  await harness.offer('unique', { unique: { key: 'k', onConflict: 'replace' } })
  for (let ms = 10; ms < 2000; ms += 200) {
    harness.at(ms)
    const { jobs } = await harness.claim({ slots: 6 })
    await harness.store.heartbeat(harness.worker, jobs, 30_000_000)
    await harness.store.cancellations(harness.worker)
    for (const [i, job] of jobs.entries())
      if (i === 0) await harness.retry(job.task, 100)
      else if (i === 1) await harness.retry(job.task)
      else if (i === 2) await harness.settle(job.task, { kind: 'discard', error: FAILURE })
      else if (i === 3) await harness.store.release(harness.worker, [job])
      else await harness.complete(job.task)
  }
  const job = { task: 'tick', queue: 'q', priority: 0, input: 'null', uses: [], maxAttempts: 1, extra: null }
  const rest = { immediately: false, untilMs: null, maxRuns: null, overlap: 'skip', onMissed: 'catchUp', job } as const
  await harness.store.schedule({ name: 's', recurrence: { kind: 'every', everyUs: 10_000_000 }, ...rest })
  await harness.store.schedule({ name: 'c', recurrence: { kind: 'cron', cron: '* * * * *', timezone: 'UTC' }, ...rest })
  await harness.override('g', { rate: 5 }, 2500)
  await harness.override('t:1', { concurrency: null })
  await harness.clear('t:1')
  await harness.pause('late', 3000)
  await harness.store.overrides()
  const told = { remaining: 1, resetUs: harness.us(9000), direction: 'both' } as const
  await harness.store.calibrate('g', '', { ...told, reset: 'window' })
  await harness.store.calibrate('t', '3', { ...told, reset: 'refill' })
  await harness.cancel('t19-3')
  await flow(harness)
  await outsideWork(harness)
  harness.at(60_000)
  await harness.claim({ slots: 6 })
  harness.at(200_000)
  await harness.recover()
  for (let i = 0; i < 3; i++) await harness.store.prune(100)
}

/** A connection that reads plans. The store defines these two functions for its own. */
function readerOf(path: string): DatabaseSync {
  const reader = new DatabaseSync(path)
  for (const clock of ['now_us', 'wall_us']) reader.function(clock, () => 0)
  return reader
}

describe('query plans', () => {
  const log = eachLog()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-plans-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  test('no statement of a fleet at work reads a growing table from end to end, nor sorts it, on tables never analysed', async () => {
    const path = join(folder, 'jobs.db')
    const harness = await StoreHarness.open({
      name: path,
      open: async (clock) => {
        const store = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION, ageingUs: 50_000 })
        await store.open()
        return store
      },
    })
    log().clear()
    await work(harness)
    const reader = readerOf(path)
    const texts = log().distinct.filter((sql) => /^(SELECT|UPDATE|DELETE|INSERT|WITH)/.test(sql))
    const faults = texts.flatMap((sql) => {
      if (ALLOWED.some((allowed) => allowed.test(sql))) return []
      const plan = reader.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
      const bad = plan.filter(
        ({ detail }) =>
          /^SCAN (jobs|lanes|buckets|flows|flow_edges|[ejlb])\b(?! VIRTUAL)/.test(detail) || /TEMP B-TREE/.test(detail),
      )
      return bad.map(({ detail }) => `${detail}: ${sql.replaceAll(/\s+/g, ' ')}`)
    })
    reader.close()
    await harness.store.close()
    expect(texts.length).toBeGreaterThan(30)
    expect(faults).toEqual([])
  })

  test('a filter by a limit looks at the buckets of each job, not at all buckets of the limit', async () => {
    const path = join(folder, 'filter.db')
    const harness = await StoreHarness.open(sqliteAt(path))
    await harness.define({ t: { rate: 1, per: '1s' } })
    for (let key = 0; key < 5; key++) await harness.add(`t${key}`, { limits: [`t:${key}`] })
    log().clear()
    expect(await harness.store.list({ limitName: 't' })).toHaveLength(5)
    const filters = log().distinct.filter((sql) => sql.includes('json_each(l.buckets)'))
    const reader = readerOf(path)
    for (const sql of filters) {
      const plan = reader.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]
      const details = plan.map(({ detail }) => detail).filter((detail) => /^(SEARCH|SCAN) b\b/.test(detail))
      expect(new Set(details)).toEqual(new Set(['SEARCH b USING INTEGER PRIMARY KEY (rowid=?)']))
    }
    reader.close()
    await harness.store.close()
    expect(filters.length).toBeGreaterThan(0)
  })

  test('no condition of an index lists more than two values: SQLite builds such a list for each row written', async () => {
    const path = join(folder, 'schema.db')
    const store = new SqliteStore({ path, clock: createManualClock(), durability: 'process', retention: RETENTION })
    await store.open()
    await store.close()
    const reader = new DatabaseSync(path)
    const conditions = reader.prepare("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'").all()
    reader.close()
    expect(conditions.length).toBeGreaterThan(10)
    expect(conditions.filter(({ sql }) => /WHERE.* IN \((\s*\w+\s*,){2,}/s.test(sql as string))).toEqual([])
  })
})
