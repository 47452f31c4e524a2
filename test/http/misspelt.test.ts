// A member of a request that the server does not know is never dropped where it is a slip of one that it knows.
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const nothing = async (d: HttpHarness): Promise<void> => {
  expect((await d.get('/ojs/v1/admin/jobs')).body['pagination'].total).toBe(0)
  expect((await d.get('/ojs/v1/cron')).body['pagination'].total).toBe(0)
}

describe('a misspelt member is refused, and the message says which was meant', () => {
  const job = { type: 'work', args: [1] }
  test.each<[string, Json, string]>([
    ['/ojs/v1/jobs', { ...job, option: { rate_limit: { key: 'k', concurrency: 1 } } }, 'options'],
    ['/ojs/v1/jobs', { ...job, rateLimit: { key: 'k', concurrency: 1 } }, 'rate_limit'],
    ['/ojs/v1/jobs', { ...job, options: { rate_limits: { key: 'k', concurrency: 1 } } }, 'rate_limit'],
    ['/ojs/v1/jobs/batch', { jobs: [job, { ...job, optoins: {} }] }, 'options'],
    ['/ojs/v1/workflows', { type: 'group', jobs: [{ ...job, option: {} }] }, 'options'],
    ['/ojs/v1/workflows', { type: 'chain', steps: [job], option: {} }, 'options'],
    [
      '/ojs/v1/workflows',
      {
        steps: [
          { ...job, id: 'a' },
          { ...job, id: 'b', depend_on: ['a'] },
        ],
      },
      'depends_on',
    ],
    ['/ojs/v1/workflows', { steps: [{ ...job, id: 'a', optons: {} }] }, 'options'],
    ['/ojs/v1/cron', { name: 'c', cron: '@daily', type: 'work', overlap_polici: 'allow' }, 'overlap_policy'],
    ['/ojs/v1/cron', { name: 'c', cron: '@daily', type: 'work', overlap: 'allow' }, 'overlap_policy'],
    ['/ojs/v1/workers/fetch', { queues: ['q'], type: ['work'] }, 'types'],
    ['/ojs/v1/workers/fetch', { queues: ['q'], cuont: 5 }, 'count'],
    ['/ojs/v1/workers/fetch', { queues: ['q'], wait_ms: 20_000 }, 'wait'],
    ['/ojs/v1/workers/fetch', { queues: ['q'], visibility_timeout: 30 }, 'visibility_timeout_ms'],
    ['/ojs/v1/workers/fetch', { queues: ['q'], worker: 'w' }, 'worker_id'],
    ['/ojs/v1/workers/heartbeat', { worker_id: 'w', visibility_timeout: 30 }, 'visibility_timeout_ms'],
  ])('%s %j', async (path, body, meant) => {
    const d = await HttpHarness.open()
    const { status, body: answer } = await d.post(path, body)
    expect([status, answer['error']?.message]).toEqual([400, expect.stringContaining(`did you mean ${meant}?`)])
    await nothing(d)
  })

  test.each<[path: string, body: Json]>([
    ['/ojs/v1/queues/q/pause', { until: '2100-01-01T00:00:00Z' }],
    ['/ojs/v1/queues/q/resume', { until: '2100-01-01T00:00:00Z' }],
    ['/ojs/v1/admin/queues/q/pause', { until: '2100-01-01T00:00:00Z' }],
  ])('%s %j changes nothing', async (path, body) => {
    const d = await HttpHarness.open()
    await d.post('/ojs/v1/jobs', { ...job, options: { queue: 'q' } })
    const { status, body: answer } = await d.post(path, body)
    expect([status, answer['error']?.message]).toEqual([400, expect.stringContaining('is unknown')])
    const shown = (await d.get('/ojs/v1/admin/queues/q')).body
    expect(JSON.stringify(shown)).not.toContain('"paused":true')
    for (const known of [{ reason: 'an audit' }, { reason: null }, null, undefined])
      expect((await d.post('/ojs/v1/queues/q/pause', known)).status).toBe(200)
  })

  test.each<[string, Json, string]>([
    ['ack', { charges: [{ limit: 'k', units: 1 }] }, 'charge'],
    ['ack', { results: 1 }, 'result'],
    ['nack', { error: { code: 'x', message: 'm', retry_aftr: 60 } }, 'retry_after'],
    ['nack', { error: { code: 'x', message: 'm' }, rate_limit_header: {} }, 'rate_limit_headers'],
    ['nack', { snooz_ms: 1000 }, 'snooze_ms'],
    ['nack', { snoozeMs: 1000 }, 'snooze_ms'],
  ])('of a settlement: %s %j, and the run goes on', async (verb, more, meant) => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch()
    const { status, body } = await d.post(`/ojs/v1/workers/${verb}`, { job_id: id, ...more })
    expect([status, body['error']?.message]).toEqual([400, expect.stringContaining(`did you mean ${meant}?`)])
    expect((await d.job(id))['state']).toBe('active')
  })

  test('of a fetch, but other members of it are taken, as clients add their own', async () => {
    const d = await HttpHarness.open()
    await d.push()
    expect(await d.fetch({ hostname: 'h', capacity: 5, schema_id: 1, x_cuont: 2 })).toHaveLength(1)
  })

  test('of the bounds of a queue', async () => {
    const d = await HttpHarness.open()
    for (const body of [{ backpresure: { max_depth: 1 } }, { backpressure: { max_depth: 1, warning_treshold: 0.5 } }]) {
      expect((await d.send('PUT', '/ojs/v1/admin/queues/q/config', body)).status).toBe(400)
    }
    expect((await d.get('/ojs/v1/admin/queues/q')).status).toBe(404)
  })
})

test('a query that would narrow a change must be known: else the change reaches more', async () => {
  const d = await HttpHarness.open()
  await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 5 })
  await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 1 })
  for (const query of ['partiton=a', 'key=a']) {
    const { status, body } = await d.send('DELETE', `/ojs/v1/rate-limits/k?${query}`)
    expect([status, body['error']?.code]).toEqual([400, 'invalid_request'])
  }
  expect((await d.get('/ojs/v1/rate-limits/k')).body['overrides']).toHaveLength(1)
  expect((await d.get('/ojs/v1/rate-limits/k?partiton=a')).status).toBe(400)
  expect((await d.get('/ojs/v1/rate-limits/k?cache=no')).status).toBe(200)
})

describe('a request that changes something takes no query parameter that its operation does not declare', () => {
  const changing = ROUTES.filter(({ method }) => method !== 'GET')
  const BODY = { type: 'work', args: [1], jobs: [{ type: 'work', args: [1] }], queues: ['q'], concurrency: 1 }
  const headers = { 'X-Sluice-Request': '1' }
  const ID = '01a20021-deb9-7f2f-a3ad-017f490bb225'

  test.each(changing.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_, route) => {
    const d = await HttpHarness.open({ http: { testMode: true } })
    const path = route.path.replace(':id', ID).replaceAll(/:\w+/g, 'mail')
    for (const name of ['dry_run', 'x_dry_run', '__proto__']) {
      const { status, body } = await d.send(route.method, `${path}?${name}=true`, BODY, { headers })
      expect([status, body['error']?.code, body['error']?.message]).toEqual([
        400,
        'invalid_request',
        expect.stringContaining(name),
      ])
    }
  })

  test('and changes nothing', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.post('/ojs/v1/cron', { name: 'c', cron: '@daily', type: 'work', args: [] })
    const all = { filter: { queue: 'q' }, confirm: true }
    expect((await d.post('/ojs/v1/admin/jobs/bulk/cancel?dry_run=true', all)).status).toBe(400)
    expect((await d.send('DELETE', '/ojs/v1/cron/c?dry_run=1')).status).toBe(400)
    expect((await d.send('DELETE', `/ojs/v1/jobs/${id}?reason=old`)).status).toBe(400)
    expect((await d.job(id))['state']).toBe('available')
    expect((await d.get('/ojs/v1/cron')).body['pagination'].total).toBe(1)
    expect((await d.post('/ojs/v1/admin/jobs/bulk/cancel', all)).status).toBe(200)
    expect((await d.job(id))['state']).toBe('cancelled')
  })

  test('but one that only looks takes any, as health checks and proxies add their own', async () => {
    const d = await HttpHarness.open()
    for (const path of ['/health', '/health/live', '/health/ready', '/ojs/v1/queues', '/metrics'])
      expect([path, (await d.get(`${path}?dry_run=true`)).status]).toEqual([path, 200])
    expect((await d.send('HEAD', '/health?probe=1')).status).toBe(200)
  })
})

test('a name that no parser keeps is refused where it would be lost, and kept in the arguments', async () => {
  const d = await HttpHarness.open()
  const send = async (text: string): Promise<[number, string]> => {
    const request = new Request('http://server/ojs/v1/jobs', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: text,
    })
    const response = await d.app.fetch(request)
    return [response.status, await response.text()]
  }
  for (const more of [
    '"__proto__": {}',
    '"options": {"__proto__": {"queue": "x"}}',
    '"meta": {"__proto__": 1}',
    '"options": {"rate_limit": {"key": "k", "concurrency": 1, "__proto__": {}}}',
  ])
    expect((await send(`{"type": "work", "args": [], ${more}}`))[0]).toBe(400)
  const [status, text] = await send('{"type": "work", "args": [{"__proto__": {"a": 1}}], "meta": {"constructor": 1}}')
  expect([status, text]).toEqual([201, expect.stringContaining('"args":[{"__proto__":{"a":1}}]')])
})

test('what is no slip of a known name stays the sender’s own', async () => {
  const d = await HttpHarness.open()
  const id = await d.push({}, { data: 1, attachments: [], x_options: {} })
  expect(await d.job(id)).toMatchObject({ data: 1, attachments: [], x_options: {} })
  expect((await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', id: 1, status: 'x' })).status).toBe(200)
})

test.each([['\0'], ['\ud800']])('a cursor that holds %j is refused', async (key) => {
  const d = await HttpHarness.open()
  await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 5 })
  const cursor = Buffer.from(JSON.stringify(['waiting', 1, key])).toString('base64url')
  expect((await d.get(`/ojs/v1/rate-limits/k/keys?cursor=${cursor}`)).status).toBe(400)
})

test.each([
  ['/ojs/v1/admin/jobs?state=available&state=active', 'state'],
  ['/ojs/v1/admin/jobs?limit=1&limit=2', 'limit'],
  ['/monitor/v1/flows?state=failed&state=running', 'state'],
])('a parameter that %s has twice is refused: the last alone would count', async (path, name) => {
  const d = await HttpHarness.open()
  const { status, body } = await d.get(path)
  expect([status, body['error'].message]).toEqual([400, `The query has "${name}" twice. Expected it once.`])
  expect((await d.get('/monitor/v1/jobs?state=available&state=active&tag=a&tag=b')).status).toBe(200)
})
