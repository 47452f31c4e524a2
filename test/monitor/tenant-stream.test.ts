// The streams of a tenant beside tenants that do nothing, and beside busy ones: the same bytes.
import { describe, expect, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input } from '../../src/exports/index.ts'
import { HttpHarness } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { Stream } from './stream-reader.ts'

const KINDS = await everyStore('the streams of a tenant')
const SECRET = '0123456789abcdef'
const TOKENS = (['acme', 'beta', '*'] as const).map((tenant) => ({
  token: `${tenant === '*' ? 'root' : tenant}-${SECRET}`,
  name: tenant === '*' ? 'root' : tenant,
  scopes: ['admin' as const],
  tenant,
}))
type Who = 'acme' | 'beta' | 'root'
const as = (who: Who): { headers: Record<string, string> } => ({
  headers: { Authorization: `Bearer ${who}-${SECRET}` },
})
const chained = workflow('chained', input<null>(), {
  signals: { go: input<null>() },
  run: (_, flow) => flow.signal('go'),
})
const LIMITS = {
  limits: { llm: { rate: 100, per: '1s', by: 'tenant', shared: true } },
  types: { ask: { limits: [{ limit: 'llm' }] } },
} as const
const UUID = /[0-9a-f]{8}-[0-9a-f-]{27}/g

/** A tenant enqueues and runs jobs, and starts a flow. */
async function act(d: HttpHarness, who: Who): Promise<void> {
  const by = as(who)
  const rate_limit = { key: 'crm', concurrency: 1 }
  for (let n = 0; n < 2; n++) await d.push({ queue: 'mail', rate_limit }, {}, by)
  const [id] = await d.fetch({ queues: ['mail'], worker_id: 'hand' }, by)
  await d.post('/ojs/v1/workers/ack', { job_id: id }, by)
  const { body } = await d.post('/flows/v1/chained', { input: null }, by)
  await d.post(`/flows/v1/flows/${body['id'] as string}/signals/go`, { payload: null }, by)
}

const cancelAll = { action: 'cancel', filter: { queue: 'mail' } }

/** An operator of all tenants changes things of beta. */
async function operate(d: HttpHarness): Promise<void> {
  const root = as('root')
  const id = await d.push({ queue: 'mail' }, {}, as('beta'))
  await d.send('PATCH', `/monitor/v1/jobs/${id}`, { priority: 3 }, root)
  await d.post('/monitor/v1/bulk', { action: 'priority', priority: 5, filter: { queue: 'beta/mail' } }, root)
  await d.send('PUT', `/monitor/v1/limits/${encodeURIComponent('beta/crm')}/pause`, {}, root)
  await d.send('PUT', '/monitor/v1/limits/llm/keys/~beta/pause', { reason: 'S3CRET' }, root)
  await d.send('PUT', `/monitor/v1/queues/${encodeURIComponent('beta/mail')}/pause`, {}, root)
  await d.push({ queue: 'mail' }, {}, root)
}

const MONITOR = '/monitor/v1/stream'

async function open(store: string): Promise<HttpHarness> {
  const d = await HttpHarness.open({
    http: { tokens: TOKENS, limits: LIMITS },
    engine: { store, workflows: [chained] },
  })
  await d.push({ queue: 'mail' }, { type: 'ask' }, as('beta'))
  // A store on PostgreSQL listens to others from some moment on, and tells then that anything may have changed.
  await d.clock.advance(0)
  return d
}

function read(d: HttpHarness, who: Who, path: string, headers: Record<string, string> = {}): Promise<Stream> {
  return Stream.open((request) => d.app.fetch(request), path, { ...as(who).headers, ...headers })
}

async function streamsOf(store: string, isBusy: boolean): Promise<string[]> {
  const d = await open(store)
  await act(d, 'beta')
  const paths = [MONITOR, '/ojs/v1/events/stream']
  const first = await Promise.all(paths.map((path) => read(d, 'acme', path)))
  const others = async (): Promise<void> => {
    if (!isBusy) return
    await act(d, 'beta')
    await d.post('/monitor/v1/bulk', cancelAll, as('beta'))
    await operate(d)
  }
  await others()
  await d.clock.advance('100ms')
  await act(d, 'acme')
  await d.clock.advance('600ms')
  await d.post('/monitor/v1/bulk', cancelAll, as('acme'))
  await others()
  await d.clock.advance('15s')
  const places = first.map(({ lastId }) => lastId)
  await act(d, 'acme')
  await others()
  await d.clock.advance('1s')
  const again = await Promise.all(paths.map((path, n) => read(d, 'acme', path, { 'Last-Event-ID': places[n] ?? '' })))
  const { body } = await d.get('/ojs/v1/events?limit=1000', as('acme'))
  const streams = [...first, ...again]
  expect(again.map(({ text }) => text.includes('reset'))).toEqual([false, false])
  return [...streams.map(({ text }) => text), JSON.stringify(body)].map((text) => text.replaceAll(UUID, 'ID'))
}

describe.each(KINDS)('on $name', (kind) => {
  test('a tenant’s streams are the same bytes, whatever other tenants do', async () => {
    const quiet = await streamsOf(kind.create(), false)
    for (const topic of ['jobs', 'queues', 'flows']) expect(quiet[0]).toContain(`"${topic}":["`)
    expect(await streamsOf(kind.create(), true)).toEqual(quiet)
  })

  test('a tenant learns what an operator of all tenants does to its things', async () => {
    const d = await open(kind.create())
    await act(d, 'beta')
    const flow = await d.post('/flows/v1/chained', { input: null }, as('beta'))
    const [beta, acme] = await Promise.all((['beta', 'acme'] as const).map((who) => read(d, who, MONITOR)))
    const id = await d.push({ queue: 'mail' }, {}, as('beta'))
    await d.clock.advance('1s')
    const named = encodeURIComponent
    for (const [method, path, body] of [
      ['PATCH', `/jobs/${id}`, { priority: 3 }],
      ['POST', '/bulk', { action: 'priority', priority: 5, filter: { queue: 'beta/mail' } }],
      ['PUT', `/limits/${named('beta/crm')}/pause`, {}],
      ['PUT', '/limits/llm/keys/~beta/pause', {}],
      ['PUT', `/queues/${named('beta/mail')}/pause`, {}],
      ['POST', `/flows/${flow.body['id'] as string}/cancel`, {}],
    ] as const) {
      const told = beta?.of('change').length
      const { status, body: answer } = await d.send(method, `/monitor/v1${path}`, body, as('root'))
      expect([path, status < 300, status < 300 ? null : answer]).toEqual([path, true, null])
      await d.clock.advance('1s')
      expect([path, beta?.of('change').length]).toEqual([path, (told ?? 0) + 1])
    }
    expect(acme?.of('change')).toEqual([])
    // All tenants see a limit that they share.
    await d.send('PUT', '/monitor/v1/limits/llm/pause', {}, as('root'))
    await d.clock.advance('1s')
    expect(acme?.of('change')).toHaveLength(1)
  })
})
