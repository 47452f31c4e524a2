import { Pool } from 'pg'
import { describe, expect, test } from 'vitest'
import {
  call,
  forecast,
  limit,
  NonRetryable,
  RateLimited,
  seededRandom,
  Sluice,
  SluiceError,
  type SluiceOptions,
  task,
} from '../../src/exports/index.ts'
import { createHttpApp } from '../../src/exports/http.ts'
import { instrument } from '../../src/exports/opentelemetry.ts'
import { createPostgresStore } from '../../src/exports/postgres.ts'
import { createManualClock, drain } from '../../src/exports/testing.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { systemClock } from '../../src/base/clock.ts'
import { createEngineHarness } from './engine-harness.ts'

/** As callers without types give it. */
const a = (value: unknown): never => value as never
const run = (): void => undefined
const work = task('work.item', { run })
const crm = limit('crm', { rate: 5, per: '1s' })
const pool = new Pool()
const engine = (more: object): Sluice => new Sluice({ store: 'sqlite::memory:', tasks: [], ...more })

const TEXTLESS = { toString: () => ({}) }
/** No field takes any of these, and some have no text to show. */
const WRONG: readonly unknown[] = [
  Number.NaN,
  Object.create(null),
  TEXTLESS,
  Symbol('x'),
  new Date(Number.NaN),
  [Symbol('y')],
]
/** Where a field would take an empty object, a text or a number. */
const NONE: readonly unknown[] = [null, Number.NaN, 10n, Symbol('x'), '', true]

/** The options that get a wrong value, and those values. */
type Field = readonly [string, (value: never, sluice: Sluice) => unknown, readonly unknown[]]

const FIELDS: readonly Field[] = [
  ['the lease', (value) => engine({ lease: value }), [...WRONG, null]],
  ['durability', (value) => engine({ durability: value }), [...WRONG, null]],
  ['the longest penalty', (value) => engine({ maxPenalty: value }), [...WRONG, null, 0]],
  ['budgets', (value) => engine({ budgets: value }), [...NONE, new Date(), new Map()]],
  ['retention', (value) => engine({ retention: value }), [...NONE, new Date(), new Map()]],
  ['the clock of an engine', (value) => engine({ clock: value }), [...WRONG, null, {}]],
  ['the logger of an engine', (value) => engine({ logger: value }), [...WRONG, null, {}, console.log]],
  ['the randomness of an engine', (value) => engine({ random: value }), [...WRONG, Math.random]],
  ['the store of an engine', (value) => engine({ store: value }), [...WRONG, 10n, {}, null]],
  ['queues', (value) => engine({ queues: value }), [...NONE, new Map([['mail', {}]]), new Set(['mail'])]],
  ['the start of a task', (value) => task('x', { run, onStarted: value }), [...WRONG, null, 'log']],
  ['the end of a task', (value) => task('x', { run, onError: value }), [...WRONG, null, 'log']],
  ['the queue of a task', (value) => task('x', { run, queue: value }), [...WRONG, null]],
  ['the first delay', (value) => task('x', { run, retry: { initial: value } }), [...WRONG, null]],
  ['a limit of a task', (value) => task('x', { run, limits: [value] }), [...NONE, undefined]],
  ['onLimit', (value) => limit('x', { rate: 1, per: 1, onLimit: value }), [...WRONG, null]],
  ['the options of a call', (value, s) => s.enqueue(work, undefined, value), [...NONE, new Date(), new Map(), run]],
  ['the limits of a call', (value, s) => s.enqueue(work, undefined, { limits: value }), [...NONE, 0, {}]],
  ['the weight of a call', (value, s) => s.enqueue(work, undefined, { weight: value }), [...WRONG, null, () => 2]],
  ['the share of a call', (value, s) => s.enqueue(work, undefined, { share: value }), [...WRONG, null, () => 2]],
  ['the queue of a call', (value, s) => s.enqueue(work, undefined, { queue: value }), [...WRONG, null, 10n]],
  ['the tags of a call', (value, s) => s.enqueue(work, undefined, { tags: value }), [...NONE, 'new', [1], {}]],
  [
    'the meta of a call',
    (value, s) => s.enqueue(work, undefined, { meta: value }),
    [...NONE, 'new', [1], new Date(), new Map()],
  ],
  ['the options of no calls', (value) => work.enqueueMany([], value), [...NONE, a({ prioritiy: 1 })]],
  [
    'the time zone',
    (value, s) => s.schedule(work, { cron: '* * * * *', timezone: value }),
    [...WRONG, null, '', -1, 10n],
  ],
  ['the name of a schedule', (value, s) => s.schedules.remove(value), [...WRONG, null, undefined]],
  [
    'the meta of a flow',
    (value, s) => s.flows.start({ kind: 'group', jobs: [call(work)], meta: value }),
    [...NONE, new Map()],
  ],
  [
    'the transaction of a call of a flow',
    (value, s) => s.flows.start({ kind: 'group', jobs: [call(work, undefined, a({ tx: value }))] }),
    [...NONE, {}],
  ],
  [
    'a page of a flow',
    (value, s) => s.flows.jobs('x', value),
    [...NONE, { lmit: 1 }, { limit: 1.5 }, { afterNode: [] }],
  ],
  ['the list of flows', (value, s) => s.flows.list(value), [...NONE, { states: 1 }, { name: 1 }, { kind: 'heap' }]],
  ['the id of a flow', (value, s) => s.flows.cancel(value), [...WRONG, undefined]],
  ['the id of a job', (value, s) => s.jobs.get(value), [...WRONG, undefined]],
  ['the job that is explained', (value, s) => s.jobs.explain(value), [...WRONG, null]],
  ['the limit that is paused', (value, s) => s.limits.pause(value), [...WRONG, null, {}, 5]],
  ['the limit whose record is told', (value, s) => s.limits.overrides(value), [...WRONG, null, {}, 5]],
  ['the key of a forecast', (value, s) => s.forecast('crm', { key: value }), WRONG],
  ['the limit of a forecast', (value, s) => s.forecast(value), [...WRONG, null]],
  ['the backlog of a forecast', (value) => forecast({ every: 1 }, { backlog: value }), [...WRONG, null, {}]],
  [
    'the instant of a forecast',
    (value) => forecast({ every: 1 }, { backlog: 1, at: value }),
    [...NONE, new Date(8.64e15)],
  ],
  ['the name of an event', (value, s) => s.on(value, run), [...WRONG, null, undefined]],
  [
    'what follows a listener',
    (value, s) => s.on('job.completed', run, value),
    [...NONE, new Date(), run, a({ fleets: true }), { fleet: 1 }],
  ],
  ['instrumentation', (value, s) => s.instrument(value), [undefined, 1, {}]],
  ['telemetry', (value) => instrument(value), [...NONE, {}]],
  ['the tracer', (value, s) => instrument(s, { tracer: value }), [...NONE, {}]],
  ['the shape of traces', (value, s) => instrument(s, { runs: value }), [...NONE, 'chld']],
  ['a stop', (value, s) => s.stop({ within: value }), [...WRONG, null]],
  ['the start of a clock', (value) => createManualClock({ start: value }), [...WRONG, '', null]],
  ['the step of a clock', (value) => createManualClock().step(value), [...WRONG, Infinity, '']],
  ['what is drained', (value) => drain(value, createManualClock()), [...NONE, {}]],
  ['the clock of a drain', (value, s) => drain(s, value), [...NONE, {}]],
  ['a seed', (value) => seededRandom(value), [Number.NaN, Symbol('x'), 10n, null]],
  ['a server', (value) => createHttpApp(value), [...NONE, {}, undefined]],
  ['an option of a server', (value, sluice) => createHttpApp(a({ sluice, tokns: value })), [[]]],
  ['the tokens of a server', (value, sluice) => createHttpApp({ sluice, tokens: value }), [...NONE, {}]],
  ['the limits of a server', (value, sluice) => createHttpApp({ sluice, limits: value }), [...NONE, { limit: {} }]],
  [
    'the budgets of a server',
    (value, sluice) => createHttpApp({ sluice, budgets: value }),
    [...NONE, {}, { define: run }],
  ],
  ['the requests of a server', (value, sluice) => createHttpApp({ sluice, requests: value }), [...NONE, {}]],
  [
    'the bodies of a server',
    (value, sluice) => createHttpApp({ sluice, maxBodyBytes: value }),
    [...WRONG, null, 0, '1'],
  ],
  ['the pool of a store', (value) => createPostgresStore({ pool: value }), [...NONE, {}, undefined]],
  [
    'the notifications of a store',
    (value) => createPostgresStore({ pool, notify: value }),
    [...WRONG, null, 1, 'false'],
  ],
  [
    'the schema of a store',
    (value) => createPostgresStore({ pool, schema: value }),
    [...WRONG, null, '', 'x'.repeat(64)],
  ],
]

describe('what a field cannot take is refused with a code, and nothing is written, in', () => {
  test.each(FIELDS)('%s', async (_, give, values) => {
    const { create } = createEngineHarness()
    const sluice = create({ tasks: [work], limits: [crm] })
    for (const value of values) {
      const error: unknown = await (async () => give(a(value), sluice))().then(
        () => `it took number ${values.indexOf(value)}`,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(SluiceError)
    }
    expect([await sluice.jobs.list(), await sluice.schedules.list(), await sluice.flows.list()]).toEqual([[], [], []])
  })
})

describe('a store that was made already', () => {
  const store = (): SluiceOptions['store'] =>
    new SqliteStore({
      path: ':memory:',
      clock: systemClock,
      durability: 'process',
      retention: { completedUs: 1, cancelledUs: 1, discardedUs: 1 },
    })

  test.each([
    ['durability', 'power'],
    ['retention', { completed: '1h' }],
    ['ageing', null],
    ['ageing', '1m'],
  ])('refuses %s beside it, which it would not hold to', (name, value) => {
    const refused = (): Sluice => engine({ store: store(), [name]: value })
    expect(refused).toThrow(expect.objectContaining({ code: 'option.invalid' }))
    expect(refused).toThrow(name)
    expect(() => engine({ store: store(), [name]: undefined })).not.toThrow()
  })
})

test('what a handler throws with wrong facts stays what it is', () => {
  expect(new RateLimited({ retryAfter: '1s', limit: a(null) }).limitName).toBeNull()
  expect(new RateLimited({ retryAfter: '1s', limit: a(5) }).limitName).toBeNull()
  expect(new NonRetryable('no', a('a cause that is no object')).code).toBe('handler.nonretryable')
})
