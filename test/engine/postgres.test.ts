// Engines on PostgreSQL, on the server's own clock: several of them over one store, and connections that die.
import { Pool } from 'pg'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { input, limit, silentLogger, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { createPostgresStore } from '../../src/exports/postgres.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { dropSchema } from '../drop-schema.ts'

withPostgres('engines on PostgreSQL', () => {
  const admin = new Pool({ connectionString: POSTGRES_URL, max: 2 })
  admin.on('error', () => undefined)
  const engines: Sluice[] = []
  const schemas: string[] = []

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop({ within: 0 })
    for (const schema of schemas.splice(0)) await dropSchema(admin, schema)
  })

  afterAll(() => admin.end())

  function schema(name: string): string {
    const full = `sluice_engine_${process.pid}_${name}`
    schemas.push(full)
    return full
  }

  function urlOf(of: string, more = ''): string {
    return `${POSTGRES_URL}?schema=${of}&application_name=${of}${more}`
  }

  function engine(options: SluiceOptions): Sluice {
    const made = new Sluice({ logger: silentLogger, ...options })
    engines.push(made)
    return made
  }

  test.each([[''], ['&notify=false']])(
    'one engine enqueues, another runs, and the first learns the result%s',
    async (more) => {
      const of = schema(`pair${more.length}`)
      const crm = limit('crm', { rate: 100, per: '1s' })
      const define = () =>
        task('sync', input<{ tenant: string }>(), {
          limits: [crm.by(({ tenant }) => tenant)],
          run: ({ tenant }) => tenant.toUpperCase(),
        })
      const [here, there] = [define(), define()]
      const first = engine({ store: urlOf(of, more), tasks: [here] })
      const second = engine({ store: urlOf(of, more), tasks: [there] })
      await second.start()
      const job = await first.enqueue(here, { tenant: 'acme' })
      expect(await job.result({ timeout: '20s' })).toBe('ACME')
    },
  )

  test('an enqueue is one reason to claim, and a run that ends where there was room is none', async () => {
    let end = (): void => undefined
    const held = task('held', { run: () => new Promise<void>((resolve) => (end = resolve)) })
    const of = schema('room')
    const pool = new Pool({ connectionString: POSTGRES_URL, max: 4, application_name: of })
    const store = createPostgresStore({ pool, schema: of })
    let claims = 0
    const claim = store.claim.bind(store)
    store.claim = (request) => {
      claims++
      return claim(request)
    }
    // The regular poll is not caused by the job, and a machine that is slow enough sees one here.
    const unpolled: Clock = {
      ...systemClock,
      setTimer: (wake, ms) => (ms < 1000 ? systemClock.setTimer(wake, ms) : { cancel: () => undefined }),
    }
    const only = engine({ store, clock: unpolled, tasks: [held], queues: { default: { concurrency: 2 } } })
    /** All claims that the wakeups so far asked for are done. */
    const still = async (): Promise<void> => {
      for (let before = -1; before !== claims;) {
        before = claims
        for (let n = 0; n < 4; n++) await only.jobs.list()
      }
    }
    // Who listens is told once to look: that is over before the engine begins.
    const unwatch = await new Promise<() => void>((resolve) => {
      const stop = store.watch((change) => change === 'any' && resolve(stop))
    })
    await only.start()
    await still()
    const atRest = claims
    const job = await only.enqueue(held)
    await expect.poll(async () => (await only.jobs.get(job.id))?.state).toBe('active')
    await still()
    expect(claims).toBe(atRest + 1)
    end()
    await job.result()
    expect(claims).toBe(atRest + 1)
    unwatch()
    await only.stop()
    engines.pop()
    await pool.end()
  })

  test('a job that another engine cancels is aborted while it runs', async () => {
    const of = schema('cancel')
    let began = (): void => undefined
    const running = new Promise<void>((resolve) => (began = resolve))
    const wait = () =>
      task('wait', {
        run: (_: unknown, { signal }) =>
          new Promise<string>((_resolve, reject) => {
            began()
            signal.addEventListener('abort', () => reject(new Error('aborted')))
          }),
      })
    const [here, there] = [wait(), wait()]
    const first = engine({ store: urlOf(of), tasks: [here] })
    const second = engine({ store: urlOf(of), tasks: [there] })
    await second.start()
    const job = await first.enqueue(here)
    await running
    await first.jobs.cancel(job.id)
    await expect(job.result({ timeout: '20s' })).rejects.toMatchObject({ code: 'job.cancelled' })
  })

  test('a run outlives the connections of its engine, and is settled once they are back', async () => {
    const of = schema('lost')
    let began = (): void => undefined
    const running = new Promise<void>((resolve) => (began = resolve))
    let finish = (): void => undefined
    const runs: number[] = []
    const slow = task('slow', {
      run: (_: unknown, { attempt }) => {
        runs.push(attempt)
        began()
        return new Promise<string>((resolve) => (finish = () => resolve('done')))
      },
    })
    const made = engine({ store: urlOf(of), tasks: [slow] })
    await made.start()
    const job = await slow.enqueue()
    await running
    await admin.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [of])
    finish()
    expect(await job.result({ timeout: '20s' })).toBe('done')
    expect(runs).toEqual([1])
    expect((await slow.enqueue()).id).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('a job enqueued in a transaction of the caller starts when that commits, and never when it is rolled back', async () => {
    const of = schema('tx')
    const pool = new Pool({ connectionString: POSTGRES_URL, max: 6 })
    const ran: string[] = []
    const note = task('note', input<string>(), { run: (what) => void ran.push(what) })
    const made = engine({ store: createPostgresStore({ pool, schema: of }), tasks: [note] })
    await made.start()
    const client = await pool.connect()
    await client.query('BEGIN')
    await note.enqueue('never', { tx: client })
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    const job = await note.enqueue('once', { tx: client })
    expect(await made.jobs.get(job.id)).toBeNull()
    await client.query('COMMIT')
    client.release()
    await job.result({ timeout: '20s' })
    expect(ran).toEqual(['once'])
    await made.stop()
    await pool.end()
  })

  test.each([300_000, -300_000])(
    'a delay goes by the clock of the server, not by that of a client which is off by %i ms',
    async (byMs) => {
      const of = schema(`delay${Math.sign(byMs) + 1}`)
      const pool = new Pool({ connectionString: POSTGRES_URL, max: 4 })
      const wait = task('wait', input<string>(), { run: () => undefined })
      const made = engine({
        store: createPostgresStore({ pool, schema: of }),
        tasks: [wait],
        clock: { ...systemClock, now: () => systemClock.now() + byMs },
      })
      await wait.enqueueMany(['a', 'b'], { delay: '1m' })
      await wait.enqueue('c', { delay: '1m', unique: 'c' })
      const { rows } = await admin.query<{ s: string }>(
        `SELECT DISTINCT (due - created) / 1000000 AS s FROM "${of}".jobs`,
      )
      expect(rows).toEqual([{ s: '60' }])
      await made.stop()
      await pool.end()
    },
  )

  test('two engines with budgets of their own start twice as much, and one that stops leaves its work to the other', async () => {
    const of = schema('own')
    const runs = [0, 0]
    const tasks = [0, 1].map((which) =>
      task('work', {
        limits: [limit('own', { rate: 4, per: '1h', scope: 'worker' })],
        run: () => void (runs[which] = (runs[which] ?? 0) + 1),
      }),
    )
    const [first, second] = tasks.map((each) => engine({ store: urlOf(of), tasks: [each] })) as [Sluice, Sluice]
    await first.start()
    await second.start()
    const [job] = (await tasks[0]!.enqueueMany(Array.from({ length: 12 }, () => undefined))).slice(-1)
    await vi.waitFor(() => expect(runs).toEqual([4, 4]), { timeout: 60_000 })
    const report = await first.limits.inspect('own')
    expect(report.map(({ worker, available }) => [typeof worker, available])).toEqual([
      ['number', 0],
      ['number', 0],
    ])
    const explained = await first.jobs.explain(job!.id)
    expect(explained.eachWorker).toHaveLength(2)
    expect(explained.words).toMatch(/each worker has its own/)
    expect((await first.limits.waiting()).waiting).toBe(4)
    await second.stop()
    await first.limits.override('own', undefined, { per: '100ms' })
    await vi.waitFor(() => expect(runs).toEqual([8, 4]), { timeout: 60_000 })
  })

  test('ten engines that start at once make one store', async () => {
    const of = schema('ten')
    const crm = limit('crm', { rate: 1, per: '1s' })
    const tasks = Array.from({ length: 10 }, () => task('t', { limits: [crm], run: () => undefined }))
    const started = tasks.map((each) => engine({ store: urlOf(of, '&connections=2'), tasks: [each] }))
    await Promise.all(started.map((each) => each.start()))
    expect(await started[0]!.limits.list()).toHaveLength(1)
    const { rows } = await admin.query<{ n: string }>(`SELECT count(*) AS n FROM "${of}".workers`)
    expect(Number(rows[0]?.n)).toBe(10)
  })
})
