// A store that refuses for a while, or for good: what ended is kept, nothing runs twice, and nothing is hammered.
import { remoteOf } from '../../src/remote/remote.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { input, limit, type Sluice, task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { createEngineHarness } from './engine-harness.ts'

type Verb = keyof Store

interface Troubled {
  readonly store: Store
  /** The error with which these verbs, or all, fail; null: none. */
  readonly fail: (error: Error | null, ...verbs: Verb[]) => void
  /** Calls of a verb since it was last asked. */
  readonly calls: (verb: Verb) => number
}

const DOING: readonly Verb[] = ['claim', 'settle', 'heartbeat', 'recover', 'release', 'leave', 'cancellations', 'prune']
const BUSY = new SluiceError('store.busy', 'locked', { lasts: 'passes' })

/** A store whose calls fail on demand before they reach it. */
function troubled(clock: ManualClock, path = ':memory:'): Troubled {
  const inner = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION })
  const failing = new Map<Verb, Error>()
  const calls = new Map<Verb, number>()
  const store = new Proxy<Store>(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const verb = name as Verb
      return (...args: unknown[]): unknown => {
        calls.set(verb, (calls.get(verb) ?? 0) + 1)
        const error = failing.get(verb)
        return error ? Promise.reject(error) : (value.apply(target, args) as unknown)
      }
    },
  })
  return {
    store,
    fail(error, ...verbs) {
      failing.clear()
      if (error) for (const verb of verbs.length > 0 ? verbs : DOING) failing.set(verb, error)
    },
    calls(verb) {
      const count = calls.get(verb) ?? 0
      calls.delete(verb)
      return count
    },
  }
}

/** A task of so many attempts whose handler takes 3 s. */
function slowTask(clock: ManualClock, attempts: number) {
  const runs: string[] = []
  const work = task('work.item', input<string>(), {
    limits: [limit('one', { concurrency: 10 })],
    retry: { attempts, backoff: 'none' },
    run: async (name) => {
      runs.push(name)
      await clock.sleep('3s')
      return name
    },
  })
  return { runs, work }
}

test.each([
  ['settlements alone', ['settle']],
  ['everything', []],
] as [string, Verb[]][])(
  'runs that end while the store refuses %s, for several leases, are settled when it serves again',
  async (_, verbs) => {
    const { clock, start, errors } = createEngineHarness()
    const { store, fail } = troubled(clock)
    const { work, runs } = slowTask(clock, 1)
    const engine = await start({ tasks: [work], store, lease: '5s' })
    const jobs = [await work.enqueue('a'), await work.enqueue('b')]
    await clock.advance('1s')
    fail(BUSY, ...verbs)
    await clock.advance('1m')
    fail(null)
    await clock.advance('5s')
    expect(runs).toEqual(['a', 'b'])
    for (const { id } of jobs) expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', attempt: 1 })
    expect(await engine.limits.inspect('one')).toMatchObject([{ active: 0 }])
    expect(new Set(errors).size).toBe(errors.length)
  },
)

test('a handler that is at work while the store refuses for longer than its lease goes on, and counts', async () => {
  const { clock, start } = createEngineHarness()
  const { store, fail } = troubled(clock)
  const runs: number[] = []
  const work = task('work.item', {
    retry: { attempts: 3 },
    run: async (_input, ctx) => {
      runs.push(ctx.attempt)
      await clock.sleep('90s')
    },
  })
  const engine = await start({ tasks: [work], store, lease: '5s' })
  const job = await work.enqueue()
  await clock.advance('1s')
  fail(BUSY)
  await clock.advance('1m')
  fail(null)
  await clock.advance('1m')
  expect(runs).toEqual([1])
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
})

test('a store that refuses claims is asked every 2 s at most, however many jobs arrive, and serves at once when it can', async () => {
  const { clock, start, errors } = createEngineHarness()
  const { store, fail, calls } = troubled(clock)
  const { work, runs } = slowTask(clock, 1)
  await start({ tasks: [work], store })
  await clock.advance('1s')
  fail(BUSY, 'claim')
  await work.enqueue('first')
  await clock.advance('10s')
  calls('claim')
  for (let n = 0; n < 100; n++) {
    await work.enqueue(`${n}`)
    await clock.advance('100ms')
  }
  expect(calls('claim')).toBeLessThanOrEqual(6)
  fail(null)
  await clock.advance('2s')
  expect(runs.length).toBe(10)
  expect(errors).toEqual(['a claim failed; it will be tried again'])
})

test('while settlements are refused, runs that wait for theirs take the slots: few more jobs begin', async () => {
  const { clock, start } = createEngineHarness()
  const { store, fail } = troubled(clock)
  let runs = 0
  const work = task('work.item', { retry: { attempts: 1 }, run: () => void runs++ })
  const engine = await start({ tasks: [work], store, queues: { default: { concurrency: 2 } } })
  fail(BUSY, 'settle')
  for (let n = 0; n < 50; n++) await engine.enqueue(work)
  await clock.advance('30s')
  expect(runs).toBeLessThanOrEqual(4)
  fail(null)
  await clock.advance('5s')
  expect(runs).toBe(50)
  expect(new Set((await engine.jobs.list({ limit: 100 })).map(({ state }) => state))).toEqual(new Set(['completed']))
})

test('a settlement that stays impossible is given up at once: its lease ends, and nothing else suffers', async () => {
  const { clock, start, errors } = createEngineHarness()
  const { store, fail } = troubled(clock)
  const { work, runs } = slowTask(clock, 2)
  const engine = await start({ tasks: [work], store, lease: '5s' })
  const job = await work.enqueue('a')
  await clock.advance('1s')
  const result = job.result()
  fail(new TypeError('our own mistake'), 'settle')
  await clock.advance('3s')
  fail(null)
  await clock.advance('20s')
  expect(runs).toEqual(['a', 'a'])
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 2 })
  await result
  expect(errors).toEqual(['a run could not be settled; its lease will end, and the job runs again'])
})

test('a store that has failed for good is reported once, and left alone', async () => {
  const { clock, start, errors, warnings } = createEngineHarness()
  const { store, fail, calls } = troubled(clock)
  const { work } = slowTask(clock, 3)
  const engine = await start({ tasks: [work], store, lease: '5s' })
  await work.enqueue('a')
  await clock.advance('1s')
  fail(new SluiceError('store.io', 'The disk refused to sync', { lasts: 'final' }))
  // Each chore finds out by itself.
  await clock.advance('2m')
  for (const verb of DOING) calls(verb)
  await clock.advance('10m')
  expect(DOING.map(calls)).toEqual(DOING.map(() => 0))
  const stopping = engine.stop()
  await clock.advance('1s')
  await stopping
  expect(errors.length).toBe(1)
  expect(errors[0]).toContain('the store has failed')
  expect(warnings).toEqual([])
})

test('what a claim brings to an engine that stops is given back though the store refuses for a while', async () => {
  const { clock, start } = createEngineHarness()
  const { store, fail } = troubled(clock)
  const { work, runs } = slowTask(clock, 1)
  const engine = await start({ tasks: [work], store })
  await clock.advance('1s')
  const claim = store.claim.bind(store)
  const held = Promise.withResolvers<void>()
  store.claim = async (request) => {
    const claimed = await claim(request)
    if (claimed.jobs.length > 0) await held.promise
    return claimed
  }
  const { id } = await work.enqueue('a')
  await clock.advance('1s')
  fail(BUSY, 'release')
  const stopping = engine.stop({ within: '10s' })
  await clock.advance('1s')
  held.resolve()
  await clock.advance('3s')
  fail(null)
  // Looked at before the store closes.
  let left: unknown
  store.leave = async () => void (left = await store.get(id))
  await clock.advance('5s')
  await stopping
  expect(runs).toEqual([])
  expect(left).toMatchObject({ state: 'available', attempt: 0 })
})

test('what an outside worker acknowledges while the store refuses counts when it serves again, though its lease is over', async () => {
  const { clock, create } = createEngineHarness()
  const { store, fail } = troubled(clock)
  const { work } = slowTask(clock, 1)
  const engine = create({ tasks: [work], store })
  const { id } = await work.enqueue('a')
  const fetch = { worker: 'w', queues: ['default'], count: 1, leaseUs: 5_000_000, waitMs: 0 }
  expect(await remoteOf(engine).fetch(fetch)).toMatchObject([{ id, attempt: 1 }])
  await clock.advance('1s')
  fail(BUSY)
  const acknowledged = remoteOf(engine).complete(id, { attempt: 1 }, 'null')
  await clock.advance('8s')
  fail(null)
  await clock.advance('3s')
  expect(await acknowledged).toMatchObject({ kind: 'settled' })
  expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', attempt: 1 })
})

test('after trouble each worker extends its own leases before another takes back its runs', async () => {
  const { clock, start } = createEngineHarness()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-trouble-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const stores = [troubled(clock, join(folder, 'jobs.db')), troubled(clock, join(folder, 'jobs.db'))]
  const runs: string[] = []
  const engines: Sluice[] = []
  for (const [n, { store }] of stores.entries()) {
    const work = task('work.item', {
      retry: { attempts: 3 },
      run: async (_input, { attempt }) => {
        runs.push(`${n} ${attempt}`)
        await clock.sleep('90s')
      },
    })
    const engine = await start({ tasks: [work], store, lease: '5s', queues: { default: { concurrency: 2 } } })
    engines.push(engine)
    for (let i = 0; i < 2; i++) await engine.enqueue(work)
    await clock.advance('1s')
  }
  await clock.advance('1s')
  for (const { fail } of stores) fail(BUSY)
  await clock.advance('1m')
  for (const { fail } of stores) {
    fail(null)
    await clock.advance('1500ms')
  }
  await clock.advance('1m')
  expect(runs).toEqual(['0 1', '0 1', '1 1', '1 1'])
  expect(new Set((await engines[0]!.jobs.list()).map(({ state }) => state))).toEqual(new Set(['completed']))
})

test('a run is not aborted for the lease of an earlier one of the same job', async () => {
  const { clock, start } = createEngineHarness()
  const { store } = troubled(clock)
  const told: string[] = []
  const work = task('work.item', {
    retry: { attempts: 3, backoff: 'none' },
    run: async (_input, { attempt, signal }) => {
      told.push(`starts ${attempt}`)
      signal.addEventListener('abort', () => told.push(`aborted ${attempt}`))
      await clock.sleep('1500ms')
      if (attempt === 1) throw new Error('once more')
    },
  })
  const beat = store.heartbeat.bind(store)
  let letGo = (): void => undefined
  store.heartbeat = async (worker, runs, leaseUs) => {
    if (runs.length > 0) await new Promise<void>((resolve) => (letGo = resolve))
    return beat(worker, runs, leaseUs)
  }
  await start({ tasks: [work], store, lease: '10s', heartbeat: '1s' })
  await work.enqueue()
  await clock.advance('2s')
  expect(told).toEqual(['starts 1', 'starts 2'])
  letGo()
  await clock.advance('500ms')
  expect(told).toEqual(['starts 1', 'starts 2'])
})

test('the end of a lost run leaves the lease of a later run of the same job to that run', async () => {
  const { clock, start, errors } = createEngineHarness()
  const { store } = troubled(clock)
  const told: string[] = []
  const work = task('work.item', {
    retry: { attempts: 3 },
    run: async (_input, { attempt, signal }) => {
      told.push(`starts ${attempt}`)
      signal.addEventListener('abort', () => told.push(`aborted ${attempt}`))
      await clock.sleep(attempt === 1 ? '20s' : '60s')
      told.push(`ends ${attempt}`)
    },
  })
  const beat = store.heartbeat.bind(store)
  const wait = Promise.withResolvers<void>()
  store.heartbeat = async (worker, runs, leaseUs) => {
    if (runs.length > 0) await wait.promise
    return beat(worker, runs, leaseUs)
  }
  const news = task('news', { run: () => undefined })
  const engine = await start({ tasks: [work, news], store, lease: '3s', heartbeat: '1s' })
  const { id } = await work.enqueue()
  await clock.advance('5s')
  // As another process does that was not held up.
  expect(await store.recover()).toHaveLength(1)
  await news.enqueue()
  await clock.advance('1s')
  expect(told).toEqual(['starts 1', 'aborted 1', 'starts 2'])
  wait.resolve()
  await clock.advance('2m')
  expect(told).toEqual(['starts 1', 'aborted 1', 'starts 2', 'ends 1', 'ends 2'])
  expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', attempt: 2 })
  expect(errors).toEqual([])
})

test('a caller whose job cannot be read is told at once; one that was answered "not yet" goes on waiting', async () => {
  const { clock, start } = createEngineHarness()
  const { calls, fail, store } = troubled(clock)
  const { work } = slowTask(clock, 1)
  // The answer to the first caller is on its way for as long as the test wants.
  let arrive = (): void => undefined
  const way = new Promise<void>((resolve) => (arrive = resolve))
  const ended: Store['ended'] = async (ids) => {
    const answer = await store.ended(ids)
    await way
    return answer
  }
  const far = new Proxy(store, {
    get: (target, name) => (name === 'ended' ? ended : (Reflect.get(target, name) as unknown)),
  })
  await start({ store: far, tasks: [work] })
  const job = await work.enqueue('a', { delay: '1m' })
  calls('ended')
  const first = job.result()
  while (calls('ended') === 0) await new Promise((resolve) => setImmediate(resolve))
  const second = job.result()
  await clock.advance(0)
  fail(BUSY, 'ended')
  arrive()
  await expect(second).rejects.toMatchObject({ code: 'store.busy' })
  fail(null)
  await clock.advance('2m')
  expect(await first).toBe('a')
})
