import { describe, expect, expectTypeOf, test } from 'vitest'
import { call, type Call, input, limit, NonRetryable, type Sluice, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

interface Heard {
  readonly name: string
  readonly parents: readonly unknown[] | null
  readonly node: number | undefined
}

/** A task that notes what it was handed, and answers with its name. */
function noting(heard: Heard[]) {
  return task('note', input<string>(), {
    retry: { attempts: 1 },
    run(name, { job }) {
      heard.push({ name, parents: job.parentResults, node: job.flow?.node })
      if (name.startsWith('bad')) throw new Error(name)
      return name.toUpperCase()
    },
  })
}

const names = (heard: readonly Heard[]): string[] => heard.map(({ name }) => name)

describe('a chain', () => {
  test('runs step by step, and hands each the results of those before it', async () => {
    const { clock, start } = createEngineHarness()
    const heard: Heard[] = []
    const note = noting(heard)
    const engine = await start({ tasks: [note] })
    const flow = await engine.flows.start({ kind: 'chain', steps: ['a', 'b', 'c'].map((name) => call(note, name)) })
    await clock.advance(0)
    expect(heard).toEqual([
      { name: 'a', parents: [], node: 0 },
      { name: 'b', parents: ['A'], node: 1 },
      { name: 'c', parents: ['A', 'B'], node: 2 },
    ])
    expect(await flow.jobs.at(-1)?.result()).toBe('C')
    expect(await engine.flows.get(flow.id)).toMatchObject({ state: 'completed', total: 3, completed: 3 })
  })

  test('stops at a step that fails for good: a caller that waits for a later one learns it, and events say so', async () => {
    const { clock, start } = createEngineHarness()
    const heard: Heard[] = []
    const note = noting(heard)
    const engine = await start({ tasks: [note] })
    const events = record(engine, 'flow.started', 'flow.failed', 'job.discarded', 'job.cancelled', 'job.enqueued')
    const steps = ['a', 'bad', 'c'].map((name) => call(note, name))
    const flow = await engine.flows.start({ kind: 'chain', name: 'sync', steps })
    const last = flow.jobs[2]?.result().catch((error: unknown) => error)
    await clock.advance(0)
    expect(await last).toMatchObject({ code: 'job.cancelled' })
    expect(names(heard)).toEqual(['a', 'bad'])
    expect(events.map(({ name, event }) => [name, event.id])).toEqual([
      ['flow.started', flow.id],
      ['job.enqueued', flow.jobs[1]?.id],
      ['job.discarded', flow.jobs[1]?.id],
      ['job.cancelled', flow.jobs[2]?.id],
      ['flow.failed', flow.id],
    ])
    const noStep = { step: null, attempt: null, error: null }
    expect(events.at(-1)?.event).toEqual({ id: flow.id, kind: 'chain', name: 'sync', ...noStep })
  })

  test('goes on when the step that failed is retried by hand', async () => {
    const { clock, start } = createEngineHarness()
    const heard: string[] = []
    let broken = true
    const step = task('step', input<string>(), {
      retry: { attempts: 1 },
      run(name) {
        heard.push(name)
        if (name === 'b' && broken) throw new NonRetryable('not yet')
      },
    })
    const engine = await start({ tasks: [step] })
    const flow = await engine.flows.start({ kind: 'chain', steps: ['a', 'b', 'c'].map((name) => call(step, name)) })
    await clock.advance(0)
    broken = false
    await engine.jobs.retry(flow.jobs[1]?.id ?? '')
    await clock.advance(0)
    expect(heard).toEqual(['a', 'b', 'b', 'c'])
    expect((await engine.flows.get(flow.id))?.state).toBe('completed')
  })

  test('a step waits for its own budget, and no other step does', async () => {
    const { at, clock, start } = createEngineHarness()
    const starts: [string, number][] = []
    const api = limit('api', { every: '1s' })
    const run = (name: string): void => void starts.push([name, at()])
    const free = task('free', input<string>(), { run })
    const bound = task('bound', input<string>(), { limits: [api], run })
    const engine = await start({ tasks: [free, bound] })
    for (const x of [1, 2, 3])
      await engine.flows.start({
        kind: 'chain',
        steps: [call(free, `f${x}`), call(bound, `b${x}`), call(free, `g${x}`)],
      })
    await clock.advance('5s')
    const of = (step: string): [string, number][] => starts.filter(([name]) => name.startsWith(step))
    expect(of('f').map(([, second]) => second)).toEqual([0, 0, 0])
    expect(of('b')).toEqual([
      ['b1', 0],
      ['b2', 1],
      ['b3', 2],
    ])
    expect(of('g').map(([, second]) => second)).toEqual([0, 1, 2])
  })

  test('a step of a queue that another process serves goes on there', async () => {
    const { clock, start } = createEngineHarness()
    const heard: Heard[] = []
    const note = noting(heard)
    const engine = await start({ tasks: [note], queues: { a: { concurrency: 1 }, b: { concurrency: 1 } } })
    const steps = [call(note, '1', { queue: 'a' }), call(note, '2', { queue: 'b' }), call(note, '3', { queue: 'a' })]
    await engine.flows.start({ kind: 'chain', steps })
    await clock.advance(0)
    expect(names(heard)).toEqual(['1', '2', '3'])
  })

  test('a delay counts from when the time of a step comes', async () => {
    const { at, clock, start } = createEngineHarness()
    const starts: number[] = []
    const tick = task('tick', { run: () => void starts.push(at()) })
    const engine = await start({ tasks: [tick] })
    await engine.flows.start({
      kind: 'chain',
      steps: [call(tick), call(tick, undefined, { delay: '2s' }), call(tick, undefined, { delay: '3s' })],
    })
    await clock.advance('10s')
    expect(starts).toEqual([0, 2, 5])
  })
})

describe('a batch', () => {
  const batchOf = (
    engine: Sluice,
    note: ReturnType<typeof noting>,
    jobs: readonly string[],
  ): ReturnType<typeof engine.flows.start> =>
    engine.flows.start({
      kind: 'batch',
      jobs: jobs.map((name) => call(note, name)),
      callbacks: { onSuccess: call(note, 'yes'), onFailure: call(note, 'no'), onComplete: call(note, 'done') },
    })

  test('calls back once, with the results of all jobs', async () => {
    const { clock, start } = createEngineHarness()
    const heard: Heard[] = []
    const note = noting(heard)
    const engine = await start({ tasks: [note] })
    await batchOf(engine, note, ['a', 'b'])
    await batchOf(engine, note, ['c', 'bad'])
    await clock.advance('1h')
    expect(heard.filter(({ node }) => node !== undefined && node > 1)).toEqual([
      { name: 'yes', parents: ['A', 'B'], node: 2 },
      { name: 'done', parents: ['A', 'B'], node: 4 },
      { name: 'no', parents: ['C', null], node: 3 },
      { name: 'done', parents: ['C', null], node: 4 },
    ])
  })

  test('its jobs are seen in their order, callbacks last, with their place', async () => {
    const { clock, start } = createEngineHarness()
    const note = noting([])
    const engine = await start({ tasks: [note] })
    const { id } = await batchOf(engine, note, ['a', 'b'])
    await clock.advance(0)
    const jobs = await engine.flows.jobs(id)
    expect(jobs.map(({ input: name, state, flow }) => [name, state, flow?.callback])).toEqual([
      ['a', 'completed', null],
      ['b', 'completed', null],
      ['yes', 'completed', 'success'],
      ['no', 'cancelled', 'failure'],
      ['done', 'completed', 'complete'],
    ])
    expect((await engine.flows.jobs(id, { afterNode: 2, limit: 1 })).map((job) => job.input)).toEqual(['no'])
    await expect(engine.flows.jobs('none')).rejects.toMatchObject({ code: 'flow.not_found' })
  })
})

describe('cancelling', () => {
  test('ends waiting jobs, aborts running ones, and calls no callback', async () => {
    const { clock, start } = createEngineHarness()
    const ran: string[] = []
    const work = task('work', input<string>(), {
      async run(name, { signal }) {
        ran.push(name)
        await clock.sleep('1h')
        signal.throwIfAborted()
      },
    })
    const engine = await start({ tasks: [work], queues: { default: { concurrency: 1 } } })
    const events = record(engine, 'flow.cancelled', 'flow.failed')
    const flow = await engine.flows.start({
      kind: 'batch',
      jobs: ['a', 'b', 'c'].map((name) => call(work, name)),
      callbacks: { onComplete: call(work, 'done') },
    })
    await clock.advance(0)
    const ends = flow.jobs.map((job) => job.result().catch((error: unknown) => error))
    expect(await engine.flows.cancel(flow.id)).toBe(true)
    await clock.advance('2h')
    for (const end of await Promise.all(ends)) expect(end).toMatchObject({ code: 'job.cancelled' })
    expect(ran).toEqual(['a'])
    expect(events.map(({ name }) => name)).toEqual(['flow.cancelled'])
    expect(await engine.flows.cancel(flow.id)).toBe(false)
    await expect(engine.flows.cancel('none')).rejects.toMatchObject({ code: 'flow.not_found' })
    expect(await engine.flows.get(flow.id)).toMatchObject({ state: 'cancelled', cancelled: 3 })
  })

  test('one job of a flow by its id stops those behind it', async () => {
    const { clock, create } = createEngineHarness()
    const note = noting([])
    const engine = create({ tasks: [note] })
    const events = record(engine, 'flow.failed')
    const flow = await engine.flows.start({ kind: 'chain', steps: [call(note, 'a'), call(note, 'b')] })
    await engine.jobs.cancel(flow.jobs[0]?.id ?? '')
    await clock.advance(0)
    await expect(flow.jobs[1]?.result()).rejects.toMatchObject({ code: 'job.cancelled' })
    expect(events.map(({ event }) => event.id)).toEqual([flow.id])
  })
})

describe('looking', () => {
  test('flows are listed newest first, by state and name', async () => {
    const { clock, start } = createEngineHarness()
    const note = noting([])
    const engine = await start({ tasks: [note] })
    const one = await engine.flows.start({ kind: 'group', name: 'one', meta: { by: 'me' }, jobs: [call(note, 'a')] })
    const two = await engine.flows.start({ kind: 'group', jobs: [call(note, 'b', { delay: '1h' })] })
    await clock.advance(0)
    expect((await engine.flows.list()).map(({ id }) => id)).toEqual([two.id, one.id])
    expect((await engine.flows.list({ states: ['running'] })).map(({ id }) => id)).toEqual([two.id])
    expect(await engine.flows.list({ name: 'one' })).toMatchObject([{ meta: { by: 'me' }, state: 'completed' }])
    await expect(engine.flows.list({ limit: 0 })).rejects.toMatchObject({ code: 'option.invalid' })
  })

  test('a pending step is explained', async () => {
    const { create } = createEngineHarness()
    const note = noting([])
    const engine = create({ tasks: [note] })
    const flow = await engine.flows.start({ kind: 'chain', steps: [call(note, 'a'), call(note, 'b')] })
    const { words } = await engine.jobs.explain(flow.jobs[1]?.id ?? '')
    expect(words).toBe(`The job waits for other jobs of its flow ${flow.id}.`)
  })

  test('a job of no flow is handed nothing', async () => {
    const { clock, start } = createEngineHarness()
    const heard: Heard[] = []
    const note = noting(heard)
    await start({ tasks: [note] })
    await note.enqueue('a')
    await clock.advance(0)
    expect(heard).toEqual([{ name: 'a', parents: null, node: undefined }])
  })
})

describe('what is refused stores nothing', () => {
  const note = noting([])
  const stranger = task('stranger', { run: () => undefined })
  const fine = call(note, 'a')
  const refused: readonly [string, object, string][] = [
    ['a chain without steps', { kind: 'chain', steps: [] }, 'flow.invalid'],
    ['a chain of too many steps', { kind: 'chain', steps: Array.from({ length: 1001 }, () => fine) }, 'flow.invalid'],
    ['a group of too many jobs', { kind: 'group', jobs: Array.from({ length: 10_001 }, () => fine) }, 'flow.invalid'],
    ['a batch without callbacks', { kind: 'batch', jobs: [fine], callbacks: {} }, 'flow.invalid'],
    ['a batch without a word of callbacks', { kind: 'batch', jobs: [fine] }, 'flow.invalid'],
    ['a callback that does not exist', { kind: 'batch', jobs: [fine], callbacks: { onEnd: fine } }, 'flow.invalid'],
    ['a kind that does not exist', { kind: 'tree', jobs: [fine] }, 'flow.invalid'],
    ['an option that does not exist', { kind: 'group', jobs: [fine], steps: [fine] }, 'flow.invalid'],
    ['an empty name', { kind: 'group', jobs: [fine], name: '' }, 'flow.invalid'],
    ['jobs that are no list', { kind: 'group', jobs: fine }, 'flow.invalid'],
    ['jobs that are no calls', { kind: 'group', jobs: ['a'] }, 'flow.invalid'],
    ['nothing at all', null as unknown as object, 'flow.invalid'],
    ['a unique job', { kind: 'group', jobs: [{ ...fine, options: { unique: 'k' } }] }, 'flow.invalid'],
    ['a task that the engine does not list', { kind: 'group', jobs: [fine, call(stranger)] }, 'task.unknown'],
    ['a bad option of a call', { kind: 'group', jobs: [fine, call(note, 'b', { priority: 101 })] }, 'priority.invalid'],
    [
      'a time and a delay',
      { kind: 'group', jobs: [call(note, 'b', { delay: 1, runAt: new Date(0) })] },
      'delay.invalid',
    ],
  ]

  test.each(refused)('%s', async (_, options, code) => {
    const engine = createEngineHarness().create({ tasks: [note] })
    await expect(engine.flows.start(options as never)).rejects.toMatchObject({ code })
    expect(await engine.flows.list()).toEqual([])
    expect(await engine.jobs.list()).toEqual([])
  })
})

test('a call takes what its task takes', () => {
  const note = task('typed', input<{ x: number }>(), { run: ({ x }) => x })
  const tick = task('untyped', { run: () => undefined })
  expectTypeOf(call(note, { x: 1 })).toEqualTypeOf<Call>()
  call(tick)
  // @ts-expect-error: the input of another task
  call(note, { y: 1 })
  // @ts-expect-error: a job of a flow cannot be unique
  call(note, { x: 1 }, { unique: 'k' })
})
