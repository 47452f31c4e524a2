// Thousands of requests, each a good one that was spoilt somewhere, from a seed: none is an error of the server's own, and what is
// refused changes nothing.
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, seededRandom, task } from '../../src/exports/index.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import { everyStore, type StoreKind } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'
import { sized } from '../sized.ts'

/** By store: what is tried is the same on both, and a request over a network costs five times as much. */
const REQUESTS = {
  sqlite: sized(4000, 40_000),
  postgres: sized(1000, 10_000),
}
const SEED = 20_261_121

type Random = ReturnType<typeof seededRandom>

const ODD: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1e308,
  9_007_199_254_740_992,
  0.1,
  '',
  ' ',
  '\0',
  '\uD800',
  '__proto__',
  'constructor',
  '+PT1S',
  '+P99999D',
  'P1M',
  'PT0S',
  '9999-12-31T23:59:59Z',
  '0000-01-01T00:00:00Z',
  '-271821-04-20T00:00:00Z',
  '2016-12-31T23:59:60Z',
  '2026-01-01T00:00:00',
  '+275760-09-13T00:00:00.001Z',
  -0,
  9_007_199_254_740_993n.toString(),
  '\u202eabc\u0007\u001b[2J',
  '*'.repeat(300),
  '5/s burst 0',
  '1e3/s',
  '999999999999h',
  'x'.repeat(5000),
  '../../etc/passwd',
  "'; DROP TABLE jobs; --",
  [],
  {},
  [[[[]]]],
  { a: { b: { c: null } } },
  ['a', 1, null],
  JSON.parse('{"__proto__":{"x":1},"toString":1}'),
]

const ODD_NAMES = ODD.filter((odd) => typeof odd === 'string')

const GOOD: Readonly<Record<string, unknown>> = {
  enqueueJob: {
    type: 'mail.send',
    args: [{ to: 'a' }, 2],
    id: '019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f',
    meta: { trace_id: 't' },
    x_more: 1,
    options: {
      queue: 'q',
      priority: 5,
      timeout_ms: 5000,
      visibility_timeout_ms: 5000,
      scheduled_at: '+PT1S',
      expires_at: '2099-01-01T00:00:00Z',
      tags: ['a'],
      retry: { max_attempts: 2, initial_interval: 'PT1S', backoff_coefficient: 2, non_retryable_errors: ['a.*'] },
      unique: { keys: ['type', 'args'], period: 'PT1M', states: ['available'], on_conflict: 'replace' },
      rate_limit: { key: 'k', concurrency: 2, rate: { limit: 5, period: 'PT1M' }, on_limit: 'wait' },
    },
  },
  enqueueBatch: {
    jobs: [
      { type: 'a', args: [] },
      { type: 'b', args: [1], options: { queue: 'q', pending: true } },
    ],
  },
  fetchJobs: { queues: ['q', 'default'], count: 3, worker_id: 'w', visibility_timeout_ms: 1000 },
  acquireUnits: {
    requests: [{ uses: [{ limit: 'crm', key: 'k', weight: 2 }, { limit: 'slots' }], priority: 3 }],
    lease_ms: 1000,
  },
  reserveUnits: { uses: [{ limit: 'crm', key: 'k' }], at_most_ms: 1000, priority: 0, lease_ms: 1000 },
  confirmReservation: { id: 'r' },
  releasePermits: { permits: [{ id: 'p', limits: [{ limit: 'slots', key: null }] }], reservations: ['r'] },
  extendPermits: { permits: [{ id: 'p', limits: [{ limit: 'slots', key: null }] }], lease_ms: 1000 },
  chargeUnits: { limit: 'crm', key: 'k', units: 2, granted_at_us: 1 },
  penalizeBucket: { limit: 'crm', key: 'k', for_ms: 10 },
  ackJob: { job_id: '', worker_id: 'w', attempt: 1, result: { ok: true } },
  nackJob: {
    job_id: '',
    worker_id: 'w',
    requeue: false,
    error: { code: 'x', message: 'm', retryable: true, details: { error_class: 'E' }, retry_after: 1 },
  },
  heartbeat: { worker_id: 'w', active_jobs: [''], active_job_ids: [''], visibility_timeout_ms: 1000, labels: ['a'] },
  putProgress: { progress: 0.5, message: 'm', data: { a: 1 } },
  reportProgress: { job_id: '', percentage: 50, message: 'm' },
  registerCron: {
    name: 'c',
    expression: '*/5 * * * *',
    timezone: 'Europe/Paris',
    overlap_policy: 'skip',
    job_template: { type: 'a', args: [], options: { queue: 'q' } },
  },
  putRateLimit: { concurrency: 1, rate: { limit: 3, period: 'PT1S' }, expires_at: '+PT5S' },
  limitQueue: { rate: { limit: 3, period: 'PT1S' } },
  configureQueue: { backpressure: { max_depth: 50, strategy: 'reject', warning_threshold: 0.5 } },
  putPool: { name: 'p', strategy: 'weighted', queues: { q: { weight: 1 } } },
  bulk_retry: { filter: { state: 'discarded', queue: 'q' }, confirm: true },
  bulk_cancel: { filter: { type: 'a' }, confirm: true },
  bulk_delete: { filter: { since: '2026-01-01T00:00:00Z' }, confirm: true },
  createWorkflow: {
    name: 'w',
    steps: [
      { id: 'a', type: 'a', args: [1], depends_on: [] },
      { id: 'b', type: 'b', args: [], depends_on: ['a'], options: { queue: 'q', priority: 1 } },
    ],
    callbacks: { on_success: { type: 'c', args: [] } },
  },
  startFlow: { workflow: 'flow', input: { a: 1 }, key: 'k', delay: 'PT1S' },
  signalFlow: { name: 'go', payload: { a: 1 }, once: 'x' },
  retryFlow: { from: 'first' },
  monitorStartBulk: {
    action: 'move',
    filter: { state: 'available', queue: 'q', 'meta.a': '1' },
    to: 'q2',
    reason: 'r',
  },
  monitorEnqueueJob: {
    task: 'work',
    input: { a: 1 },
    queue: 'q',
    priority: 1,
    attempts: 2,
    runAt: '1h',
    unique: 'u',
    limits: [{ limit: 'crm', key: 'k' }],
    weight: 1,
    reason: 'r',
  },
  monitorStartFlow: { workflow: 'flow', input: { a: 1 }, key: 'k', delay: '1s', reason: 'r' },
  monitorSignalFlow: { signal: 'go', payload: 1, once: 'x', reason: 'r' },
  monitorRetryFlow: { from: 'first', reason: 'r' },
  monitorCancelFlow: { reason: 'r' },
  monitorChangeJob: { priority: 3, reason: 'r' },
  monitorRunJob: { reason: 'r' },
  monitorBoundQueue: { maxDepth: 3, warnAt: 0.5, reason: 'r' },
  monitorWhatIf: { policy: '10/s', change: { rate: 3 } },
}
/** Requests about limits have names of their own for all keys and for one. */
const OF_LIMITS: readonly (readonly [RegExp, unknown])[] = [
  [/Override/, { change: { rate: 3, per: '1s' }, until: '1h', reason: 'r' }],
  [/Pause/, { until: '1h', reason: 'r' }],
  [/Penal/, { until: '1h', reason: 'r' }],
]
const goodOf = (name: string): unknown => GOOD[name] ?? OF_LIMITS.find(([of]) => of.test(name))?.[1]
const QUERIES = [
  '',
  '?limit=5',
  '?page=2&per_page=3',
  '?limit=-1',
  '?types=job.*&queues=q&after=3',
  '?channel=job:x',
  '?state=active&order=asc',
  '?confirm=true',
  '?%00=%ff&limit=1e9',
  '?since=+PT1S&until=never',
  '?size=3&state=available,active&tag=a&tag=b&meta.a=1',
  '?since=0000-01-01T00:00:00Z&until=9999-12-31T23:59:60Z&q=%E2%80%AE%00',
  '?error=%FF&flow=x&schedule=%F0&uniqueKey=%00&limit=crm&key=%00',
  '?step=10s&from=2026-01-01T00:00:00Z&to=-1&window=1h&at=5',
  '?order=waiting&search=%00&sort=x&cursor=e30&partition=%E2',
]

function pick<T>(random: Random, of: readonly T[]): T {
  return of[Math.floor(random.next() * of.length)] as T
}

/** Spoils one place of a value. */
function spoil(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random.next() < 0.15) return pick(random, ODD)
  if (Array.isArray(value)) {
    if (value.length === 0 || random.next() < 0.1) return [...value, pick(random, ODD)]
    const at = Math.floor(random.next() * value.length)
    return value.map((each: unknown, i) => (i === at ? spoil(random, each) : each))
  }
  const names = Object.keys(value)
  const name = pick(random, names)
  const dice = random.next()
  if (name === undefined || dice < 0.1) return { ...value, [pick(random, ODD_NAMES)]: pick(random, ODD) }
  if (dice < 0.2) return Object.fromEntries(Object.entries(value).filter(([each]) => each !== name))
  return { ...value, [name]: spoil(random, (value as Record<string, unknown>)[name]) }
}

/** Puts real ids where a good body has none. */
function withIds(value: unknown, id: string): unknown {
  return JSON.parse(
    JSON.stringify(value ?? {}).replaceAll(/(?<="job_id":|"active_jobs":\[|"active_job_ids":\[)""/g, `"${id}"`),
  )
}

function spoilText(random: Random, text: string): string {
  const dice = random.next()
  if (dice < 0.9) return text
  const at = Math.floor(random.next() * text.length)
  if (dice < 0.95) return text.slice(0, at)
  return text.slice(0, at) + String.fromCharCode(Math.floor(random.next() * 0xffff)) + text.slice(at + 1)
}

function headersOf(random: Random): Record<string, string> {
  const headers: Record<string, string> = { 'Content-Type': 'application/openjobspec+json', 'X-Sluice-Request': '1' }
  if (random.next() < 0.05) headers['Content-Type'] = pick(random, ['text/html', 'application/json', ''])
  if (random.next() < 0.05)
    headers['X-OJS-Tenant'] = pick(random, ['acme', 'a/b', 'ü', 'x'.repeat(300)]).replace('ü', '%')
  if (random.next() < 0.05) headers['OJS-Version'] = pick(random, ['1.0', '2', ''])
  if (random.next() < 0.05) headers['X-Request-Id'] = pick(random, ['a', 'b c', 'x'.repeat(1000)])
  return headers
}

const TABLES = ['jobs', 'lanes', 'buckets', 'limits', 'overrides', 'schedules', 'queues']

/** Reads all that is stored but for who is at work. */
async function reader(kind: StoreKind, store: string): Promise<() => Promise<string>> {
  if (kind.name === 'sqlite') {
    const db = new DatabaseSync(store.slice('sqlite:'.length))
    onTestFinished(() => db.close())
    return async () => JSON.stringify(TABLES.map((table) => db.prepare(`SELECT * FROM ${table}`).all()))
  }
  const url = new URL(store)
  const client = new Client({ connectionString: store, options: `-c search_path=${url.searchParams.get('schema')}` })
  await client.connect()
  onTestFinished(() => client.end())
  return async () => {
    const all = TABLES.map((table) => `(SELECT json_agg(t) FROM ${table} t)`)
    return JSON.stringify((await client.query(`SELECT ${all.join()}`)).rows)
  }
}

const kinds = await everyStore('spoilt requests')

const work = task('work', { run: async () => 1 })
const flow = workflow('flow', input<unknown>(), {
  signals: { go: input<unknown>() },
  async run(_, steps) {
    await steps.step('first', () => 1)
    await steps.signal('go')
  },
})

test.each(kinds)(
  'spoilt requests on $name: never an error of the server’s own, and a refusal changes nothing',
  async (kind) => {
    const random = seededRandom(SEED)
    const store = kind.create()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const limits = { limits: { crm: { rate: 5, per: '1s' }, slots: { concurrency: 2 } } } as const
    const d = await HttpHarness.open({
      clock,
      engine: { store, durability: 'process', tasks: [work], workflows: [flow] },
      http: { maxBodyBytes: 200_000, limits },
    })
    const stored = await reader(kind, store)
    const routes = ROUTES.filter(
      ({ name }) => !['streamEvents', 'monitorStream', 'monitorDrainQueue', 'reset'].includes(name),
    )
    let id = await d.push()
    const statuses = new Map<number, number>()
    const failures: string[] = []
    for (let i = 0; i < REQUESTS[kind.name]; i++) {
      if (i % 200 === 0) {
        await d.clock.advance('700ms')
        await d.post('/ojs/v1/admin/queues/q/config', {})
        id = (await d.fetch({ count: 1 }))[0] ?? (await d.push({}, {}, {}).catch(() => id))
      }
      const route = pick(random, routes)
      const path = route.path
        .replace(
          ':id',
          random.next() < 0.7 ? id : encodeURIComponent(pick(random, ODD_NAMES).slice(0, 50).replaceAll('\uD800', '?')),
        )
        .replace(/:[a-z]+/, random.next() < 0.7 ? pick(random, ['q', 'k', 'c', 'crm']) : encodeURIComponent('Ö\0/'))
      const query = random.next() < 0.3 ? pick(random, QUERIES) : ''
      const good = withIds(goodOf(route.name), id)
      const body = spoilText(random, JSON.stringify(random.next() < 0.15 ? good : spoil(random, good)) ?? '')
      const headers = headersOf(random)
      const looks = i % 10 === 0
      const before = looks ? await stored() : ''
      const response = await d.app.fetch(
        new Request(`http://server${path}${query}`, {
          method: route.method,
          headers,
          ...(route.method !== 'GET' && { body }),
        }),
      )
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      const text = await response.text()
      const shown = `${route.method} ${path}${query} ${body.slice(0, 300)} → ${response.status} ${text.slice(0, 200)}`
      if (response.status >= 500) failures.push(shown)
      if (looks && response.status >= 400 && (await stored()) !== before) failures.push(`changed by ${shown}`)
    }
    expect(failures).toEqual([])
    // The good and the bad are both among them, or this test would show nothing.
    const share = (of: (status: number) => boolean): number =>
      [...statuses].reduce((sum, [status, count]) => sum + (of(status) ? count : 0), 0) / REQUESTS[kind.name]
    expect(share((status) => status < 300)).toBeGreaterThan(0.2)
    expect(share((status) => status >= 400)).toBeGreaterThan(0.2)
  },
  240_000,
)

test.each(kinds)(
  'a NUL in any part of a path or a query on $name is no error of the store',
  async (kind) => {
    const d = await HttpHarness.open({ engine: { store: kind.create(), durability: 'process' }, http: {} })
    const id = await d.push()
    const failures: string[] = []
    let asked = 0
    const ask = async (method: string, path: string, body: unknown): Promise<void> => {
      asked++
      const headers = {
        'Content-Type': path.startsWith('/monitor') ? 'application/json' : 'application/openjobspec+json',
      }
      const given = method === 'GET' ? {} : { body: JSON.stringify(body), headers }
      const response = await d.app.fetch(new Request(`http://server${path}`, { method, ...given }))
      await response.body?.cancel()
      if (response.status >= 500) failures.push(`${method} ${path} → ${response.status}`)
    }
    for (const { method, name, path, query } of ROUTES.filter((route) => route.name !== 'reset')) {
      const body = withIds(goodOf(name), id) ?? {}
      if (path.includes(':')) await ask(method, path.replaceAll(/:[a-z]+/g, '%00'), body)
      const good = path.replace(':id', id).replaceAll(/:[a-z]+/g, 'q')
      const members = Object.keys((query as { readonly shape?: object } | undefined)?.shape ?? {})
      for (const member of members) await ask(method, `${good}?${member}=%00`, body)
    }
    expect(failures).toEqual([])
    expect(asked).toBeGreaterThan(100)
  },
  240_000,
)
