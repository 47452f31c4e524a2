import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/exports/index.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const TOKENS = [
  { token: 'client-0123456789', scopes: ['client'], tenant: '*' },
  { token: 'worker-0123456789', scopes: ['worker'], queues: ['mail.*', 'q'], tenant: '*' },
  { token: 'admin-0123456789a', scopes: ['admin'], tenant: '*' },
  { token: 'acme-client-01234', scopes: ['client'], tenant: 'acme' },
] as const
const bearer = (name: string): { headers: Record<string, string> } => ({ headers: { Authorization: `Bearer ${name}` } })
const CLIENT = bearer('client-0123456789')
const WORKER = bearer('worker-0123456789')
const ADMIN = bearer('admin-0123456789a')
const guarded = (): Promise<HttpHarness> => HttpHarness.open({ http: { tokens: TOKENS } })

describe('tokens', () => {
  test.each([
    [undefined, 401],
    [bearer('wrong-0123456789'), 401],
    [{ headers: { Authorization: 'Basic Y2xpZW50' } }, 401],
    [WORKER, 403],
    [CLIENT, 201],
    [ADMIN, 201],
  ])('%j is answered %d where a client is wanted', async (sending, status) => {
    const d = await guarded()
    const answer = await d.post('/ojs/v1/jobs', { type: 'a', args: [] }, sending)
    expect(answer.status).toBe(status)
    if (status === 401) expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer/)
  })

  test('a client may not fetch, a worker may not administer', async () => {
    const d = await guarded()
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['q'] }, CLIENT)).status).toBe(403)
    expect((await d.get('/ojs/v1/admin/stats', WORKER)).status).toBe(403)
    expect((await d.get('/metrics', CLIENT)).status).toBe(403)
    expect((await d.get('/ojs/v1/admin/stats', ADMIN)).status).toBe(200)
  })

  test('a token that names its queues sees and takes no others', async () => {
    const d = await guarded()
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['mail.high'] }, WORKER)).status).toBe(200)
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['q', 'default'] }, WORKER)).status).toBe(403)
    const id = await d.push({ queue: 'secret' }, {}, CLIENT)
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['secret'] }, ADMIN)).body['jobs']).toHaveLength(1)
    expect((await d.post('/ojs/v1/workers/ack', { job_id: id }, WORKER)).status).toBe(404)
  })

  test('health, readiness, manifest and the document are open to everybody', async () => {
    const d = await guarded()
    for (const path of ['/ojs/v1/health', '/health', '/ready', '/ojs/manifest', '/openapi.json'])
      expect((await d.get(path)).status).toBe(200)
  })

  test.each([
    [{ token: 'short', scopes: ['admin'], tenant: '*' }],
    [{ token: 'admin-0123456789', scopes: ['root'], tenant: '*' }],
    [{ token: 'admin-0123456789', scopes: [], tenant: '*' }],
    [{ token: 'admin-0123456789', scopes: ['admin'] }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: '' }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: 'a/b' }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: '*', queue: ['mail'] }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: '*', queues: [] }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: '*', expiresAt: 'tomorrow' }],
    [{ token: 'admin-0123456789', scopes: ['admin'], tenant: '*', expiresAt: '2030-02-31T00:00:00Z' }],
    [{ hash: 'sha256:12', scopes: ['admin'], tenant: '*' }],
    [{ scopes: ['admin'], tenant: '*' }],
  ])('%j is no token, and the refusal does not show it', async (token) => {
    const opening = HttpHarness.open({ http: { tokens: [token as never] } })
    await expect(opening).rejects.toMatchObject({ code: 'option.invalid' })
    await expect(opening).rejects.not.toThrow(/admin-0123456789/)
  })

  test('without a token and a hash are refused in words that say so', async () => {
    const opening = HttpHarness.open({ http: { tokens: [{ scopes: ['admin'], tenant: '*' } as never] } })
    await expect(opening).rejects.toThrow('token and hash are missing. Expected one of them.')
  })

  test('of which one is there twice, plain or as its hash, are refused; so are two of one name', async () => {
    const token = 'reader-0123456789'
    const hash = `sha256:${createHash('sha256').update(token).digest('hex')}`
    const same = [
      { token, scopes: ['reader'], tenant: '*' },
      { hash, scopes: ['admin'], tenant: '*' },
    ] as const
    await expect(HttpHarness.open({ http: { tokens: same } })).rejects.toMatchObject({ code: 'option.invalid' })
    const named = [
      { token, name: 'n', scopes: ['reader'], tenant: '*' },
      { token: 'other-0123456789', name: 'n', scopes: ['reader'], tenant: '*' },
    ] as const
    await expect(HttpHarness.open({ http: { tokens: named } })).rejects.toMatchObject({ code: 'option.invalid' })
    const d = await HttpHarness.open({ http: { tokens: same.slice(1) } })
    expect((await d.get('/ojs/v1/admin/stats', bearer(token))).status).toBe(200)
  })

  test('that have expired are refused from that instant on', async () => {
    const token = {
      token: 'reader-0123456789',
      scopes: ['reader'],
      tenant: '*',
      expiresAt: '2026-01-01T00:00:10Z',
    } as const
    const d = await HttpHarness.open({ http: { tokens: [token] } })
    expect((await d.get('/ojs/v1/queues', bearer(token.token))).status).toBe(200)
    await d.clock.advance('10s')
    const late = await d.get('/ojs/v1/queues', bearer(token.token))
    expect(late.status).toBe(401)
    expect(late.body['error'].message).toMatch(/expired/)
  })

  test('of the scope client are producers and readers, and the log warns of them', async () => {
    const warnings: string[] = []
    const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) }
    const d = await HttpHarness.open({ http: { tokens: TOKENS, logger } })
    expect(warnings).toHaveLength(2)
    expect(warnings[0]).toMatch(/scope client.*producer and reader/)
    const id = await d.push({}, {}, CLIENT)
    expect((await d.get(`/ojs/v1/jobs/${id}`, CLIENT)).status).toBe(200)
    expect((await d.post('/ojs/v1/queues/q/pause', undefined, CLIENT)).status).toBe(403)
  })
})

describe('the budget of requests', () => {
  test('is each token’s own; beyond it 429 says when to come back, and nothing is done', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS, requests: { rate: 2, per: '10s' } } })
    const push = (sending: object): Promise<{ status: number; headers: Headers; body: Json }> =>
      d.post('/ojs/v1/jobs', { type: 'a', args: [] }, sending)
    expect((await push(CLIENT)).headers.get('x-ratelimit-remaining')).toBe('1')
    await push(CLIENT)
    const refused = await push(CLIENT)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(refused.body['error']).toMatchObject({ code: 'rate_limited', retryable: true })
    expect((await push(ADMIN)).status).toBe(201)
    expect((await d.get('/ojs/v1/health')).status).toBe(200)
    await d.clock.advance('5s')
    expect((await push(CLIENT)).status).toBe(201)
    expect((await d.get('/ojs/v1/admin/stats', ADMIN)).body['jobs'].available).toBe(4)
  })
})

describe('tenants', () => {
  const of = (tenant: string): { headers: Record<string, string> } => ({ headers: { 'X-OJS-Tenant': tenant } })

  test('see, fetch, cancel, count and settle their own jobs alone', async () => {
    const d = await guarded()
    const acme = { headers: { ...CLIENT.headers, ...of('acme').headers } }
    const globex = { headers: { ...CLIENT.headers, ...of('globex').headers } }
    const id = await d.push({}, {}, acme)
    expect((await d.get(`/ojs/v1/jobs/${id}`, globex)).status).toBe(404)
    expect((await d.get(`/ojs/v1/jobs/${id}`, CLIENT)).status).toBe(404)
    expect((await d.send('DELETE', `/ojs/v1/jobs/${id}`, undefined, globex)).status).toBe(404)
    const worker = (tenant: string): object => ({ headers: { ...WORKER.headers, ...of(tenant).headers } })
    const fetch = (tenant: string): Promise<{ body: Json }> =>
      d.post('/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w' }, worker(tenant))
    expect((await fetch('globex')).body['jobs']).toEqual([])
    expect((await fetch('acme')).body['jobs']).toMatchObject([{ id, queue: 'q', meta: { tenant_id: 'acme' } }])
    expect((await d.post('/ojs/v1/workers/ack', { job_id: id }, worker('globex'))).status).toBe(404)
    expect((await d.post('/ojs/v1/workers/ack', { job_id: id }, worker('acme'))).status).toBe(200)
    expect((await d.get('/ojs/v1/queues/q', globex)).body).toMatchObject({ completed: 0 })
    expect((await d.get('/ojs/v1/queues/q', acme)).body).toMatchObject({ completed: 1 })
    expect((await d.get('/ojs/v1/events', globex)).body['events']).toEqual([])
  })

  test('share no rate limit, no unique key, no cron and no queue’s pause', async () => {
    const d = await HttpHarness.open()
    const rate = { rate_limit: { key: 'k', concurrency: 1 }, unique: { keys: ['type', 'args'] } }
    const cron = { name: 'c', expression: '@daily', job_template: { type: 'a', args: [] } }
    for (const tenant of ['acme', 'globex']) {
      await d.push(rate, {}, of(tenant))
      expect((await d.post('/ojs/v1/cron', cron, of(tenant))).status).toBe(201)
    }
    await d.post('/ojs/v1/queues/q/pause', {}, of('acme'))
    expect(await d.fetch({}, of('acme'))).toHaveLength(0)
    expect(await d.fetch({}, of('globex'))).toHaveLength(1)
    await d.post('/ojs/v1/queues/q/resume', {}, of('acme'))
    expect(await d.fetch({}, of('acme'))).toHaveLength(1)
    await d.send('DELETE', '/ojs/v1/cron/c', undefined, of('acme'))
    expect((await d.get('/ojs/v1/cron', of('acme'))).body['crons']).toEqual([])
    expect((await d.get('/ojs/v1/cron', of('globex'))).body['crons']).toHaveLength(1)
  })

  test('that the header and the body name differently are refused, and so is a tenant that is not the token’s', async () => {
    const d = await guarded()
    const headers = { ...CLIENT.headers, ...of('acme').headers }
    const job = { type: 'a', args: [], meta: { tenant_id: 'globex' } }
    expect((await d.post('/ojs/v1/jobs', job, { headers })).status).toBe(400)
    const own = bearer('acme-client-01234').headers
    const pushed = await d.post('/ojs/v1/jobs', { type: 'a', args: [] }, { headers: own })
    expect(pushed.body['job'].meta).toEqual({ tenant_id: 'acme' })
    const other = { headers: { ...own, ...of('globex').headers } }
    expect((await d.post('/ojs/v1/jobs', { type: 'a', args: [] }, other)).status).toBe(403)
    expect((await d.get('/ojs/v1/health', of('../x'))).status).toBe(400)
  })
})

describe('an answer that stays open', () => {
  const TOKEN = {
    name: 'all',
    token: 'secret-all-secret-all-secret',
    scopes: ['worker', 'reader', 'producer'],
    tenant: '*',
  }
  const headers = { Authorization: `Bearer ${TOKEN.token}` }

  test.each([
    ['is revoked', []],
    ['has other rights', [{ ...TOKEN, scopes: ['reader', 'worker'] }]],
  ] as const)('ends once its token %s', async (_, tokens) => {
    const other = { ...TOKEN, name: 'other', token: 'secret-other-secret-other-secret' }
    const d = await HttpHarness.open({ http: { tokens: [TOKEN, other] as never } })
    const stream = await d.app.fetch(new Request('http://server/ojs/v1/events/stream', { headers }))
    const waiting = d.fetch({ wait: 20_000 }, { headers })
    const kept = d.fetch({ wait: 20_000, worker_id: 'kept' }, { headers: { Authorization: `Bearer ${other.token}` } })
    await d.clock.advance('3s')
    await d.app.reload({ tokens: [...tokens, other] as never, limits: {}, by: 'test' })
    await d.clock.advance('2s')
    expect(await waiting).toEqual([])
    const id = await d.push({}, {}, { headers: { Authorization: `Bearer ${other.token}` } })
    expect(await kept).toEqual([id])
    expect(await stream.text()).toBe(': listening\n\n')
  })
})
