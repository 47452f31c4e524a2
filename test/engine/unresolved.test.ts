// Jobs that SQL enqueues without their limits, and the engines that know what these are.
import { Pool } from 'pg'
import { z } from 'zod'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { input, limit, type Logger, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { dropSchema } from '../drop-schema.ts'

withPostgres('jobs that SQL enqueues without their limits', () => {
  const admin = new Pool({ connectionString: POSTGRES_URL, max: 2 })
  admin.on('error', () => undefined)
  const engines: Sluice[] = []
  const schemas: string[] = []
  const complaints: unknown[] = []
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (about) => void complaints.push(about),
    // A discard is what these tests ask for.
    error: (about, message) => void (message === 'a job was discarded' || complaints.push(about)),
  }
  const crm = limit('crm', { rate: 5, per: '1h' })

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop({ within: 0 })
    for (const schema of schemas.splice(0)) await dropSchema(admin, schema)
    expect(complaints.splice(0)).toEqual([])
  })

  afterAll(() => admin.end())

  async function engine(of: string, tasks: SluiceOptions['tasks'], more: Partial<SluiceOptions> = {}): Promise<Sluice> {
    if (!schemas.includes(of)) schemas.push(of)
    const made = new Sluice({ store: `${POSTGRES_URL}?schema=${of}`, logger, tasks, ...more })
    engines.push(made)
    await made.start()
    return made
  }

  const schemaOf = (name: string): string => `sluice_unresolved_${process.pid}_${name}`

  async function enqueue(of: string, name: string, payload: unknown, more = ''): Promise<string> {
    const { rows } = await admin.query<{ id: string }>(`SELECT "${of}".enqueue($1, $2::json${more}) AS id`, [
      name,
      JSON.stringify(payload),
    ])
    return rows[0]!.id
  }

  function started(of: string): Promise<number> {
    return admin
      .query<{ n: string }>(`SELECT count(*) AS n FROM "${of}".jobs WHERE attempt > 0`)
      .then(({ rows }) => Number(rows[0]?.n))
  }

  const soon = { timeout: 60_000, interval: 20 }

  test('a hundred of a keyed task keep its budgets, over two engines', async () => {
    const of = schemaOf('hundred')
    const ran: string[] = []
    const sync = () =>
      task('sync', input<{ tenant: string }>(), {
        limits: [crm.by(({ tenant }) => tenant)],
        run: ({ tenant }) => void ran.push(tenant),
      })
    const first = await engine(of, [sync()])
    await engine(of, [sync()])
    await admin.query(
      `SELECT "${of}".enqueue('sync', json_build_object('tenant', 't' || n % 4)) FROM generate_series(1, 100) n`,
    )
    await vi.waitFor(async () => expect(await first.limits.waiting()).toMatchObject({ waiting: 80 }), soon)
    expect(ran.toSorted()).toEqual(['t0', 't1', 't2', 't3'].flatMap((tenant) => Array<string>(5).fill(tenant)))
    const [last] = await first.jobs.list({ states: ['available'], limit: 1 })
    expect(await first.jobs.explain(last!.id)).toMatchObject({ waitsOn: { limit: 'crm' }, position: 20 })
    expect((await first.limits.inspect('crm')).map(({ available }) => available)).toEqual([0, 0, 0, 0])
  })

  test('one of an unknown task waits, says so, and runs once an engine lists the task', async () => {
    const of = schemaOf('unknown')
    const none = await engine(of, [])
    const id = await enqueue(of, 'late', { n: 1 })
    expect(await none.jobs.get(id)).toMatchObject({ state: 'available', throttledUntil: null })
    const explained = await none.jobs.explain(id)
    expect(explained).toMatchObject({ unresolved: true, position: null, expectedStart: null, served: true })
    expect(explained.words).toContain('waits until an engine that lists the task late resolves its limits')
    expect(await started(of)).toBe(0)
    const runs: unknown[] = []
    // It would take the job as soon as an engine has resolved it, and fail.
    await none.stop()
    await engine(of, [task('late', input<unknown>(), { limits: [crm], run: (what) => void runs.push(what) })])
    await vi.waitFor(() => expect(runs).toEqual([{ n: 1 }]), soon)
  })

  test('one of a task without limits runs, whether its input is given or not', async () => {
    const of = schemaOf('plain')
    const runs: unknown[] = []
    const take = (what: unknown): void => void runs.push(what)
    await engine(of, [task('one', input<number>(), { run: take }), task('none', { run: take })])
    await enqueue(of, 'one', 1)
    await vi.waitFor(() => expect(runs).toEqual([1]), soon)
    await admin.query(`SELECT "${of}".enqueue('none')`)
    await vi.waitFor(() => expect(runs).toEqual([1, undefined]), soon)
  })

  test('given limits hold as they are: those of the task are not added', async () => {
    const of = schemaOf('given')
    const paused = limit('paused', { concurrency: 1 })
    const given = task('given', input<unknown>(), { limits: [crm], run: () => undefined })
    const none = await engine(of, [given], { limits: [paused] })
    await none.limits.pause('paused')
    const id = await enqueue(of, 'given', 1, `, limits => '[{"limit":"paused"}]'`)
    await vi.waitFor(
      async () => expect(await none.jobs.explain(id)).toMatchObject({ waitsOn: { limit: 'paused' } }),
      soon,
    )
  })

  test('one that is scheduled, and one with a queue’s and a fair key’s code, go by all of them when their time comes', async () => {
    const of = schemaOf('code')
    const runs: string[] = []
    const mail = task('mail', input<{ to: string }>(), {
      queue: 'mail',
      fairKey: ({ to }) => to,
      run: ({ to }) => void runs.push(to),
    })
    const made = await engine(of, [mail], {
      queues: { mail: { concurrency: 1, limits: [crm.by((given: unknown) => (given as { to: string }).to)] } },
    })
    const at = `, 'mail', run_at => now() + interval '0.3 s'`
    const id = await enqueue(of, 'mail', { to: 'a' }, at)
    expect((await made.jobs.get(id))?.state).toBe('scheduled')
    await vi.waitFor(() => expect(runs).toEqual(['a']), soon)
    expect((await made.limits.inspect('crm', 'a'))[0]).toMatchObject({ available: 4 })
    const { rows } = await admin.query(`SELECT fair FROM "${of}".jobs`)
    expect(rows).toEqual([{ fair: 'a' }])
  })

  test.each([
    ['an input that its schema refuses', { tenant: 7 }, 'input.invalid', undefined],
    ['a key function that throws', { tenant: 'bad' }, 'limit.key.threw', { tenant: 'bad' }],
    ['a key that is not there', { tenant: 'none' }, 'limit.key.missing', { tenant: 'none' }],
  ])('%s: the job is discarded with that error', async (what, payload, code, told) => {
    const of = schemaOf(code.replaceAll('.', '_'))
    const errors: unknown[] = []
    const sync = task('sync', z.object({ tenant: z.string() }), {
      limits: [
        crm.by(({ tenant }) => {
          if (tenant === 'bad') throw new TypeError('no such tenant')
          return tenant === 'none' ? undefined : tenant
        }),
      ],
      run: () => undefined,
      onError: (error, job) => void errors.push([(error as Error & { code: string }).code, job.input]),
    })
    const made = await engine(of, [sync])
    const heard: string[] = []
    made.on('job.discarded', ({ id }) => void heard.push(id))
    const id = await enqueue(of, 'sync', payload)
    await vi.waitFor(async () => expect((await made.jobs.get(id))?.state).toBe('discarded'), soon)
    expect(await made.jobs.get(id)).toMatchObject({ error: { code }, attempt: 0 })
    await vi.waitFor(() => expect(errors).toEqual([[code, told]]), soon)
    expect(heard).toEqual([id])
    // The limits decide about it again.
    expect(await made.jobs.retry(id)).toBe(true)
    await vi.waitFor(() => expect(heard).toEqual([id, id]), soon)
    expect(what).not.toBe('')
  })

  test('one that is cancelled, or expires, before anybody resolves it is gone', async () => {
    const of = schemaOf('gone')
    const none = await engine(of, [])
    const cancelled = await enqueue(of, 'late', 1)
    const expired = await enqueue(of, 'late', 2, `, expires_at => now() + interval '0.2 s'`)
    expect(await none.jobs.cancel(cancelled)).toBe(true)
    await vi.waitFor(async () => expect((await none.jobs.get(expired))?.state).toBe('discarded'), soon)
    const runs: unknown[] = []
    await none.stop()
    await engine(of, [task('late', input<unknown>(), { run: (each) => void runs.push(each) })])
    await enqueue(of, 'late', 3)
    await vi.waitFor(() => expect(runs).toEqual([3]), soon)
  })
})
