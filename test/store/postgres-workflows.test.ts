// Workflow flows on PostgreSQL: answers that are lost, ends that wait to be applied, and locks that meet.
import { Pool } from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type FlowMove, MAX_UNREAD_SIGNALS } from '../../src/jobs/workflow.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION, type StoreBackend } from '../conformance/store/backend.ts'
import { FAILURE, StoreHarness } from '../conformance/store/store-harness.ts'
import { go, park, record, WorkflowHarness } from '../conformance/store/workflow-harness.ts'
import { dropSchema } from '../drop-schema.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'

const admin = new Pool({ connectionString: POSTGRES_URL, max: 4 })
admin.on('error', () => undefined)
let schema = ''
let count = 0
let pools: WatchedPool[] = []
let w: WorkflowHarness

const backend: StoreBackend = {
  name: 'watched',
  open: (clock) => open(clock),
  reopen: (clock) => open(clock),
}

async function open(clock: ConstructorParameters<typeof PostgresStore>[0]['clock']): Promise<PostgresStore> {
  const pool = new WatchedPool()
  pools.push(pool)
  const store = new PostgresStore({ connection: pool, schema, clock, retention: RETENTION, notify: false })
  await store.open()
  return store
}

/** The statement that commits a move: one that changes only its job and its steps is a statement by itself. */
const COMMITS = ['COMMIT', '.go_on(', '.stay_or_end('] as const

/** Throws once, as a lost connection does, in place of the answer to the first statement that has one of these texts. */
function losesAnswerTo(...texts: readonly string[]): void {
  const pool = pools[0] as WatchedPool
  pool.after = (sql) => {
    if (!texts.some((text) => sql.includes(text))) return
    pool.after = null
    throw Object.assign(new Error('the connection is lost'), { code: '08006' })
  }
}

/** The statements of some work, without those of claims and notifications. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const { queries } = pools[0] as WatchedPool
  const before = queries.length
  await work()
  return queries.slice(before).filter((sql) => !/notify|set_config/.test(sql)).length
}

withPostgres('workflow flows', () => {
  beforeEach(async () => {
    schema = `sluice_workflows_${process.pid}_${count++}`
    w = new WorkflowHarness(await StoreHarness.open(backend))
  })
  afterEach(async () => {
    await w.base.store.close()
    for (const pool of pools) await pool.end()
    pools = []
    await dropSchema(admin, schema)
  })
  afterAll(() => admin.end())

  test('the end of a job reads its own flow alone, though its plan was made while there were few', async () => {
    await w.begin('a')
    for (let n = 0; n < 20; n++) await w.begin(`few${n}`)
    await w.start()
    const client = await admin.connect()
    try {
      const fetched = async (): Promise<number> => {
        const { rows } = await client.query<{ fetched: string }>(
          `SELECT seq_tup_read + idx_tup_fetch AS fetched FROM pg_stat_xact_user_tables
           WHERE schemaname = $1 AND relname = 'flows'`,
          [schema],
        )
        return Number(rows[0]?.fetched)
      }
      const read = async (): Promise<number> => {
        await client.query('BEGIN')
        const before = await fetched()
        for (const verb of ['note_ends', 'lock_flows'])
          await client.query(`SELECT "${schema}".${verb}(ARRAY[$1::bigint])`, [w.run('a').seq])
        const after = await fetched()
        await client.query('ROLLBACK')
        return after - before
      }
      await client.query(`ANALYZE "${schema}".flows`)
      await client.query(`ANALYZE "${schema}".jobs`)
      expect(await read()).toBeLessThanOrEqual(2)
      await w.base.store.startWorkflows(Array.from({ length: 300 }, (_, n) => w.newFlow(`many${n}`)))
      expect(await read()).toBeLessThanOrEqual(2)
    } finally {
      client.release()
    }
  })

  test('a flow takes only so many unread signals', async () => {
    await w.begin('a')
    await w.begin('b')
    const few = MAX_UNREAD_SIGNALS - 2
    await admin.query(
      `INSERT INTO "${schema}".flow_signals (flow, name, payload)
       SELECT f.seq, 's', 'null' FROM "${schema}".flows f, generate_series(1, $1) WHERE f.id = $2`,
      [few, w.id('a')],
    )
    await admin.query(`UPDATE "${schema}".flows SET events = events + $1 WHERE id = $2`, [few, w.id('a')])
    const kinds: string[] = []
    for (let i = 0; i < 3; i++) kinds.push((await w.signal('a', 's')).kind)
    expect(kinds).toEqual(['stored', 'stored', 'full'])
    expect((await w.signal('b', 's')).kind).toBe('stored')
    await w.start()
    const { signals } = await w.memory('a')
    expect(signals).toHaveLength(MAX_UNREAD_SIGNALS)
    await w.next('a', { consumed: [signals[0]!.seq] })
    expect((await w.signal('a', 's')).kind).toBe('stored')
    expect((await w.signal('a', 's')).kind).toBe('full')
  })

  test('a flow with a key is started in one statement, and in two where its key is taken; a signal takes one', async () => {
    await w.begin('first', { key: 'k0' })
    expect(await statementsOf(() => w.begin('a', { key: 'k' }, 'order'))).toBe(1)
    expect(await statementsOf(() => w.begin('b', { key: 'k' }, 'order'))).toBe(2)
    const flows = [w.newFlow('order', { key: 'l' }), w.newFlow('order'), w.newFlow('order', { key: 'm' })]
    let answers: readonly { readonly kind: string }[] = []
    expect(await statementsOf(async () => (answers = await w.base.store.startWorkflows(flows)))).toBe(1)
    expect(answers.map(({ kind }) => kind)).toEqual(['created', 'created', 'created'])
    for (const once of [null, 'e', 'e']) expect(await statementsOf(() => w.signal('a', 's', '1', once))).toBe(1)
    const some = [w.newFlow('order', { key: 'n' }), w.newFlow('order', { key: 'm' })]
    expect((await w.base.store.startWorkflows(some)).map(({ kind }) => kind)).toEqual(['created', 'duplicate'])
  })

  test.each([
    ['COMMIT', 'duplicate'],
    ['ROLLBACK', 'created'],
  ])('a start waits for one that stores its key at that moment: after its %s it is %s', async (end, kind) => {
    const other = await admin.connect()
    try {
      await other.query('BEGIN')
      await w.base.store.startWorkflows([w.newFlow('order', { key: 'k' })], other)
      const starting = w.begin('a', { key: 'k' }, 'order')
      const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`
      await expect
        .poll(async () => (await admin.query(waits, [`%"${schema}".start_workflows%`])).rowCount, { interval: 10 })
        .toBe(1)
      await other.query(end)
      expect(await starting).toMatchObject({ kind })
    } finally {
      other.release()
    }
  })

  describe('answers that are lost', () => {
    const moves: readonly (readonly [string, () => Partial<FlowMove>, string])[] = [
      ['go', () => ({ then: go('x', { limits: ['slow'] }) }), 'available'],
      ['go to a new place', () => ({ then: go('x', {}, 'new') }), 'available'],
      ['go later', () => ({ then: go('x', { delayMs: 5_000 }) }), 'retryable'],
      ['park', () => ({ then: park({ signals: ['s'] }) }), 'pending'],
      ['stay', () => ({ steps: [record('y')] }), 'active'],
      ['begin again', () => ({ again: '1', then: go(null) }), 'available'],
      ['complete', () => ({ then: { kind: 'end', result: '1', error: null } }), 'completed'],
      ['fail', () => ({ then: { kind: 'end', result: null, error: FAILURE } }), 'discarded'],
      ['spawn and stay', () => ({ steps: [record('z', { state: 'open' })], spawn: [w.side('z')] }), 'active'],
    ]

    test.each(moves)('%s is written once, and told both times', async (_, moveOf, state) => {
      await w.base.define({ slow: { rate: 1, per: '1h' } })
      await w.begin('a')
      await w.start()
      const move = { steps: [record('step')], ...moveOf() }
      losesAnswerTo(...COMMITS)
      await expect(w.next('a', move)).rejects.toThrow('lost')
      const kept = await w.shown('a')
      const job = await w.base.store.get(w.id('a'))
      expect(await w.next('a', move, true)).toBe(state)
      expect(await w.shown('a')).toEqual(kept)
      expect(await w.base.store.get(w.id('a'))).toEqual(job)
    })

    test('a move that was not written is written by its repetition', async () => {
      await w.begin('a')
      await w.start()
      expect(await w.next('a', { steps: [record('x')], then: go('y') }, true)).toBe('available')
      expect(await w.start()).toEqual(['a/y'])
    })

    test('a repetition leaves a later run alone', async () => {
      await w.begin('a')
      await w.start()
      const first = w.run('a')
      const move = { steps: [record('x')], then: go('y') }
      await w.next('a', move)
      await w.start()
      expect(await w.next('a', move, true, first)).toBe('active')
      expect(await w.next('a/y', { then: { kind: 'end', result: null, error: null } })).toBe('completed')
    })

    test('a start is stored once', async () => {
      const flow = w.newFlow('a', { key: 'k' })
      for (const _ of [1, 2])
        expect(await w.base.store.startWorkflows([flow])).toEqual([{ kind: 'created', id: flow.job.id }])
      expect(await w.start()).toEqual(['a'])
      expect(await w.base.store.flows({})).toHaveLength(1)
    })
  })

  describe('ends that wait to be applied', () => {
    /** The process dies after the commit of a settlement, before it applies the end. */
    function diesBeforeEnds(): void {
      const pool = pools[0] as WatchedPool
      pool.before = (sql) => {
        if (sql.includes('flow_ends WHERE seq = ANY')) throw new Error('dead')
      }
    }

    test('are applied by a recovery, and wake the parent', async () => {
      await w.begin('a')
      await w.start()
      const child = { flow: w.newFlow('b'), step: 'b', attached: true }
      await w.next('a', { steps: [record('b', { state: 'open' })], children: [child], then: park({ ends: 'all' }) })
      await w.start()
      diesBeforeEnds()
      await expect(w.settle('b', { kind: 'complete', result: '5' })).rejects.toThrow('dead')
      expect((await w.base.flowOf(child.flow.job.id)).state).toBe('running')
      const other = await w.base.reopen(backend)
      await other.store.recover()
      expect((await w.base.flowOf(child.flow.job.id)).state).toBe('completed')
      const { jobs } = await other.claim()
      expect(jobs.map(({ task }) => task)).toEqual(['a'])
      expect((await other.store.flowSteps(w.id('a')))?.steps).toMatchObject([{ name: 'b', state: 'done', result: '5' }])
      await other.store.close()
    })

    test('are applied when the settlement is repeated', async () => {
      await w.begin('a')
      await w.start()
      const spawn = [w.side('s')]
      await w.next('a', { steps: [record('s', { state: 'open' })], spawn })
      diesBeforeEnds()
      await expect(w.settle('a')).rejects.toThrow('dead')
      ;(pools[0] as WatchedPool).before = null
      const { seq, attempt, startedUs } = w.run('a')
      const again = { seq, attempt, startedUs, kind: 'complete', result: null } as const
      expect(await w.base.store.settle(w.base.worker, again, true)).toMatchObject({
        state: 'completed',
        flow: { ended: 'completed' },
      })
      expect(await w.state('a')).toEqual(['completed'])
    })
  })

  describe('a flow that is alone', () => {
    test('writes a step in one statement, and its end with that of its job in another', async () => {
      await w.begin('a')
      await w.start()
      expect(await statementsOf(() => w.next('a', { steps: [record('x')], then: { kind: 'stay' } }))).toBe(1)
      const end = { then: { kind: 'end', result: '1', error: null } } as const
      expect(await statementsOf(() => w.next('a', end))).toBe(1)
      expect(await w.state('a')).toEqual(['completed'])
      expect(await w.steps('a')).toEqual(['x:done'])
      expect((await admin.query(`SELECT 1 FROM "${schema}".flow_ends`)).rows).toEqual([])
    })

    test('ends once another transaction has let it go', async () => {
      await w.begin('a')
      await w.start()
      const holder = await admin.connect()
      try {
        await holder.query('BEGIN')
        await holder.query(`SELECT 1 FROM "${schema}".flows FOR UPDATE`)
        const pool = pools[0] as WatchedPool
        const ending = w.settle('a', { kind: 'complete', result: '1' })
        while (!pool.queries.some((sql) => sql.includes('flow_ends WHERE seq = ANY')))
          await new Promise((resolve) => setImmediate(resolve))
        expect((await w.base.store.get(w.id('a')))?.state).toBe('completed')
        expect(await w.state('a')).toEqual(['running'])
        await holder.query('ROLLBACK')
        await ending
        expect(await w.state('a')).toEqual(['completed'])
      } finally {
        holder.release()
      }
    })
  })

  describe('locks that meet', () => {
    test('a move that is the victim of a deadlock is made again', async () => {
      await w.begin('a')
      await w.start()
      const { seq } = w.run('a')
      const holder = await admin.connect()
      try {
        await holder.query('BEGIN')
        // It finds the deadlock last, so that the store is the victim.
        await holder.query(`SET LOCAL deadlock_timeout = '1min'`)
        await holder.query(`SELECT 1 FROM "${schema}".flows FOR UPDATE`)
        const moved = w.next('a', { steps: [record('x')], then: park({ signals: ['s'] }) })
        const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0`
        while ((await admin.query(waits, [`"${schema}".flows`])).rows.length === 0);
        await holder.query(`SELECT 1 FROM "${schema}".jobs WHERE seq = $1 FOR UPDATE`, [seq])
        await holder.query('ROLLBACK')
        expect(await moved).toBe('pending')
        expect(pools[0]?.errors.get('40P01')).toBe(1)
        expect(await w.steps('a')).toEqual(['x:done'])
      } finally {
        holder.release()
      }
    })

    test('many processes move, signal, end and cancel a tree of flows at once, and every count is right', async () => {
      const other = await w.base.reopen(backend)
      const stores = [w.base.store, other.store]
      const names = Array.from({ length: 12 }, (_, i) => `f${i}`)
      for (const name of names) await w.begin(name)
      await w.start()
      const steps = ['s0', 's1', 's2', 'c'].map((name) => record(name, { state: 'open' }))
      await Promise.all(
        names.map((name) =>
          w.next(name, {
            steps,
            spawn: [0, 1, 2].map((i) => w.side(`s${i}`, {}, `${name}-s${i}`)),
            children: [{ flow: w.newFlow(`${name}-c`), step: 'c', attached: true }],
            then: park({ ends: 'all', signals: ['s'] }),
          }),
        ),
      )
      const runs = await w.start()
      expect(runs).toHaveLength(names.length * 4)
      await Promise.all([
        ...runs.map((run, i) => w.settle(run, i % 5 === 0 ? { kind: 'discard', error: FAILURE } : undefined)),
        ...names.map((name, i) => stores[i % 2]!.signalFlow({ id: w.id(name) }, 's', '1', null)),
        ...names.slice(0, 4).map((name, i) => stores[i % 2]!.cancelFlow(w.id(name))),
      ])
      for (const name of names.slice(4)) {
        const { steps: written } = await w.shown(name)
        expect(written.every(({ state }) => state === 'done' || state === 'failed')).toBe(true)
      }
      const woken = (await w.start()).toSorted()
      expect(woken).toEqual(names.slice(4).toSorted())
      for (const name of woken) expect(await w.memory(name)).toMatchObject({ open: 0, events: 5 })
      expect(await w.state(...names.slice(0, 4))).toEqual(['cancelled', 'cancelled', 'cancelled', 'cancelled'])
      expect((await admin.query(`SELECT 1 FROM "${schema}".flow_ends`)).rows).toEqual([])
      await other.store.close()
    })
  })
})
