import { rmSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { call, type FleetEvents, type FleetListening, type Sluice, task } from '../../src/exports/index.ts'
import { everyStore, onSqlite } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const NAMES = [
  'job.enqueued',
  'job.started',
  'job.failed',
  'job.retrying',
  'job.snoozed',
  'job.completed',
  'job.discarded',
  'job.cancelled',
  'flow.started',
  'flow.completed',
] as const satisfies readonly (keyof FleetEvents)[]

/** As many as are kept for a process that falls behind. */
const KEPT = 10_000

const NUMBER = expect.any(Number) as number

const stores = await everyStore('events of the fleet')

for (const { name: kind, create } of stores) {
  test(`on ${kind}, a process that runs nothing hears the life of a job of another, in order`, async () => {
    const harness = createEngineHarness()
    const store = create()
    const work = task('work.item', {
      retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
      run: (_, ctx) => {
        if (ctx.attempt === 1) throw Object.assign(new Error('once'), { code: 'first.try' })
      },
    })
    await harness.start({ store, tasks: [work] })
    const listener = harness.create({ store, tasks: [] })
    const { heard, ready } = listen(listener)
    await settled(harness, ready)
    const job = await work.enqueue()
    await until(harness, () => heard.some(({ name }) => name === 'job.completed'))
    const about = { id: job.id, task: 'work.item', queue: 'default' }
    const error = expect.objectContaining({ message: 'Error: once', code: 'first.try' }) as Error
    expect(heard).toEqual([
      { name: 'job.enqueued', event: about },
      { name: 'job.started', event: { ...about, attempt: 1, ageMs: NUMBER, waitedMs: NUMBER } },
      { name: 'job.failed', event: { ...about, attempt: 1, error } },
      { name: 'job.retrying', event: { ...about, attempt: 1, error, delayMs: 1000 } },
      { name: 'job.started', event: { ...about, attempt: 2, ageMs: NUMBER, waitedMs: NUMBER } },
      { name: 'job.completed', event: { ...about, attempt: 2 } },
    ])
  })

  test(`on ${kind}, a process that falls behind is told once that events are lost, and goes on from there`, async () => {
    const harness = createEngineHarness()
    const store = create()
    const work = task('work.item', { run: () => undefined })
    const [caller, listener] = [harness.create({ store, tasks: [work] }), harness.create({ store, tasks: [] })]
    const lost: unknown[] = []
    const here: unknown[] = []
    const told = listener.on('events.lost', (event) => void lost.push(event), { fleet: true })
    listener.on('events.lost', (event) => void here.push(event))
    const { heard, ready } = listen(listener)
    await settled(harness, Promise.all([ready, told.ready]))
    const sinceMs = harness.clock.now()
    // More than are kept, in one transaction.
    await work.enqueueMany(Array.from({ length: KEPT + 5 }, () => undefined))
    await until(harness, () => heard.length >= KEPT)
    const job = await work.enqueue()
    await until(harness, () => heard.length > KEPT)
    await harness.clock.advance('10s')
    expect(heard.at(-1)).toEqual({ name: 'job.enqueued', event: expect.objectContaining({ id: job.id }) as object })
    expect(heard).toHaveLength(KEPT + 1)
    expect(lost).toEqual([{ since: expect.any(Date) as Date }])
    expect(here).toEqual(lost)
    expect((lost[0] as FleetEvents['events.lost']).since.getTime()).toBeLessThanOrEqual(sinceMs)
    await caller.stop()
  })

  test(`on ${kind}, a process that comes late hears what happens from then on`, async () => {
    const harness = createEngineHarness()
    const store = create()
    const work = task('work.item', { run: () => undefined })
    const caller = harness.create({ store, tasks: [work] })
    const first = listen(harness.create({ store, tasks: [] }))
    await settled(harness, first.ready)
    await settled(harness, work.enqueue())
    const late = listen(harness.create({ store, tasks: [] }))
    await settled(harness, late.ready)
    const job = await settled(harness, caller.enqueue(work))
    await until(harness, () => first.heard.length === 2 && late.heard.length === 1)
    expect(late.heard).toEqual([{ name: 'job.enqueued', event: { id: job.id, task: 'work.item', queue: 'default' } }])
  })

  test(`on ${kind}, a flow is told at its start and its end`, async () => {
    const harness = createEngineHarness()
    const store = create()
    const work = task('work.item', { run: () => undefined })
    const worker = await harness.start({ store, tasks: [work] })
    const { heard, ready } = listen(harness.create({ store, tasks: [] }))
    await settled(harness, ready)
    const flow = await settled(harness, worker.flows.start({ kind: 'chain', steps: [call(work), call(work)] }))
    await until(harness, () => heard.some(({ name }) => name === 'flow.completed'))
    const about = { id: flow.id, kind: 'chain', name: null }
    expect(heard.filter(({ name }) => name.startsWith('flow.'))).toEqual([
      { name: 'flow.started', event: { ...about, jobs: 2 } },
      { name: 'flow.completed', event: about },
    ])
  })
}

test('all listeners of a process share one reader, which ends with the last of them', async () => {
  const harness = createEngineHarness()
  const store = onSqlite.create()
  const work = task('work.item', { run: () => undefined })
  const engine = harness.create({ store, tasks: [work] })
  const [first, second] = [listen(engine), listen(engine)]
  await settled(harness, Promise.all([first.ready, second.ready]))
  const file = new DatabaseSync(store.slice('sqlite:'.length))
  const count = (table: string): unknown => file.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.['n']
  expect(count('event_readers')).toBe(1)
  first.off()
  first.off()
  await settled(harness, work.enqueue())
  await until(harness, () => second.heard.length === 1)
  expect(first.heard).toEqual([])
  second.off()
  await until(harness, () => count('event_readers') === 0)
  await settled(harness, work.enqueue())
  expect(count('events')).toBe(0)
  file.close()
})

test('a listener that throws ends neither the others nor the subscription', async () => {
  const harness = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = harness.create({ store: onSqlite.create(), tasks: [work] })
  const fail = (): never => {
    throw new Error('no')
  }
  const heard: string[] = []
  const on = (listener: (event: { readonly id: string }) => unknown): FleetListening =>
    engine.on('job.enqueued', listener as () => void, { fleet: true })
  const offs = [fail, () => Promise.reject(new Error('no')), ({ id }: { id: string }) => void heard.push(id)].map(on)
  await settled(harness, Promise.all(offs.map(({ ready }) => ready)))
  const jobs = [await settled(harness, work.enqueue())]
  await until(harness, () => heard.length === 1)
  jobs.push(await settled(harness, work.enqueue()))
  await until(harness, () => heard.length === 2)
  expect(heard).toEqual(jobs.map(({ id }) => id))
  expect(harness.errors).toEqual(Array.from({ length: 4 }, () => 'a listener of job.enqueued threw'))
})

test('a stopped engine has delivered the ends of its own jobs, and leaves no reader', async () => {
  const harness = createEngineHarness()
  const store = onSqlite.create()
  const work = task('work.item', { run: () => undefined })
  const engine = await harness.start({ store, tasks: [work] })
  const { heard, ready } = listen(engine)
  await settled(harness, ready)
  await work.enqueue()
  await harness.stop(engine)
  expect(heard.map(({ name }) => name)).toEqual(['job.enqueued', 'job.started', 'job.completed'])
  const file = new DatabaseSync(store.slice('sqlite:'.length))
  expect(file.prepare('SELECT count(*) AS n FROM event_readers').get()).toEqual({ n: 0 })
  file.close()
  expect(() => engine.on('job.started', () => undefined, { fleet: true })).toThrow(
    expect.objectContaining({ code: 'engine.stopped' }),
  )
})

test('a reader whose lease has ended begins again, and says that events may be missing', async () => {
  const harness = createEngineHarness()
  const store = onSqlite.create()
  const work = task('work.item', { run: () => undefined })
  const engine = harness.create({ store, tasks: [work] })
  const lost: unknown[] = []
  const told = engine.on('events.lost', (event) => void lost.push(event), { fleet: true })
  const { heard, ready } = listen(engine)
  await settled(harness, Promise.all([ready, told.ready]))
  // As pruning does once the process has been suspended for longer than its lease.
  const file = new DatabaseSync(store.slice('sqlite:'.length))
  file.exec('DELETE FROM event_readers')
  file.close()
  await harness.clock.advance('10s')
  expect(lost).toEqual([{ since: expect.any(Date) as Date }])
  await settled(harness, work.enqueue())
  await until(harness, () => heard.length === 1)
  expect(lost).toHaveLength(1)
})

test('a store that refuses a subscription says why, and one that is mended takes it', async () => {
  const harness = createEngineHarness()
  const store = onSqlite.create()
  const path = store.slice('sqlite:'.length)
  writeFileSync(path, 'This is not a database, and it is longer than the header of one. '.repeat(20))
  const work = task('work.item', { run: () => undefined })
  const engine = harness.create({ store, tasks: [work] })
  const { heard, ready } = listen(engine)
  await expect(settled(harness, ready)).rejects.toMatchObject({ code: 'store.io' })
  rmSync(path)
  const later = listen(engine)
  await settled(harness, later.ready)
  const { id } = await settled(harness, work.enqueue())
  await until(harness, () => later.heard.length > 0)
  const told = [{ name: 'job.enqueued', event: { id, task: 'work.item', queue: 'default' } }]
  expect([heard, later.heard]).toEqual([told, told])
})

test('an engine without events reads none of the fleet', async () => {
  const harness = createEngineHarness()
  const work = task('work.item', { run: () => undefined })
  const engine = await harness.start({ store: onSqlite.create(), tasks: [work], events: false })
  const { heard, ready } = listen(engine)
  await ready
  await work.enqueue()
  await harness.clock.advance('5s')
  expect(heard).toEqual([])
})

/** Every event of the fleet as it comes. */
function listen(engine: Sluice) {
  const heard: { readonly name: string; readonly event: unknown }[] = []
  const on = (name: keyof FleetEvents): FleetListening =>
    engine.on(name, (event: unknown) => void heard.push({ name, event }), { fleet: true })
  const all = NAMES.map(on)
  return { heard, ready: Promise.all(all.map(({ ready }) => ready)), off: () => all.forEach((off) => off()) }
}

type Harness = ReturnType<typeof createEngineHarness>

/** Lets time pass until a promise settles. */
async function settled<T>(harness: Harness, promise: Promise<T>): Promise<T> {
  const end = { reached: false }
  promise.finally(() => (end.reached = true)).catch(() => undefined)
  await until(harness, () => end.reached)
  return promise
}

/** Lets time pass until something is so. */
async function until({ clock }: Harness, isSo: () => boolean): Promise<void> {
  for (let i = 0; !isSo(); i++) {
    if (i === 200) throw new Error('It has not happened in 100 s')
    await clock.advance('500ms')
  }
}
