// Every operation of a server that names a thing, asked by another tenant: as for a thing that does not exist.
import { describe, expect, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, task } from '../../src/exports/index.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const KINDS = await everyStore('what another tenant is answered')
const SECRET = '0123456789abcdef'
const MOST_REQUESTS = 600
const other = (n: number): string => `other${String(n).padStart(3, '0')}`
/** Each request comes from another tenant: no answer shows what an earlier one has made. */
const TENANTS = ['acme', ...Array.from({ length: MOST_REQUESTS }, (_, n) => other(n))]
const TOKENS = TENANTS.map((tenant) => ({
  token: `${tenant}-${SECRET}`,
  name: tenant,
  scopes: ['admin' as const],
  tenant,
}))
const as = (who: string): { headers: Record<string, string> } => ({
  headers: { Authorization: `Bearer ${who}-${SECRET}`, 'X-Request-Id': 'the-request' },
})
const chained = workflow('chained', input<null>(), {
  signals: { go: input<null>() },
  run: (_, flow) => flow.signal('go'),
})

/** The things of acme, by kind. */
type Things = Readonly<
  Record<'job' | 'flow' | 'workflow' | 'bulk' | 'permit' | 'reservation' | 'key' | 'named', string[]>
>

async function open(store: string): Promise<{ d: HttpHarness; things: Things }> {
  const d = await HttpHarness.open({
    http: { tokens: TOKENS },
    engine: { store, workflows: [chained], tasks: [task('known', { run: () => undefined })] },
  })
  const acme = as('acme')
  const rate_limit = { key: 'crm', concurrency: 1 }
  const job = (options: Json, more: Json = {}): Promise<string> => d.push({ queue: 'mail', ...options }, more, acme)
  const active = await job({ rate_limit })
  await d.fetch({ queues: ['mail'], worker_id: 'hand', visibility_timeout_ms: 3_600_000 }, acme)
  const dead = await job({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
  await d.fetch({ queues: ['mail'], worker_id: 'hand' }, acme)
  const failed = await d.post('/ojs/v1/workers/nack', { job_id: dead, error: { code: 'x', message: 'no' } }, acme)
  expect(failed.body).toMatchObject({ state: 'discarded' })
  const waiting = await job({ rate_limit, unique: { keys: ['type'], period: 'PT1H' } }, { type: 'once' })
  const scheduled = await job({ delay_until: '2026-02-01T00:00:00Z' })
  const done = await d.push({ queue: 'other' }, {}, acme)
  await d.fetch({ queues: ['other'], worker_id: 'hand' }, acme)
  expect((await d.post('/ojs/v1/workers/ack', { job_id: done }, acme)).status).toBe(200)
  await d.post('/ojs/v1/cron', { name: 'mail', cron: '@daily', type: 'a', options: { queue: 'mail' } }, acme)
  await d.send('PUT', '/ojs/v1/rate-limits/mail', { concurrency: 1 }, acme)
  await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'mail' }, acme)
  const pool = { strategy: 'fair', queues: ['mail'] }
  expect((await d.send('PUT', '/ojs/v1/admin/pools/mail', pool, acme)).status).toBe(200)
  const flow = await d.post('/flows/v1/chained', { input: null, key: 'mine' }, acme)
  const step = { type: 'a', args: [], options: { queue: 'mail' } }
  const steps = await d.post('/ojs/v1/workflows', { type: 'chain', steps: [step, step] }, acme)
  const bulk = await d.post('/monitor/v1/bulk', { action: 'cancel', filter: { queue: 'none' } }, acme)
  await d.post('/monitor/v1/jobs', { task: 'known', limits: [], unique: 'mine' }, acme)
  const uses = [{ limit: 'mail' }]
  const taken = await d.post('/limiter/v1/acquire', { requests: [{ uses }], lease_ms: 3_600_000 }, acme)
  await d.send('PUT', '/ojs/v1/rate-limits/spaced', { rate: { limit: 1, period: 'PT1M' } }, acme)
  const reserved = { uses: [{ limit: 'spaced' }], at_most_ms: 3_600_000 }
  await d.post('/limiter/v1/reserve', reserved, acme)
  const booked = await d.post('/limiter/v1/reserve', reserved, acme)
  const id = (body: Json): string => body['id'] as string
  const things = {
    job: [active, dead, waiting, scheduled, done],
    flow: [id(flow.body), id(steps.body)],
    workflow: [id(steps.body)],
    bulk: [id(bulk.body)],
    permit: [taken.body['answers'][0].permit.id as string],
    reservation: [id(booked.body)],
    key: ['mine'],
    named: ['mail'],
  }
  expect(
    Object.values(things)
      .flat()
      .every((each) => typeof each === 'string'),
  ).toBe(true)
  return { d, things }
}

const COPY = { type: 'a', args: [], options: { queue: 'own' } }
/** Ids that an answer has just made. */
const NEW_ID = /"(id|job_id)":"[0-9a-f-]{36}"/g
/** The kinds of things in paths; all others are names. */
const IN_PATH: readonly (readonly [RegExp, keyof Things])[] = [
  [/\/jobs\/:id|\/dead-letter\/:id/, 'job'],
  [/\/flows\/:id/, 'flow'],
  [/\/workflows\/:id/, 'workflow'],
  [/\/bulk\/:id/, 'bulk'],
]
/** Bodies with which an operation is done that needs some. */
const BODIES: Readonly<Record<string, Json>> = {
  putProgress: { progress: 0.5 },
  putRateLimit: { concurrency: 2 },
  configureQueue: { backpressure: { max_depth: 5 } },
  limitQueue: { concurrency: 1 },
  putPool: { strategy: 'fair', queues: ['own'] },
  purgeQueue: { confirm: true },
  startFlow: { input: null },
  monitorOverrideLimit: { change: { concurrency: 3 } },
  monitorOverrideKey: { change: { concurrency: 3 } },
  monitorPenalizeLimit: { until: '5m' },
  monitorPenalizeKey: { until: '5m' },
  monitorWhatIf: { policy: { rate: 9, per: '1h' } },
  monitorChangeJob: { priority: 5 },
  monitorBoundQueue: { maxDepth: 5 },
  monitorDrainQueue: { timeout: '0s' },
  monitorSignalFlow: { name: 'go', payload: null },
}
/** Operations that name a thing in their body or their query: what, and the request. */
const ELSEWHERE: readonly (readonly [string, keyof Things, string, (id: string) => Json | null])[] = [
  ['ackJob', 'job', 'POST /ojs/v1/workers/ack', (id) => ({ job_id: id })],
  ['ackJob', 'job', 'POST /ojs/v1/workers/ack', (id) => ({ job_id: id, worker_id: 'hand', attempt: 1 })],
  ['nackJob', 'job', 'POST /ojs/v1/workers/nack', (id) => ({ job_id: id, error: { code: 'x', message: 'm' } })],
  ['nackJob', 'job', 'POST /ojs/v1/workers/nack', (id) => ({ job_id: id, requeue: true, worker_id: 'hand' })],
  ['nackJob', 'job', 'POST /ojs/v1/workers/nack', (id) => ({ job_id: id, snooze_ms: 1 })],
  ['heartbeat', 'job', 'POST /ojs/v1/workers/heartbeat', (id) => ({ worker_id: 'hand', active_jobs: [id] })],
  ['reportProgress', 'job', 'POST /ojs/v1/workers/progress', (id) => ({ job_id: id, percentage: 5 })],
  ['confirmReservation', 'reservation', 'POST /limiter/v1/confirm', (id) => ({ id })],
  ['releasePermits', 'reservation', 'POST /limiter/v1/release', (id) => ({ reservations: [id] })],
  [
    'releasePermits',
    'permit',
    'POST /limiter/v1/release',
    (id) => ({ permits: [{ id, limits: [{ limit: 'mail' }] }] }),
  ],
  ['extendPermits', 'permit', 'POST /limiter/v1/extend', (id) => ({ permits: [{ id, limits: [{ limit: 'mail' }] }] })],
  ['acquireUnits', 'named', 'POST /limiter/v1/acquire', (limit) => ({ requests: [{ uses: [{ limit }] }] })],
  ['reserveUnits', 'named', 'POST /limiter/v1/reserve', (limit) => ({ uses: [{ limit }], at_most_ms: 5 })],
  ['chargeUnits', 'named', 'POST /limiter/v1/charge', (limit) => ({ limit, units: 1 })],
  ['penalizeBucket', 'named', 'POST /limiter/v1/penalize', (limit) => ({ limit, for_ms: 5 })],
  ['monitorJobs', 'job', 'GET /monitor/v1/jobs?id=%', () => null],
  ['monitorJobs', 'flow', 'GET /monitor/v1/jobs?flow=%', () => null],
  ['monitorJobs', 'named', 'GET /monitor/v1/jobs?queue=%', () => null],
  ['monitorJobs', 'named', 'GET /monitor/v1/jobs?schedule=%', () => null],
  ['monitorJobs', 'named', 'GET /monitor/v1/jobs?limit=%', () => null],
  ['monitorJobs', 'job', 'GET /monitor/v1/jobs?q=%', () => null],
  ['monitorCountJobs', 'job', 'GET /monitor/v1/jobs/count?id=%', () => null],
  ['monitorCountJobs', 'flow', 'GET /monitor/v1/jobs/count?flow=%', () => null],
  ['monitorSeries', 'named', 'GET /monitor/v1/series?metric=started&queue=%', () => null],
  ['monitorSeries', 'named', 'GET /monitor/v1/series?metric=started&limit=%', () => null],
  ['monitorFlows', 'key', 'GET /monitor/v1/flows?key=%', () => null],
  ['monitorStartBulk', 'job', 'POST /monitor/v1/bulk', (id) => ({ action: 'cancel', filter: { id }, dryRun: true })],
  [
    'monitorStartBulk',
    'flow',
    'POST /monitor/v1/bulk',
    (flow) => ({ action: 'cancel', filter: { flow }, dryRun: true }),
  ],
  [
    'monitorStartBulk',
    'named',
    'POST /monitor/v1/bulk',
    (to) => ({ action: 'move', filter: {}, all: true, to, dryRun: true }),
  ],
  ['monitorEnqueueJob', 'named', 'POST /monitor/v1/jobs', (queue) => ({ task: 'known', limits: [], queue })],
  ['enqueueJob', 'named', 'POST /ojs/v1/jobs', (key) => ({ ...COPY, options: { queue: 'own', rate_limit: { key } } })],
  ['startFlow', 'key', 'POST /flows/v1/chained', (key) => ({ input: null, key })],
  ['monitorStartFlow', 'key', 'POST /monitor/v1/flows', (key) => ({ workflow: 'chained', input: null, key })],
  ['monitorEnqueueJob', 'key', 'POST /monitor/v1/jobs', (unique) => ({ task: 'known', limits: [], unique })],
  ['monitorJobs', 'key', 'GET /monitor/v1/jobs?uniqueKey=%', () => null],
  ['fetchJobs', 'named', 'POST /ojs/v1/workers/fetch', (queue) => ({ queues: [queue], worker_id: 'own' })],
  ['listJobs', 'named', 'GET /ojs/v1/admin/jobs?queue=%', () => null],
  ['listDeadLetter', 'named', 'GET /ojs/v1/dead-letter?queue=%', () => null],
  ['listEvents', 'named', 'GET /ojs/v1/events?queues=%', () => null],
  ['bulk_cancel', 'named', 'POST /ojs/v1/admin/jobs/bulk/cancel', (queue) => ({ filter: { queue }, confirm: true })],
  ['bulk_delete', 'named', 'POST /ojs/v1/admin/jobs/bulk/delete', (queue) => ({ filter: { queue }, confirm: true })],
  ['bulk_retry', 'named', 'POST /ojs/v1/admin/jobs/bulk/retry', (queue) => ({ filter: { queue }, confirm: true })],
]

/** Requests that name one thing each. */
const CASES: readonly (readonly [string, keyof Things, string, (id: string) => Json | null])[] = [
  ...ROUTES.filter(({ path, testOnly }) => path.includes(':') && !testOnly).map((route) => {
    const name = route.name.replace(/_at_.*$/, '')
    const kind = IN_PATH.find(([pattern]) => pattern.test(route.path))?.[1] ?? 'named'
    const path = route.path
      .replace(/signals\/:name/, 'signals/go')
      .replace('/keys/:key', '/keys/~')
      .replace(/:\w+/, '%')
    const body = route.method === 'GET' ? null : (BODIES[name] ?? {})
    return [name, kind, `${route.method} ${path}`, () => body] as const
  }),
  ...ELSEWHERE,
]

describe.each(KINDS)('on $name', (kind) => {
  test('another tenant gets the same answer for a thing as for none', async () => {
    const { d, things } = await open(kind.create())
    const before = await all(d)
    let sent = 0
    const told = async (request: string, body: Json | null, named: string): Promise<unknown[]> => {
      const who = other(sent++)
      const [method = '', path = ''] = request.split(' ')
      const response = await d.app.fetch(
        new Request(`http://server${path.replace('%', encodeURIComponent(named))}`, {
          method,
          headers: { 'Content-Type': 'application/json', ...as(who).headers },
          ...(body && { body: JSON.stringify(body) }),
        }),
      )
      const shown = (text: string): string =>
        text.replaceAll(named, 'IT').replaceAll(who, 'WHO').replaceAll(NEW_ID, '"$1":"NEW"')
      const headers = JSON.stringify([...response.headers])
      return [request, response.status, shown(headers), shown(await response.text())]
    }
    const answers: [string, unknown[], unknown[]][] = []
    for (const [name, what, request, body] of CASES)
      for (const id of things[what])
        for (const folder of what === 'named' ? ['', 'acme/'] : ['']) {
          const none = what === 'named' || what === 'key' ? 'none' : `${id.slice(0, -4)}0000`
          const [theirs, noOnes] = [`${folder}${id}`, `${folder}${none}`]
          const missing = await told(request, body(noOnes), noOnes)
          answers.push([`${name} ${what} ${theirs}`, await told(request, body(theirs), theirs), missing])
        }
    const differ = answers.filter(([, one, other]) => JSON.stringify(one) !== JSON.stringify(other))
    expect(differ).toEqual([])
    const failed = answers.filter(([, [, status]]) => (status as number) >= 500)
    expect(failed).toEqual([])
    expect(await all(d)).toEqual(before)
  })
})

/** All that acme has, as it is shown to acme. */
async function all(d: HttpHarness): Promise<unknown[]> {
  const lists = ['limits', 'jobs', 'queues', 'schedules', 'flows', 'workers', 'bulk'].map(
    (each) => `monitor/v1/${each}`,
  )
  const more = ['ojs/v1/admin/pools', 'ojs/v1/dead-letter', 'limiter/v1/limits/mail', 'ojs/v1/admin/jobs']
  return Promise.all([...lists, ...more].map(async (path) => (await d.get(`/${path}`, as('acme'))).body))
}
