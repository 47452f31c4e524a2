// Flows of several engines over one store on PostgreSQL, on the server's own clock.
import { Pool } from 'pg'
import { afterAll, afterEach, expect, test } from 'vitest'
import {
  call,
  input,
  limit,
  NonRetryable,
  silentLogger,
  Sluice,
  type SluiceOptions,
  task,
} from '../../src/exports/index.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { record } from './engine-harness.ts'
import { dropSchema } from '../drop-schema.ts'

withPostgres('flows of engines on PostgreSQL', () => {
  const admin = new Pool({ connectionString: POSTGRES_URL, max: 1 })
  admin.on('error', () => undefined)
  const engines: Sluice[] = []
  let schema = ''
  let count = 0

  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.stop({ within: 0 })
    await dropSchema(admin, schema)
  })

  afterAll(() => admin.end())

  function engine(options: Omit<SluiceOptions, 'store'>): Sluice {
    const made = new Sluice({ logger: silentLogger, ...options, store: `${POSTGRES_URL}?schema=${schema}` })
    engines.push(made)
    return made
  }

  /** A task of an engine's own: it notes by whom it was run with what, and answers with its input. */
  function noting(who: string, heard: [string, string, readonly unknown[] | null][]) {
    return task('note', input<string>(), {
      retry: { attempts: 1 },
      run(name, { job }) {
        heard.push([who, name, job.parentResults])
        if (name.startsWith('bad')) throw new NonRetryable(name)
        return name
      },
    })
  }

  function begin(): void {
    schema = `sluice_engine_flows_${process.pid}_${++count}`
  }

  test('a chain goes to and fro between the queues of two processes, and hands on what came before', async () => {
    begin()
    const heard: [string, string, readonly unknown[] | null][] = []
    const [here, there] = [noting('here', heard), noting('there', heard)]
    const first = engine({ tasks: [here], queues: { a: { concurrency: 1 } } })
    const second = engine({ tasks: [there], queues: { b: { concurrency: 1 } } })
    await first.start()
    await second.start()
    const steps = ['1', '2', '3', '4'].map((name, i) => call(here, name, { queue: i % 2 === 0 ? 'a' : 'b' }))
    const flow = await first.flows.start({ kind: 'chain', name: 'to and fro', steps })
    expect(await flow.jobs.at(-1)?.result({ timeout: '20s' })).toBe('4')
    expect(heard).toEqual([
      ['here', '1', []],
      ['there', '2', ['1']],
      ['here', '3', ['1', '2']],
      ['there', '4', ['1', '2', '3']],
    ])
    expect(await second.flows.get(flow.id)).toMatchObject({ name: 'to and fro', state: 'completed', completed: 4 })
  })

  test('a caller that waits for a later step learns of a failure in another process; a retry lets the chain go on', async () => {
    begin()
    let broken = true
    const step = (run: (name: string) => void) =>
      task('step', input<string>(), { retry: { attempts: 1 }, run: (name) => (run(name), name) })
    const asking = step(() => undefined)
    const doing = step((name) => {
      if (name === 'b' && broken) throw new Error('not yet')
    })
    const client = engine({ tasks: [asking], queues: {} })
    const server = engine({ tasks: [doing] })
    const events = record(server, 'flow.failed', 'flow.completed')
    await server.start()
    const flow = await client.flows.start({ kind: 'chain', steps: ['a', 'b', 'c'].map((name) => call(asking, name)) })
    await expect(flow.jobs[2]?.result({ timeout: '20s' })).rejects.toMatchObject({ code: 'job.cancelled' })
    expect(await client.flows.get(flow.id)).toMatchObject({ state: 'failed', completed: 1, discarded: 1, cancelled: 1 })
    broken = false
    expect(await client.jobs.retry(flow.jobs[1]?.id ?? '')).toBe(true)
    expect(await flow.jobs[2]?.result({ timeout: '20s' })).toBe('c')
    expect(await client.flows.get(flow.id)).toMatchObject({ state: 'completed', completed: 3 })
    expect(events.map(({ name }) => name)).toEqual(['flow.failed', 'flow.completed'])
  })

  test('a batch calls back once, whichever process ends its last job', async () => {
    begin()
    const heard: [string, string, readonly unknown[] | null][] = []
    const [here, there] = [noting('here', heard), noting('there', heard)]
    const both = [engine({ tasks: [here] }), engine({ tasks: [there] })]
    for (const each of both) await each.start()
    const callbacks = { onSuccess: call(here, 'yes'), onFailure: call(here, 'no'), onComplete: call(here, 'done') }
    const names = Array.from({ length: 40 }, (_, i) => `n${i}`)
    const good = await both[0]!.flows.start({ kind: 'batch', jobs: names.map((name) => call(here, name)), callbacks })
    await good.jobs.at(-1)?.result({ timeout: '20s' })
    const bad = await both[0]!.flows.start({ kind: 'batch', jobs: [call(here, 'bad'), call(here, 'x')], callbacks })
    const ended = async (id: string): Promise<boolean> =>
      (await both[0]!.flows.jobs(id)).every(({ state }) => ['completed', 'cancelled', 'discarded'].includes(state))
    while (!(await ended(good.id)) || !(await ended(bad.id)));
    const told = heard.filter(([, name]) => ['yes', 'no', 'done'].includes(name))
    const parents = told.map(([, name, results]) => JSON.stringify([name, results])).sort()
    const expected = [
      ['done', [null, 'x']],
      ['done', names],
      ['no', [null, 'x']],
      ['yes', names],
    ]
    expect(parents).toEqual(expected.map((each) => JSON.stringify(each)).sort())
  })

  test('a flow that is cancelled in one process has its runs in another aborted, and its budgets are free', async () => {
    begin()
    let began = (): void => undefined
    const running = new Promise<void>((resolve) => (began = resolve))
    const one = limit('one', { concurrency: 1 })
    const work = (run: (signal: AbortSignal) => Promise<void>) =>
      task('work', { limits: [one], run: (_: unknown, { signal }) => run(signal) })
    const asking = work(() => Promise.resolve())
    const doing = work(async (signal) => {
      began()
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
    })
    const client = engine({ tasks: [asking], queues: {} })
    const server = engine({ tasks: [doing] })
    await server.start()
    const flow = await client.flows.start({ kind: 'group', jobs: [call(asking), call(asking), call(asking)] })
    await running
    expect(await client.flows.cancel(flow.id)).toBe(true)
    for (const job of flow.jobs)
      await expect(job.result({ timeout: '20s' })).rejects.toMatchObject({ code: 'job.cancelled' })
    expect(await client.flows.get(flow.id)).toMatchObject({ state: 'cancelled', cancelled: 3 })
    expect(await client.limits.inspect('one')).toMatchObject([{ active: 0, waiting: 0 }])
    expect(await client.flows.cancel(flow.id)).toBe(false)
  })
})
