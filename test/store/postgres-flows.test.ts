// Flows on PostgreSQL under many hands: who waits for whom, what it costs, and that every tally is exact; on the server's own clock.
import { Pool } from 'pg'
import { uuidv7 } from 'uuidv7'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { seededRandom } from '../../src/exports/index.ts'
import { dependencies, type FlowJob, type NewFlow } from '../../src/jobs/new-flow.ts'
import type { PlainFlowKind } from '../../src/jobs/flow.ts'
import type { GrantedJob, NewJob } from '../../src/jobs/job.ts'
import type { Settlement } from '../../src/jobs/settlement.ts'
import { levelOf } from '../../src/policy/admission/ageing.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Claim } from '../../src/store/contract/store.ts'
import { FAILURE, usesOf } from '../conformance/store/store-harness.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'
import { dropSchema } from '../drop-schema.ts'

const SEED = Number(process.env['FLOWS_SEED'] ?? 7)
const admin = new Pool({ connectionString: POSTGRES_URL, max: 4 })
admin.on('error', () => undefined)
let schema = ''
let count = 0
let worker = 0
let pools: WatchedPool[] = []
let stores: PostgresStore[] = []

/** A store as a process of its own has it. */
async function open(connections = 4): Promise<PostgresStore> {
  const pool = new WatchedPool(connections)
  const store = new PostgresStore({ connection: pool, schema, clock: systemClock, retention: RETENTION, notify: false })
  await store.open()
  pools.push(pool)
  stores.push(store)
  return store
}

function job(task: string, more: Partial<NewJob> = {}): NewJob {
  const times = { runAtMs: null, expiresAtMs: null }
  return {
    id: uuidv7(),
    task,
    queue: 'q',
    priority: 0,
    input: 'null',
    uses: [],
    maxAttempts: 1,
    unique: null,
    extra: null,
    ...times,
    ...more,
  }
}

function flowJob(task: string, more: Partial<NewJob> = {}): FlowJob {
  return { job: job(task, more), delayUs: null }
}

/** A flow whose jobs are named by their numbers, and wait for each other as its kind says or as told. */
function flowOf(
  kind: PlainFlowKind,
  size: number,
  after: readonly (readonly number[])[] = dependencies(kind, size),
  limits: (node: number) => readonly string[] = () => [],
): NewFlow {
  const nodes = after.map((before, node) => ({ ...flowJob(`n${node}`, { uses: usesOf(limits(node)) }), after: before }))
  const callbacks = kind === 'batch' ? { success: flowJob('s'), failure: flowJob('f'), complete: flowJob('c') } : {}
  return { id: uuidv7(), kind, name: null, nodes, callbacks, extra: null }
}

function claim(store: PostgresStore, slots = 1000): Promise<Claim> {
  return store.claim(() => ({ worker, leaseUs: 60_000_000, queues: [{ queue: 'q', slots }] }))
}

function complete({ seq, attempt }: GrantedJob, result: string | null = null): Settlement {
  return { seq, attempt, kind: 'complete', result }
}

async function rows<T = Record<string, unknown>>(sql: string): Promise<T[]> {
  return (await admin.query(sql.replaceAll('sluice.', `"${schema}".`))).rows as T[]
}

/** Answers once a statement of this test that has this text waits for a lock. */
async function waitingFor(text: string): Promise<void> {
  const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0 AND strpos(query, $2) > 0`
  while ((await admin.query(waits, [`"${schema}"`, text])).rows.length === 0);
}

/** Holds a flow's row while something else is begun that has to wait for it. */
async function holding(id: string, work: () => Promise<void>): Promise<void> {
  const holder = await admin.connect()
  try {
    await holder.query('BEGIN')
    await holder.query(`SELECT 1 FROM "${schema}".flows WHERE id = $1 FOR UPDATE`, [id])
    await work()
  } finally {
    await holder.query('ROLLBACK')
    holder.release()
  }
}

/** Lets something else happen before the first statement that has this text, once. */
function meanwhile(pool: WatchedPool, text: string, what: () => Promise<unknown>): void {
  // eslint-disable-next-line no-param-reassign -- it is the watcher
  pool.before = async (sql) => {
    if (!sql.includes(text)) return
    // eslint-disable-next-line no-param-reassign -- it is the watcher
    pool.before = null
    await what()
  }
}

function deadlocks(): number {
  return pools.reduce((sum, { errors }) => sum + (errors.get('40P01') ?? 0), 0)
}

withPostgres('flows on PostgreSQL', () => {
  let store: PostgresStore
  let pool: WatchedPool

  beforeEach(async () => {
    schema = `sluice_flows_${process.pid}_${++count}`
    pools = []
    stores = []
    store = await open()
    pool = pools[0]!
    worker = await store.join(['q'], 60_000_000)
  })

  afterEach(async () => {
    for (const each of pools) each.before = each.after = null
    for (const each of stores) await each.close()
    for (const each of pools) await each.end()
    await dropSchema(admin, schema)
  })

  afterAll(() => admin.end())

  const stateOf = async (given: FlowJob): Promise<string | undefined> => (await store.get(given.job.id))?.state

  describe('locks', () => {
    test('a pending job that is cancelled while the one before it completes: neither waits for ever', async () => {
      const other = await open()
      const flow = flowOf('chain', 3)
      await store.startFlow(flow)
      const first = (await claim(store)).jobs[0]!
      let settling: Promise<unknown> = Promise.resolve()
      meanwhile(pool, 'advance(', async () => {
        settling = other.settle(worker, complete(first))
        await waitingFor('settle(')
      })
      expect(await store.cancel(flow.nodes[1]!.job.id)).toMatchObject({ kind: 'cancelled' })
      expect(await settling).toMatchObject({ kind: 'settled', flow: { ended: 'failed' } })
      expect(await Promise.all(flow.nodes.map(stateOf))).toEqual(['completed', 'cancelled', 'cancelled'])
      expect(await store.getFlow(flow.id)).toMatchObject({ state: 'failed', completed: 1, cancelled: 2 })
      expect(deadlocks()).toBe(0)
    })

    test('a job whose time comes just when it is cancelled is cancelled all the same', async () => {
      const other = await open()
      const flow = flowOf('chain', 3)
      await store.startFlow(flow)
      const first = (await claim(store)).jobs[0]!
      meanwhile(pool, 'flows WHERE seq = $1 FOR UPDATE', () => other.settle(worker, complete(first)))
      expect(await store.cancel(flow.nodes[1]!.job.id)).toMatchObject({ kind: 'cancelled', flow: { ended: 'failed' } })
      expect(await Promise.all(flow.nodes.map(stateOf))).toEqual(['completed', 'cancelled', 'cancelled'])
    })

    test('a flow that is cancelled just when the time of its next job comes takes that with it', async () => {
      const other = await open()
      const flow = flowOf('chain', 3)
      await store.startFlow(flow)
      const first = (await claim(store)).jobs[0]!
      let settling: Promise<unknown> = Promise.resolve()
      let cancelling: Promise<unknown> = Promise.resolve()
      await holding(flow.id, async () => {
        settling = other.settle(worker, complete(first))
        await waitingFor('settle(')
        cancelling = store.cancelFlow(flow.id)
        await waitingFor('ORDER BY seq FOR UPDATE')
      })
      expect(await settling).toMatchObject({ kind: 'settled', state: 'completed' })
      expect(await cancelling).toMatchObject({ kind: 'cancelled', requested: [] })
      expect(await Promise.all(flow.nodes.map(stateOf))).toEqual(['completed', 'cancelled', 'cancelled'])
      expect(await store.getFlow(flow.id)).toMatchObject({ state: 'cancelled', completed: 1, cancelled: 2 })
      expect((await claim(store)).jobs).toEqual([])
    })

    test('a claim whose decision grew old while a flow was held decides anew', async () => {
      await store.define([
        { name: 'd', policy: normalisePolicy({ rate: 1, per: '1h', onLimit: 'drop' }, 'd'), version: 0 },
      ])
      await store.enqueue([job('x', { uses: usesOf(['d']) })])
      const flow = { ...flowOf('batch', 1), nodes: [{ ...flowJob('a', { uses: usesOf(['d']) }), after: [] }] }
      await store.startFlow(flow)
      let claiming: Promise<Claim> | null = null
      let releasedUs = 0
      await holding(flow.id, async () => {
        claiming = claim(store)
        await waitingFor('lock_flows(')
        await admin.query('SELECT pg_sleep(0.12)')
        releasedUs = Number((await rows<{ now: string }>('SELECT sluice.now_us() AS now'))[0]?.now)
      })
      const claimed = await claiming!
      expect(claimed.jobs.map(({ task }) => task)).toEqual(['x'])
      expect(claimed.nowUs).toBeGreaterThanOrEqual(releasedUs)
      expect(claimed.flows).toMatchObject([{ id: flow.id, ended: 'failed' }])
      expect(pool.errors.get('SL001')).toBe(1)
    })

    test('an enqueue, a start of a flow and jobs of no flow wait for no flow that is held', async () => {
      const flow = flowOf('chain', 2)
      await store.startFlow(flow)
      await store.enqueue([job('x')])
      const claimed = (await claim(store)).jobs
      await holding(flow.id, async () => {
        await store.enqueue([job('y')])
        await store.startFlow(flowOf('group', 3))
        const plain = claimed.find(({ task }) => task === 'x')!
        expect(await store.settle(worker, complete(plain))).toMatchObject({ kind: 'settled' })
        expect((await claim(store)).jobs).toHaveLength(4)
      })
    })
  })

  describe('under many hands', () => {
    test('jobs of one flow that end in several processes at once: every end counts, and the last one ends it', async () => {
      const SIZE = 300
      const others = [store, await open(), await open(), await open()]
      const flow = flowOf('batch', SIZE)
      await store.startFlow(flow)
      const claimed = (await claim(store)).jobs
      expect(claimed).toHaveLength(SIZE)
      // One after the other in each: else a process would settle all of its own together.
      const answers = await Promise.all(
        others.map(async (each, at) => {
          const ended: string[] = []
          for (let i = at; i < SIZE; i += others.length) {
            const answer = await each.settle(worker, complete(claimed[i]!))
            if (answer.kind === 'settled' && answer.flow?.ended) ended.push(answer.flow.ended)
          }
          return ended
        }),
      )
      expect(answers.flat()).toEqual(['completed'])
      expect(await store.getFlow(flow.id)).toMatchObject({ state: 'completed', completed: SIZE })
      expect((await claim(store)).jobs.map(({ task }) => task)).toEqual(['s', 'c'])
      expect(deadlocks()).toBe(0)
    })

    test('statements that each end jobs of many flows at once lock these in one order', async () => {
      const random = seededRandom(SEED)
      const others = [store, await open(), await open()]
      const flows = Array.from({ length: 12 }, () => flowOf('group', 60))
      for (const flow of flows) await store.startFlow(flow)
      const { jobs } = await claim(store)
      const shuffled = jobs.map((each) => ({ each, at: random.next() })).sort((a, b) => a.at - b.at)
      const settle = async (its: PostgresStore, from: number): Promise<void> => {
        for (let at = from; at < shuffled.length; at += 20 * others.length)
          await Promise.all(shuffled.slice(at, at + 20).map(({ each }) => its.settle(worker, complete(each))))
      }
      await Promise.all(others.map((its, i) => settle(its, 20 * i)))
      for (const { id } of flows) expect(await store.getFlow(id)).toMatchObject({ state: 'completed', completed: 60 })
      expect(deadlocks()).toBe(0)
    })

    test('settlements, recoveries, cancels and retries of many flows at once: no deadlock, every tally exact, all end', async () => {
      const random = seededRandom(SEED)
      const dice = (sides: number): number => Math.floor(random.next() * sides)
      const others = [store, await open(), await open()]
      const graph = Array.from({ length: 12 }, (_, node) => [...new Set([dice(12), dice(12)].filter((n) => n < node))])
      const policies = { few: { concurrency: 4 }, drops: { rate: 4, per: '1s', onLimit: 'drop' } } as const
      await store.define(
        Object.entries(policies).map(([name, policy]) => ({ name, policy: normalisePolicy(policy, name), version: 0 })),
      )
      // Claims that hold buckets end some jobs, settlements that hold jobs return permits of others.
      const limits = (node: number): string[] => (node % 4 === 1 ? ['few'] : node % 4 === 3 ? ['drops', 'few'] : [])
      const flows = Array.from({ length: 24 }, (_, i) =>
        i % 3 === 0
          ? flowOf('chain', 8)
          : i % 3 === 1
            ? flowOf('batch', 12, dependencies('batch', 12), limits)
            : flowOf('batch', 12, graph, limits),
      )
      for (const flow of flows) await store.startFlow(flow)
      const ids = flows.flatMap(({ nodes }) => nodes.map((node) => node.job.id))
      const meddling = { over: false }
      let dropped = 0
      const live = async (): Promise<number> =>
        Number((await rows('SELECT count(*) AS n FROM sluice.jobs WHERE state NOT IN (3, 6, 7)'))[0]?.['n'])
      const work = async (each: PostgresStore): Promise<void> => {
        while (!meddling.over || (await live()) > 0) {
          const { jobs, rejected } = await claim(each, 1 + dice(20))
          dropped += rejected.length
          await Promise.all(
            jobs.map((run) => {
              const { seq, attempt } = run
              return each.settle(
                worker,
                dice(8) === 0 ? { seq, attempt, kind: 'discard', error: FAILURE } : complete(run),
              )
            }),
          )
        }
      }
      const meddle = async (each: PostgresStore): Promise<void> => {
        for (let i = 0; i < 60; i++) {
          const id = ids[dice(ids.length)]!
          if (i % 3 === 0) await each.cancel(id)
          else if (i % 3 === 1) await each.retry(id)
          else if (i % 15 === 2) await each.cancelFlow(flows[dice(flows.length)]!.id)
          else await each.recover()
        }
      }
      const meddlers = Promise.all([meddle(await open()), meddle(await open())]).finally(() => (meddling.over = true))
      await Promise.all([...others.map(work), meddlers])
      const told = await rows(`
        SELECT f.id, f.state, f.completed, f.discarded, f.cancelled,
          count(*) FILTER (WHERE j.node < f.total AND j.state = 3)::int AS completed_jobs, count(*) FILTER (WHERE j.node < f.total AND j.state = 7)::int AS discarded_jobs,
          count(*) FILTER (WHERE j.node < f.total AND j.state = 6)::int AS cancelled_jobs, count(*) FILTER (WHERE j.state NOT IN (3, 6, 7))::int AS live,
          f.due IS NOT NULL AND f.finished IS NOT NULL AS over, count(*) FILTER (WHERE j.due IS NOT NULL)::int AS due
        FROM sluice.flows f JOIN sluice.jobs j ON j.flow = f.seq GROUP BY f.seq`)
      expect(told).toHaveLength(flows.length)
      for (const flow of told) {
        const { completed, discarded, cancelled } = flow
        expect(flow).toMatchObject({
          completed_jobs: completed,
          discarded_jobs: discarded,
          cancelled_jobs: cancelled,
          live: 0,
          due: 0,
          over: true,
        })
        expect([1, 2, 3]).toContain(flow['state'])
      }
      expect(dropped).toBeGreaterThan(0)
      expect(await rows('SELECT sum(active)::int AS held FROM sluice.buckets')).toEqual([{ held: 0 }])
      expect(deadlocks()).toBe(0)
    })
  })

  describe('what it costs', () => {
    test('a settlement is one statement, of a job of a flow too; a claim asks once more only for those', async () => {
      await store.enqueue([job('x')])
      await claim(store)
      await store.enqueue([job('y')])
      pool.queries.length = 0
      const plain = await claim(store)
      const without = pool.queries.length
      pool.queries.length = 0
      await store.settle(worker, complete(plain.jobs[0]!))
      expect(pool.queries).toHaveLength(1)
      for (let i = 0; i < 5; i++) await store.startFlow(flowOf('chain', 2))
      pool.queries.length = 0
      const { jobs } = await claim(store)
      expect(jobs).toHaveLength(5)
      expect(pool.queries).toHaveLength(without + 1)
      pool.queries.length = 0
      await Promise.all(jobs.map((each) => store.settle(worker, { ...complete(each), inFlow: true })))
      expect(pool.queries).toHaveLength(1)
      expect((await claim(store)).jobs.map(({ task }) => task)).toEqual(Array.from({ length: 5 }, () => 'n1'))
    })

    test('jobs of flows and others are settled together by callers that do not tell them apart', async () => {
      await store.enqueue([job('x')])
      await store.startFlow(flowOf('chain', 2))
      const { jobs } = await claim(store)
      expect(jobs).toHaveLength(2)
      const settled = await Promise.all(jobs.map((each) => store.settle(worker, complete(each))))
      expect(settled).toMatchObject([{ state: 'completed' }, { state: 'completed' }])
      expect((await claim(store)).jobs.map(({ task }) => task)).toEqual(['n1'])
    })

    test('a flow of 10,000 jobs is started by one statement, once its queue is on record', async () => {
      await store.startFlow(flowOf('group', 1))
      pool.queries.length = 0
      await store.startFlow(flowOf('group', 10_000))
      expect(pool.queries).toHaveLength(1)
      expect((await claim(store, 100)).jobs).toHaveLength(100)
    })

    test('the end of a job reads a few rows, however large its flow and whatever else there is, with and without statistics', async () => {
      for (const table of ['jobs', 'flows', 'flow_edges'])
        await admin.query(`ALTER TABLE "${schema}"."${table}" SET (autovacuum_enabled = false)`)
      const SIZE = 2000
      const behind = (node: number): number[] => (node >= SIZE / 2 ? [node - SIZE / 2] : [])
      const flow = flowOf(
        'batch',
        SIZE,
        Array.from({ length: SIZE }, (_, node) => behind(node)),
      )
      await store.startFlow(flow)
      // Flows that run, and flows that have ended in every way.
      await rows(
        `INSERT INTO sluice.flows (id, kind, state, total, edges, created) SELECT gen_random_uuid(), 'chain', i % 4, 10, 9, 1 FROM generate_series(1, 2000) i`,
      )
      await rows(`INSERT INTO sluice.jobs (id, task, queue, state, lane, priority, max_attempts, created, since, input, flow, node, waits)
        SELECT gen_random_uuid(), 't', 'p', 5 + (i + f.state) % 3, 'p', 0, 3, 1, 1, 'null', f.seq, i, 1 FROM sluice.flows f, generate_series(0, 9) i WHERE f.kind = 'chain'`)
      await rows(
        `INSERT INTO sluice.flow_edges SELECT a.seq, b.seq FROM sluice.jobs a JOIN sluice.jobs b ON b.flow = a.flow AND b.node = a.node + 1 WHERE a.queue = 'p'`,
      )
      for (const analysed of [false, true]) {
        if (analysed) for (const table of ['jobs', 'flows', 'flow_edges']) await rows(`ANALYZE sluice.${table}`)
        const { jobs } = await claim(store, 51)
        const [first, ...others] = jobs
        await store.settle(worker, complete(first!))
        const read = await rowsRead(() => Promise.all(others.map((each) => store.settle(worker, complete(each)))))
        expect(read).toBeGreaterThan(others.length)
        expect(read).toBeLessThan(50 * others.length)
        const { seq, attempt } = (await claim(store, 1)).jobs[0]!
        const failed = await rowsRead(() => store.settle(worker, { seq, attempt, kind: 'discard', error: FAILURE }))
        expect(failed).toBeLessThan(100)
      }
    })

    test('a job that waits in a flow is not written until its time comes', async () => {
      const flow = flowOf('chain', 3)
      await store.startFlow(flow)
      const last = `SELECT xmin, ctid FROM sluice.jobs WHERE id = '${flow.nodes[2]!.job.id}'`
      const before = await rows(last)
      const { jobs } = await claim(store)
      await store.settle(worker, complete(jobs[0]!))
      await store.recover()
      await store.prune(100)
      expect(await rows(last)).toEqual(before)
    })
  })

  test('what was done when its answer was lost is not done twice', async () => {
    const losing = async (text: string, work: () => Promise<unknown>): Promise<unknown> => {
      pool.after = (sql) => {
        if (!sql.includes(text)) return
        pool.after = null
        throw Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' })
      }
      const answer = await work().catch((error: unknown) => error)
      expect(pool.after, 'an answer was lost').toBeNull()
      return answer
    }
    const flow = flowOf('batch', 2)
    await losing('start_flow(', () => store.startFlow(flow))
    expect(await store.flows({})).toHaveLength(1)
    const { jobs } = await claim(store)
    expect(jobs).toHaveLength(2)
    for (const [i, job] of jobs.entries()) {
      expect(await losing('settle(', () => store.settle(worker, complete(job)))).toMatchObject({ lasts: 'passes' })
      expect(await store.settle(worker, complete(job), true)).toMatchObject({ kind: 'settled' })
      expect(await store.getFlow(flow.id)).toMatchObject({ completed: i + 1 })
    }
    expect(await store.getFlow(flow.id)).toMatchObject({ state: 'completed', completed: 2 })
    expect((await claim(store)).jobs.map(({ task }) => task)).toEqual(['s', 'c'])
  })

  test('a step is ordered as a job of its priority that came when its time did', async () => {
    const ageing = { everyUs: 1000, sinceUs: 500_000, steps: 7 }
    const cases = [0, 5, -100].flatMap((priority) =>
      [null, 0, 50].flatMap((reached) => [400_000, 500_000, 987_654_321].map((at) => [priority, reached, at] as const)),
    )
    for (const [priority, reached, at] of cases) {
      const [row] = await rows<{ level: string }>(
        `SELECT sluice.level_at('${JSON.stringify(ageing)}', ${priority}, ${reached}, ${at}) AS level`,
      )
      const steps = at < 500_000 ? 7 : 7 + Math.floor((at - 500_000) / 1000)
      expect(Number(row?.level)).toBe(levelOf(priority, steps, reached))
    }
    const still = JSON.stringify({ everyUs: null, sinceUs: 5, steps: 7 })
    expect(await rows(`SELECT sluice.level_at('${still}', 3, NULL, 99)::int AS level`)).toEqual([{ level: -4 }])
    expect(await rows('SELECT sluice.level_at(NULL, 3, 1, 99)::int AS level')).toEqual([{ level: 3 }])
  })

  /** Rows of jobs and flows that a piece of work read, by any way. */
  async function rowsRead(work: () => Promise<unknown>): Promise<number> {
    const read = async (): Promise<number> => {
      // Every connection tells what it has read.
      for (const its of [pool, admin]) {
        const clients = await Promise.all(Array.from({ length: 4 }, () => its.connect()))
        for (const client of clients) {
          await client.query({ text: 'SELECT pg_stat_force_next_flush()' })
          await client.query({ text: 'SELECT 1' })
        }
        for (const client of clients) client.release()
      }
      const [row] = await rows<{ n: string }>(
        `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) AS n FROM pg_stat_user_tables
         WHERE schemaname = '${schema}' AND relname IN ('jobs', 'flows', 'flow_edges')`,
      )
      return Number(row?.n)
    }
    const before = await read()
    await work()
    return (await read()) - before
  }
})
