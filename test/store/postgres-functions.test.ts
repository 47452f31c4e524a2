// The functions of the PostgreSQL store on a real server: each with what its TypeScript caller sends, and the rules that
// TypeScript has too by one table of cases for both.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Pool } from 'pg'
import { uuidv7 } from 'uuidv7'
import { afterAll, afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { type Callback, callbacksDue, consequence, FLOW_STATES, stateOf } from '../../src/jobs/flow.ts'
import type { GrantedJob, NewJob } from '../../src/jobs/job.ts'
import type { Settlement } from '../../src/jobs/settlement.ts'
import type { FlowJob, NewFlow } from '../../src/jobs/new-flow.ts'
import { type Ageing, levelOf, NO_AGEING, stepsAt, stepsOf } from '../../src/policy/admission/ageing.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Claim, ClaimRequest } from '../../src/store/contract/store.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { LANE, STATE } from '../../src/store/shared/state.ts'
import { MIGRATIONS } from '../../src/store/postgres/sql/embedded.ts'
import type { Context } from '../../src/store/sqlite/context.ts'
import { latestStartUs } from '../../src/store/sqlite/enqueue.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { FAILURE, usesOf } from '../conformance/store/store-harness.ts'
import { go, park, record } from '../conformance/store/workflow-harness.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'
import { dropSchema } from '../drop-schema.ts'

const folder = fileURLToPath(new URL('../../src/store/postgres/', import.meta.url))
const admin = new Pool({ connectionString: POSTGRES_URL, max: 2 })
admin.on('error', () => undefined)
let schema = ''
let count = 0
let pool: WatchedPool
let store: PostgresStore

function job(task: string, limits: readonly string[] = [], more: Partial<NewJob> = {}): NewJob {
  const times = { runAtMs: null, expiresAtMs: null }
  const fixed = { queue: 'q', priority: 0, input: 'null', maxAttempts: 3, unique: null, extra: null, ...times }
  return { id: uuidv7(), task, uses: usesOf(limits), ...fixed, ...more }
}

function flow(after: readonly (readonly number[])[], called: readonly Callback[] = []): NewFlow {
  const given = (task: string): FlowJob => ({ job: job(task), delayUs: null })
  const callbacks = Object.fromEntries(called.map((name) => [name, given(name)]))
  const nodes = after.map((before, node) => ({ ...given(`n${node}`), after: before }))
  return { id: uuidv7(), kind: 'batch', name: null, nodes, callbacks, extra: null }
}

async function ask<T>(sql: string, ...values: unknown[]): Promise<T[]> {
  return (await admin.query(sql.replaceAll('sluice.', `"${schema}".`), values)).rows as T[]
}

async function value(sql: string, ...values: unknown[]): Promise<number | null> {
  const [row] = await ask<Record<string, string | null>>(sql, ...values)
  const [first = null] = Object.values(row ?? {})
  return first === null ? null : Number(first)
}

withPostgres('the functions of PostgreSQL', () => {
  beforeEach(async () => {
    schema = `sluice_functions_${process.pid}_${++count}`
    pool = new WatchedPool()
    store = new PostgresStore({ connection: pool, schema, clock: systemClock, retention: RETENTION, notify: false })
    await store.open()
  })

  afterEach(async () => {
    await store.close()
    await pool.end()
    await dropSchema(admin, schema)
  })

  afterAll(() => admin.end())

  test('an upgrade lets go of what it has locked until it has all tables, and is repeated after a deadlock', async () => {
    await dropSchema(admin, schema)
    const first = `CREATE SCHEMA "${schema}"; ${MIGRATIONS[0]} INSERT INTO sluice.store VALUES ('version', '1')`
    await admin.query(first.replaceAll('sluice.', `"${schema}".`))
    const atWork = await admin.connect()
    onTestFinished(() => atWork.release(true))
    await atWork.query(`BEGIN; SELECT * FROM "${schema}".lanes`)
    let locks = 0
    pool.before = async (text) => {
      if (!text.includes('LOCK TABLE')) return
      // The process at work wants another table, and then ends its transaction.
      if (++locks === 2) await atWork.query(`SELECT * FROM "${schema}".workers; COMMIT`)
      if (locks === 2) throw Object.assign(new Error('deadlock detected'), { code: '40P01' })
    }
    const settings = { clock: systemClock, retention: RETENTION, notify: false }
    const other = new PostgresStore({ connection: pool, schema, ...settings })
    await other.open()
    expect(locks).toBeGreaterThan(2)
    expect(await other.enqueue([job('a')])).toMatchObject([{ kind: 'created' }])
    await other.close()
  })

  test('an upgrade gives up when another session holds a table for a minute, and has changed nothing', async () => {
    await dropSchema(admin, schema)
    const first = `CREATE SCHEMA "${schema}"; ${MIGRATIONS[0]} INSERT INTO sluice.store VALUES ('version', '1')`
    await admin.query(first.replaceAll('sluice.', `"${schema}".`))
    let waitedMs = 0
    pool.before = async (text) => {
      const [, ms] = /lock_timeout = (\d+); LOCK TABLE/.exec(text) ?? []
      if (ms === undefined) return
      waitedMs += Number(ms)
      throw Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })
    }
    const settings = { clock: systemClock, retention: RETENTION, notify: false }
    const other = new PostgresStore({ connection: pool, schema, ...settings })
    await expect(other.open()).rejects.toMatchObject({ code: 'store.busy', lasts: 'passes' })
    expect(waitedMs / 1000).toBeCloseTo(60, -1)
    expect(await value(`SELECT value::bigint FROM sluice.store WHERE name = 'version'`)).toBe(1)
    await other.close()
  })

  const AGEINGS: readonly Ageing[] = [
    NO_AGEING,
    { everyUs: 1000, sinceUs: 5_000_000, steps: 0 },
    { everyUs: 60_000_000, sinceUs: 1_000_000, steps: 70 },
    { everyUs: null, sinceUs: 9_000_000, steps: 3 },
  ]
  const PLACES = AGEINGS.flatMap((ageing) =>
    [0, -100, 100].flatMap((priority) =>
      // Where no priority has ever aged, no threshold is sent.
      (ageing === NO_AGEING ? [null] : [null, -100, 0, 50]).flatMap((reached) =>
        [0, 5_000_000, 5_000_999, 86_400_000_000].map((atUs) => ({ ageing, priority, reached, atUs })),
      ),
    ),
  )

  test('a level is the same in both languages', async () => {
    for (const { ageing, priority, reached, atUs } of PLACES) {
      const level = levelOf(priority, stepsAt(ageing, atUs), reached)
      const pace = ageing === NO_AGEING ? null : JSON.stringify(ageing)
      expect(await value('SELECT sluice.level_at($1, $2, $3, $4)', pace, priority, reached, atUs)).toBe(level)
    }
  })

  test('a job that takes the place of another keeps its steps, in both languages', async () => {
    for (const { ageing, priority: before, reached, atUs } of PLACES) {
      const level = levelOf(before, stepsAt(ageing, atUs), reached)
      const kept = levelOf(7, stepsOf(level, before), reached)
      expect(await value('SELECT sluice.level_of(7, $1, $2, $3)', level, before, reached)).toBe(kept)
    }
  })

  test('the latest start of a job is the same in both languages', async () => {
    // The policy's answer for all keys, for one key, and for one that it frees from any bound.
    const waits: readonly (readonly [key: string | null, maxWaitUs: number | null])[] = [
      [null, 5_000_000],
      ['own', 1_000_000],
      ['freed', null],
    ]
    for (const wait of waits) await ask(`INSERT INTO sluice.max_waits VALUES ('every', $1, $2)`, ...wait)
    const boundOf = (limit: string, key: string): number | null =>
      limit === 'every' ? (waits.find(([own]) => own === key) ?? waits[0])![1] : null
    const current = { policy: (limit: string, key: string) => ({ maxWaitUs: boundOf(limit, key) }) }
    const instant = { nowUs: 50_000_000, wallUs: 900_000 }
    const { nowUs, wallUs } = instant
    const used = [[], ['every'], ['none'], ['every:own'], ['every:freed'], ['none', 'every:own'], ['every', 'none']]
    for (const uses of used.map((limits) => usesOf(limits)))
      for (const expiresAtMs of [null, 1_000, 9_000]) {
        const expected = latestStartUs({ policies: { current } } as unknown as Context, uses, expiresAtMs, instant)
        const text = uses.length === 0 ? null : JSON.stringify(uses.map(({ limit, key }) => [limit, key]))
        const expiresUs = expiresAtMs === null ? null : expiresAtMs * 1000
        const found = await value('SELECT sluice.latest_start($1, $2, $3, $4)', text, expiresUs, nowUs, wallUs)
        expect(found, `${text} expires at ${expiresAtMs}`).toBe(expected)
      }
  })

  const ENDS = ['completed', 'discarded', 'cancelled'] as const
  const PAIRS = ENDS.flatMap((first) => ENDS.map((second) => [first, second] as const))

  test('a flow goes on as in TypeScript however its nodes end', async () => {
    for (const [first, second] of PAIRS) {
      // The third node waits for the first.
      await store.startFlow(flow([[], [], [0]], ['success', 'failure', 'complete']))
      const id = await value('SELECT max(seq) FROM sluice.flows')
      const stateAt = (node: number): Promise<number | null> =>
        value('SELECT state FROM sluice.jobs WHERE flow = $1 AND node = $2', id, node)
      const end = async (node: number, state: (typeof ENDS)[number]): Promise<void> => {
        const sql = 'UPDATE sluice.jobs SET state = $3 WHERE flow = $1 AND node = $2 RETURNING seq'
        await ask('SELECT sluice.advance($1, $2)', [await value(sql, id, node, STATE[state])], [1, 1, 1])
      }
      await end(0, first)
      const releases = consequence(first) === 'release'
      expect(await stateAt(2)).toBe(releases ? STATE.available : STATE.cancelled)
      if (releases) await end(2, 'completed')
      expect(await value('SELECT state FROM sluice.flows WHERE seq = $1', id)).toBe(0)
      await end(1, second)
      const ends = [first, second, releases ? 'completed' : 'cancelled']
      const [completed = 0, discarded = 0, cancelled = 0] = ENDS.map(
        (state) => ends.filter((each) => each === state).length,
      )
      const tally = { total: 3, completed, discarded, cancelled }
      const sql = 'SELECT total, completed, discarded, cancelled, state FROM sluice.flows WHERE seq = $1'
      expect(await ask(sql, id)).toEqual([{ ...tally, state: FLOW_STATES.indexOf(stateOf(tally)) }])
      const called = 'SELECT task FROM sluice.jobs WHERE flow = $1 AND node > 2 AND state = $2 ORDER BY task'
      const due = await ask<{ task: string }>(called, id, STATE.available)
      expect(due.map(({ task }) => task)).toEqual(callbacksDue(stateOf(tally)).toSorted())
    }
  })

  test('a job without limits and times is stored as it is beside others that have some', async () => {
    const fields = { priority: -3, maxAttempts: 7, fairKey: 'f', extra: '{"tags":["x"]}', input: '{"n":1}' }
    const alone = job('plain', [], fields)
    const beside = job('plain', [], fields)
    await store.boundQueue('q', { maxDepth: 100, warnAt: null })
    await store.enqueue([alone])
    await store.enqueue([beside, job('limited', ['r:k']), job('later', [], { delayUs: 1e6 })])
    const row = (id: string): Promise<unknown[]> =>
      ask(`SELECT to_jsonb(j) - '{id,seq,created,since}'::text[] AS row FROM sluice.jobs j WHERE id = $1`, id)
    expect(await row(alone.id)).toMatchObject([{ row: { state: STATE.available, max_attempts: 7, bounded: true } }])
    expect(await row(alone.id)).toEqual(await row(beside.id))
    expect(await ask('SELECT lane FROM sluice.arrivals WHERE uses IS NULL')).toEqual([])
  })

  test('the place of a job counts those of queues that have no record, as where only SQL has named them', async () => {
    const worker = await store.join(['q', 'waits', 'open', 'parked'], 1e12)
    const claim = (queue: string, more: Partial<ClaimRequest> = {}): Promise<Claim> =>
      store.claim(() => ({ worker, leaseUs: 30_000_000, queues: [{ queue, slots: 9 }], ...more }))
    await store.define([{ name: 'r', policy: normalisePolicy({ rate: 1, per: '1h' }, 'r'), version: 0 }])
    await store.enqueue([job('starts', ['r'])])
    expect((await claim('q')).jobs).toHaveLength(1)
    for (const queue of ['waits', 'open', 'parked'])
      await ask(`SELECT sluice.enqueue('x', queue => $1, limits => '[{"limit":"r"}]')`, queue)
    const jobs = [job('first', ['r']), job('last', ['r'])]
    await store.enqueue(jobs)
    const place = async (): Promise<unknown> => (await store.explain(jobs[1]!.id))?.linePosition
    expect(await place()).toBe(5)
    await claim('waits')
    await claim('parked', { tasks: ['none'] })
    await ask('DELETE FROM sluice.queues')
    expect(await ask('SELECT queue, state FROM sluice.lanes ORDER BY queue')).toEqual([
      { queue: 'open', state: LANE.open },
      { queue: 'parked', state: LANE.parked },
      { queue: 'q', state: LANE.open },
      { queue: 'waits', state: LANE.waiting },
    ])
    expect(await place()).toBe(5)
  })

  test('each function is called by its caller, or by another function', async () => {
    const functions = `${folder}sql/functions/`
    const sql = readdirSync(functions)
      .map((path) => readFileSync(functions + path, 'utf8'))
      .join('\n')
    const names = [...sql.matchAll(/FUNCTION sluice\.(\w+)/g)].map(([, name = '']) => name)
    const callers = readdirSync(folder).filter((path) => path.endsWith('.ts'))
    const sent = callers.map((path) => readFileSync(folder + path, 'utf8')).join('\n')
    const isCalled = (text: string, name: string): boolean =>
      new RegExp(`(?<!FUNCTION )(sluice|${schema}"?)\\.${name}\\(`).test(text)
    // `enqueue` is for triggers and other languages.
    expect(names.filter((name) => !isCalled(sent, name) && !isCalled(sql, name) && name !== 'enqueue')).toEqual([])
    // Opening has sent the functions themselves.
    pool.queries.length = 0
    await use(store)
    // Rare arguments of callers, as the callers send them.
    const RARE = [
      `claim_fire('{}')`,
      `forget_spread('{}')`,
      `kept_lanes('{}')`,
      `park_unlisted('{q}', '{t}', 'known', 0, 10)`,
      'queues_of(0)',
    ]
    await ask(`SELECT ${RARE.map((call) => `sluice.${call}`).join()}`)
    const queries = [...pool.queries, ...RARE.map((call) => `sluice.${call}`)].join('\n')
    expect(new Set(names.filter((name) => isCalled(sent, name) && !isCalled(queries, name)))).toEqual(new Set())
    // Those of its own a store answers: a claim that took too long, a limit that has changed.
    expect([...pool.errors.keys()].filter((code) => !code.startsWith('SL'))).toEqual([])
  })
})

/** Uses a store so that it calls all of its functions. */
async function use(store: PostgresStore): Promise<void> {
  const reader = uuidv7()
  await store.joinEvents(reader, 1e9)
  await store.leaveEvents(reader)
  const policy = (given: Parameters<typeof normalisePolicy>[0]) => normalisePolicy(given, 'c')
  await store.define([
    { name: 'c', policy: policy({ concurrency: 2, maxWait: '1h' }), version: 0 },
    { name: 'drop', policy: policy({ concurrency: 1, onLimit: 'drop' }), version: 0 },
    { name: 'own', policy: policy({ concurrency: 1, scope: 'worker' }), version: 0 },
  ])
  const worker = await store.join(['q'], 60_000_000)
  const claim = (more: Partial<ClaimRequest> = {}): Promise<Claim> =>
    store.claim(() => ({ worker, leaseUs: 30_000_000, queues: [{ queue: 'q', slots: 100 }], ...more }))
  const settle = (run: GrantedJob | undefined, how: Partial<Settlement>): Promise<unknown> =>
    store.settle(worker, { seq: run!.seq, attempt: run!.attempt, ...how } as Settlement)
  const unique = (key: string): Partial<NewJob> => ({
    unique: { key, onConflict: 'update', withinUs: null, states: null },
  })
  // A claim that decided nothing is followed by one of a single statement.
  for (let turn = 0; turn < 2; turn++) {
    await store.enqueue([job('alone')])
    await settle((await claim()).jobs[0], { kind: 'complete', result: null })
  }
  // And that may join an enqueue.
  const stored = store.enqueue([job('begun')])
  await settle((await claim()).jobs[0], { kind: 'complete', result: null })
  await stored
  await store.enqueue([job('dropped', ['drop']), job('dropped', ['drop'])])
  await store.enqueue([job('plain'), job('limited', ['c:k']), job('spread', ['own'])])
  await store.enqueue([job('keyed', ['c:k'], unique('a'))])
  await store.enqueue([job('keyed', ['c:k'], unique('a'))])
  await store.push([job('pushed')], [])
  await store.push([job('pushed', [], unique('b'))], [])
  await store.push(
    [job('pushed', ['late:k'], unique('d'))],
    [{ name: 'late', policy: policy({ concurrency: 1 }), version: -1 }],
  )
  const { jobs } = await claim()
  const at = (task: string): GrantedJob | undefined => jobs.find((each) => each.task === task)
  await settle(at('plain'), { kind: 'complete', result: '1', keepUs: 0 })
  await settle(at('limited'), { kind: 'retry', delayUs: 0, error: FAILURE })
  await store.release(worker, [at('spread')!])
  await store.promote(10)
  await useFlows(store, claim, settle)
  await useWorkflows(store, claim, settle)
  await useWorkers(store)
  await store.penalize('c', 'k', store.nowUs() + 1)
  await store.cancel((await store.list({ task: 'keyed' }))[0]!.id)
  await store.recover()
  await store.prune(100)
  await store.enqueue([job('held', ['c:k']), job('held', ['c:k']), job('held', ['c:k'])])
  await claim()
  await store.leave(await store.join(['q'], 60_000_000, ['held']))
  await store.stripeQueue('q', 3)
  await store.pauseQueue('q', true)
  await store.leave(worker)
}

type ClaimCall = (more?: Partial<ClaimRequest>) => Promise<Claim>
type SettleCall = (run: GrantedJob | undefined, how: Partial<Settlement>) => Promise<unknown>

/** A flow of which a node is discarded and runs again, and one that is cancelled. */
async function useFlows(store: PostgresStore, claim: ClaimCall, settle: SettleCall): Promise<void> {
  await store.startFlow(flow([[], [0]], ['complete']))
  const { jobs } = await claim()
  const node = jobs.find(({ task }) => task === 'n0')
  await settle(node, { kind: 'discard', error: FAILURE })
  await store.retry(node!.id)
  const cancelled = flow([[], [0]])
  await store.startFlow(cancelled)
  await store.cancelFlow(cancelled.id)
  await store.startFlow(flow([[], [0]]))
  await store.cancel((await store.list({ task: 'n0' }))[0]!.id)
}

/** A workflow flow that gives permits back as it goes on, is parked, is woken by a signal and by an end, and writes a step. */
async function useWorkflows(store: PostgresStore, claim: ClaimCall, settle: SettleCall): Promise<void> {
  const main = job('w', ['c:w'])
  const flowOf = { kind: 'workflow', name: 'w', key: null, onConflict: 'join', step: null, delayUs: null } as const
  await store.startWorkflows([{ ...flowOf, job: main, deadline: null, definition: null, hash: null, extra: null }])
  const rest = { steps: [], consumed: [], spawn: [], children: [], drop: [], state: null, again: null }
  for (const [moves, then] of [go('x', { limits: ['c:w'] }), park({ signals: ['s'] })].entries()) {
    const run = (await claim()).jobs.find(({ task }) => task === 'w')
    await settle(run, { kind: 'next', id: main.id, moves, move: { ...rest, keepPermits: false, then } })
  }
  await store.signalFlow({ id: main.id }, 's', 'null', null)
  const woken = (await claim()).jobs.find(({ task }) => task === 'w')
  const stay = { ...rest, steps: [record('x')], keepPermits: false, then: { kind: 'stay' } } as const
  await settle(woken, { kind: 'next', id: main.id, moves: 2, move: stay })
  const spawn = [{ job: job('side'), step: 'side', item: null, attempt: 0, delayUs: null }]
  const steps = [record('side', { state: 'open' })]
  const wait = { ...rest, steps, spawn, keepPermits: false, then: park({ ends: 'all' }) }
  await settle(woken, { kind: 'next', id: main.id, moves: 2, move: wait })
  const side = (await claim()).jobs.find(({ task }) => task === 'side')
  await settle(side, { kind: 'complete', result: 'null' })
  await store.cancelFlow(main.id)
}

/** Workers that come, go and come back, and jobs that SQL stored without their limits. */
async function useWorkers(store: PostgresStore): Promise<void> {
  const remote = { name: 'w', queues: ['q'], aliveUs: 60_000_000, about: null }
  await store.registerWorker(remote)
  await store.setDirective('w', 'quiet')
  await store.deregisterWorker('w')
  await ask(`SELECT sluice.enqueue('sql', '1', 'q')`)
  const listed = await store.unresolved.list({ queue: 'q', task: 'sql' }, 10)
  await store.unresolved.resolve(listed.map((each) => ({ job: each, as: { uses: usesOf(['c:k']) } })))
}
