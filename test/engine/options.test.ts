import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createPostgresStore } from '../../src/exports/postgres.ts'
import {
  call,
  forecast,
  input,
  limit,
  RateLimited,
  Sluice,
  type SluiceOptions,
  type TaskOptions,
  task,
} from '../../src/exports/index.ts'
import { silentLogger } from '../../src/base/logger.ts'
import { createManualClock, drain } from '../../src/exports/testing.ts'
import { createEngineHarness } from './engine-harness.ts'

function untyped<T>(value: unknown): T {
  return value as T
}

const run = (): void => undefined
const crm = limit('crm', { rate: 5, per: '1s' })
const work = task('work.item', input<{ a: string }>(), { run })
const store = 'sqlite::memory:'
const engine = (more: object): Sluice => new Sluice(untyped<SluiceOptions>({ store, tasks: [], ...more }))
const a = untyped<never>

/** The refused call, the code, and the words of the message. */
type Case = readonly [string, (sluice: Sluice) => unknown, string, string]

const CASES: readonly Case[] = [
  ['a queue', () => engine({ queues: { mail: { limit: [crm] } } }), 'option.invalid', 'did you mean limits?'],
  ['retention', () => engine({ retention: { complete: '1h' } }), 'option.invalid', 'did you mean completed?'],
  ['an engine', () => engine({ retenton: {} }), 'option.invalid', 'did you mean retention?'],
  ['no engine at all', () => new (untyped<new () => Sluice>(Sluice))(), 'option.invalid', 'Expected an object'],
  ['a limit for limits', () => engine({ limits: crm }), 'option.invalid', 'Expected a list'],
  ['a limit for a queue', () => engine({ queues: { a: { limits: crm } } }), 'option.invalid', 'Expected a list'],
  ['a key', () => crm.by('a', a({ wieght: 2 })), 'option.invalid', 'did you mean weight?'],
  ['a key value', () => crm.key('x', a({ wieght: 2 })), 'option.invalid', 'did you mean weight?'],
  ['a key value with a function', () => crm.key('x', a({ weight: () => 2 })), 'limit.weight.invalid', 'a function'],
  [
    'headroom',
    () => limit('x', a({ rate: 5, per: 1, headroom: { unit: 1, priority: 0 } })),
    'policy.invalid',
    'units?',
  ],
  ['calibrate', () => limit('x', a({ rate: 5, per: 1, calibrate: { form: 'headers' } })), 'policy.invalid', 'from?'],
  ['a task', () => task('x', a({ run, retries: 3 })), 'option.invalid', 'did you mean retry?'],
  ['a task with attempts', () => task('x', a({ run, attempts: 3 })), 'option.invalid', 'did you mean retry?'],
  ['retry', () => task('x', a({ run, retry: { atempts: 3 } })), 'retry.invalid', 'did you mean attempts?'],
  [
    'an inline limit',
    () => task('x', a({ run, limits: [{ rate: 1, per: 1, wieght: 2 }] })),
    'policy.invalid',
    'wieght',
  ],
  ['a limit for a task', () => task('x', a({ run, limits: crm })), 'option.invalid', 'Expected a list'],
  [
    'a JSON Schema',
    () => task('x', untyped(a({ type: 'object' })), untyped<TaskOptions<unknown, void>>({ run })),
    'option.invalid',
    'looks like a JSON Schema',
  ],
  ['a call', (s) => s.enqueue(work, { a: '' }, a({ prioritiy: 1 })), 'option.invalid', 'did you mean priority?'],
  ['a call with null', (s) => s.enqueue(work, { a: '' }, a(null)), 'option.invalid', 'Expected an object'],
  ['unique', (s) => s.enqueue(work, { a: '' }, a({ unique: { kye: 'x' } })), 'unique.invalid', 'did you mean key?'],
  ['a limit for a call', (s) => s.enqueue(work, { a: '' }, a({ limits: crm })), 'option.invalid', 'Expected a list'],
  ['no list of inputs', () => work.enqueueMany(a({})), 'option.invalid', 'Expected a list of inputs'],
  ['a schedule', (s) => s.schedule(work, { a: '' }, a({ evry: '1m' })), 'schedule.invalid', 'did you mean every?'],
  ['no schedule at all', (s) => s.schedule(work, { a: '' }, a(null)), 'schedule.invalid', 'invalid: null'],
  ['no flow at all', (s) => s.flows.start(a(null)), 'flow.invalid', 'invalid: null'],
  ['a flow', (s) => s.flows.start(a({ kind: 'chain', step: [] })), 'flow.invalid', 'did you mean steps?'],
  [
    'callbacks',
    (s) => s.flows.start(a({ kind: 'batch', jobs: [], callbacks: { onSucces: call(work, { a: '' }) } })),
    'flow.invalid',
    'did you mean onSuccess?',
  ],
  ['an override', (s) => s.limits.override('crm', 'x', { rate: 1 }, a({ untill: '1m' })), 'option.invalid', 'until?'],
  ['a pause', (s) => s.limits.pause('crm', 'x', a({ untill: '1m' })), 'option.invalid', 'until?'],
  ['a resumption', (s) => s.limits.resume('crm', 'x', a({ until: '1m' })), 'option.invalid', 'by, reason'],
  ['the rows of who waits', (s) => s.limits.waiting(a({ row: 1 })), 'option.invalid', 'did you mean rows?'],
  ['a forecast', (s) => s.forecast('crm', a({ backlg: 1 })), 'option.invalid', 'did you mean backlog?'],
  ['a pure forecast', () => forecast({ every: 1 }, a({ backlog: { cuont: 1 } })), 'option.invalid', 'count?'],
  ['a stop', (s) => s.stop(a({ withn: '1s' })), 'option.invalid', 'did you mean within?'],
  [
    'the wait for a result',
    async (s) => (await s.enqueue(work, { a: '' })).result(a({ timout: 1 })),
    'option.invalid',
    'did you mean timeout?',
  ],
  ['an event', (s) => s.on(a('completed'), run), 'option.invalid', 'did you mean job.completed?'],
  ['a listener', (s) => s.on('job.completed', a('log')), 'option.invalid', 'Expected a function'],
  ['a push-back', () => new RateLimited(a({ retryAftr: '1s' })), 'option.invalid', 'did you mean retryAfter?'],
  ['no push-back at all', () => new (untyped<new () => RateLimited>(RateLimited))(), 'option.invalid', 'retryAfter'],
  [
    'a push-back read',
    () => RateLimited.from({ headers: {} }, a({ limt: 'x' })),
    'option.invalid',
    'did you mean limit?',
  ],
  ['a clock', () => createManualClock(a({ begin: 0 })), 'option.invalid', 'start'],
  ['a drain', (s) => drain(s, createManualClock(), a({ witin: 1 })), 'option.invalid', 'did you mean within?'],
  ['a PostgreSQL store', () => createPostgresStore(a({ pol: {} })), 'option.invalid', 'did you mean pool?'],
]

describe('a misspelt option is refused, with what was meant, of', () => {
  test.each(CASES)('%s', async (_, refuse, code, part) => {
    const { create } = createEngineHarness()
    const sluice = create({ tasks: [work], limits: [crm] })
    const error: unknown = await (async () => refuse(sluice))().then(
      () => 'nothing was refused',
      (reason: unknown) => reason,
    )
    expect(error).toMatchObject({ code })
    expect((error as Error).message).toContain(part)
    expect(await sluice.jobs.list({ task: 'other' })).toEqual([])
  })
})

describe('a store', () => {
  test.each([
    ['memory', ':memory:'],
    ['memory:', ':memory:'],
    [':memory', ':memory:'],
    [':Memory:', ':memory:'],
    ['//:memory:', ':memory:'],
    ['//memory', ':memory:'],
    [':memory:?cache=shared', ':memory:'],
    ['file::memory:', ':memory:'],
    ['file:x.db?mode=ro', 'x.db'],
    ['file:///x/y.db', '/x/y.db'],
    ['//./x.db', './x.db'],
    ['//x/y.db', 'x/y.db'],
    ['//', './jobs.db'],
    [' ', './jobs.db'],
    ['x.db ', 'x.db'],
    ['x.db?mode=ro', 'x.db'],
    ['./x.db?schema=a&connections=2', './x.db'],
    ['x.db?', 'x.db'],
  ])('sqlite:%s is refused, and no file is made', (path, meant) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-url-'))
    const before = process.cwd()
    process.chdir(folder)
    onTestFinished(() => {
      process.chdir(before)
      rmSync(folder, { recursive: true })
    })
    expect(() => new Sluice({ store: `sqlite:${path}`, tasks: [] })).toThrow(
      expect.objectContaining({ code: 'store.url.invalid' }),
    )
    expect(() => new Sluice({ store: `sqlite:${path}`, tasks: [] })).toThrow(`Did you mean sqlite:${meant}?`)
    expect(readdirSync(folder)).toEqual([])
  })

  test('may be a file with a question mark in its name', () => {
    expect(() => new Sluice({ store: 'sqlite:./what?.db', tasks: [] })).not.toThrow()
  })

  const withQuery = (query: string) => (): Sluice =>
    new Sluice({ store: `postgres://app@db.internal/app?${query}`, tasks: [] })

  test.each([
    ['schma=x', 'schema'],
    ['Schema=x', 'schema'],
    ['schema=x&shcema=y', 'schema'],
    ['connection=2', 'connections'],
    ['notfy=false', 'notify'],
    ['sslmode=require&connect_timout=1', 'connect_timeout'],
    ['sslmod=require', 'sslmode'],
    ['connectTimeout=1', 'connect_timeout'],
  ])('with the misspelt parameter in ?%s is refused', (query, meant) => {
    const make = withQuery(query)
    expect(make).toThrow(expect.objectContaining({ code: 'store.url.invalid' }))
    expect(make).toThrow(`did you mean ${meant}?`)
  })

  test.each(
    [
      'schema application_name binary channel_binding client_encoding connection_limit',
      'fallback_application_name gssencmode host hostaddr keepalives options',
      'idle_in_transaction_session_timeout keepalives_idle krbsrvname load_balance_hosts lock_timeout passfile',
      'password pgbouncer pool_timeout port query_timeout replication require_auth requirepeer service',
      'socket_timeout ssl sslcert sslcompression sslcrl sslkey sslmode sslnegotiation sslrootcert sslsni',
      'statement_timeout target_session_attrs tcp_user_timeout user uselibpqcompat x',
    ].flatMap((line) => line.split(' ')),
  )('may have the parameter %s', (name) => {
    const store = `postgres://app@db.internal/app?${name}=x`
    expect(() => new Sluice({ store, tasks: [] })).not.toThrow()
  })

  test.each([
    ['schema=', 'schema of the store\'s URL is invalid: ""'],
    ['schema=a&schema=b', 'has the parameter schema twice'],
    ['connections=', 'connections of the store\'s URL is invalid: ""'],
    ['connections=0x10', 'connections of the store\'s URL is invalid: "0x10"'],
    ['connections=1e1', 'connections of the store\'s URL is invalid: "1e1"'],
    ['connections=8&connections=9', 'has the parameter connections twice'],
    ['notify=no', 'notify of the store\'s URL is invalid: "no"'],
    ['connect_timeout=', 'connect_timeout of the store\'s URL is invalid: ""'],
    ['connect_timeout=-1', 'connect_timeout of the store\'s URL is invalid: "-1"'],
    ['connect_timeout=1e999', 'connect_timeout of the store\'s URL is invalid: "1e999"'],
    ['connect_timeout=1&connect_timeout=2', 'has the parameter connect_timeout twice'],
  ])('with ?%s is refused', (query, words) => {
    const make = withQuery(query)
    expect(make).toThrow(expect.objectContaining({ code: 'store.url.invalid' }))
    expect(make).toThrow(words)
  })

  test.each([undefined, null, 5, '', 'mysql://x'])('is not %s', (store) => {
    expect(() => new Sluice({ store: store as never, tasks: [] })).toThrow(
      expect.objectContaining({ code: 'store.url.invalid' }),
    )
  })
})

describe('an engine', () => {
  test('warns of a heartbeat by which its own lease ends, and of no other', () => {
    const warnings: unknown[] = []
    const logger = { ...silentLogger, warn: (...line: unknown[]) => void warnings.push(line) }
    for (const heartbeat of ['100ms', '1s', '1h']) engine({ lease: '1s', heartbeat, logger })
    engine({ lease: '1s', logger })
    const words: unknown = expect.stringContaining('heartbeat is not below lease')
    expect(warnings).toEqual([1000, 3_600_000].map((heartbeatMs) => [{ heartbeatMs, leaseMs: 1000 }, words]))
  })

  test('that runs is not started again, nor one that was stopped', async () => {
    const { create, stop } = createEngineHarness()
    const sluice = create({ tasks: [work] })
    await Promise.all([sluice.start(), sluice.start()])
    await expect(sluice.start()).rejects.toMatchObject({ code: 'engine.started' })
    await stop(sluice)
    await expect(sluice.start()).rejects.toMatchObject({ code: 'engine.stopped' })
  })

  test('says under faked timers that nothing would go on; Date alone may be faked', async () => {
    const faked = new Sluice({ store, tasks: [work] })
    const fine = new Sluice({ store, tasks: [task('other', { run })] })
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    await expect(faked.start()).rejects.toMatchObject({ code: 'option.invalid' })
    await expect(work.enqueue({ a: '' })).rejects.toThrow('createManualClock')
    vi.useRealTimers()
    vi.useFakeTimers({ toFake: ['Date'] })
    await fine.start()
    vi.useRealTimers()
    await Promise.all([fine.stop(), faked.stop()])
  })

  test('that was left open is named where a task is of several', async () => {
    const { create } = createEngineHarness()
    const both = task('both', { run })
    const first = create({ tasks: [both] })
    await first.start()
    create({ tasks: [both] })
    const error: unknown = await both.enqueue().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'task.ambiguous' })
    expect((error as Error).message).toMatch(/sqlite::memory: \(running\), made at .*harness\.ts.*\(not started\)/)
  })
})
