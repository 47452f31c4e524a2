import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'
import { HttpHarness, type Json } from './http-harness.ts'

describe('every answer', () => {
  test('names its version, type and request; the client’s own id comes back', async () => {
    const d = await HttpHarness.open()
    const { headers } = await d.get('/ojs/v1/health', { headers: { 'X-Request-Id': 'abc-1' } })
    expect(headers.get('content-type')).toBe('application/openjobspec+json')
    expect(headers.get('ojs-version')).toBe('1.0')
    expect(headers.get('x-request-id')).toBe('abc-1')
    const refused = await d.get('/nowhere', { headers: { 'X-Request-Id': 'x'.repeat(200) } })
    expect(refused.status).toBe(404)
    expect(refused.body['error'].request_id).toMatch(/^req_[0-9a-f-]{36}$/)
    expect(refused.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('of an error of our own tells nothing of it', async () => {
    const d = await HttpHarness.open()
    await d.sluice.stop()
    const { status, body } = await d.post('/ojs/v1/jobs', { type: 'a', args: [] })
    expect(status).toBeGreaterThanOrEqual(500)
    expect(JSON.stringify(body)).not.toMatch(/sqlite|at .*\.ts/i)
    expect(body['error']).toMatchObject({ code: 'backend_error', retryable: true })
  })
})

describe('a request', () => {
  test.each([
    ['another version', { 'OJS-Version': '2.0' }, '{"type":"a","args":[]}', 422, 'unsupported'],
    ['another content type', { 'Content-Type': 'text/plain' }, '{"type":"a","args":[]}', 400, 'invalid_request'],
    [
      'another charset',
      { 'Content-Type': 'application/json; charset=utf-16' },
      '{"type":"a","args":[]}',
      400,
      'invalid_request',
    ],
    ['no JSON', {}, '{', 400, 'invalid_payload'],
    ['nothing', {}, '', 400, 'invalid_payload'],
    ['too deep a nesting', {}, `{"type":"a","args":${'['.repeat(101)}${']'.repeat(101)}}`, 400, 'invalid_payload'],
    ['too much', {}, JSON.stringify({ type: 'a', args: ['x'.repeat(70_000)] }), 413, 'x_payload_too_large'],
    [
      'more than it says',
      { 'Content-Length': '9' },
      JSON.stringify({ type: 'a', args: ['x'.repeat(70_000)] }),
      413,
      'x_payload_too_large',
    ],
    ['a list', {}, '[]', 400, 'invalid_request'],
  ])('of %s is refused', async (_, headers, body, status, code) => {
    const d = await HttpHarness.open({ http: { maxBodyBytes: 65_536 } })
    const response = await d.app.fetch(
      new Request('http://server/ojs/v1/jobs', {
        method: 'POST',
        headers: { 'Content-Type': 'application/openjobspec+json', ...headers },
        body,
      }),
    )
    expect(response.status).toBe(status)
    expect(((await response.json()) as Json)['error'].code).toBe(code)
    expect((await d.get('/ojs/v1/admin/stats')).body['jobs'].available).toBe(0)
  })

  test.each(['utf-8', ' "UTF-8"', 'utf8; v=1', 'us-ascii'])('in the charset %s is taken', async (charset) => {
    const d = await HttpHarness.open({})
    const headers = { 'Content-Type': `application/json; charset=${charset}` }
    const request = new Request('http://server/ojs/v1/jobs', {
      method: 'POST',
      headers,
      body: '{"type":"a","args":[]}',
    })
    expect((await d.app.fetch(request)).status).toBe(201)
  })

  test('whose body does not end is cut off at the bound, however it says how long it is', async () => {
    const d = await HttpHarness.open({ http: { maxBodyBytes: 10_000 } })
    let sent = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1000
        controller.enqueue(new Uint8Array(1000).fill(0x20))
      },
    })
    const request = new Request('http://server/ojs/v1/jobs', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
      duplex: 'half',
    })
    expect((await d.app.fetch(request)).status).toBe(413)
    expect(sent).toBeLessThan(20_000)
  })

  test('for the test routes is answered in test mode alone', async () => {
    const plain = await HttpHarness.open()
    await plain.push()
    expect((await plain.post('/test/reset', {})).status).toBe(404)
    const d = await HttpHarness.open({ http: { testMode: true } })
    await d.push({ rate_limit: { key: 'k', concurrency: 1 } })
    expect((await d.post('/test/reset', {})).status).toBe(200)
    expect(await d.fetch()).toEqual([])
    expect((await d.get('/ojs/v1/rate-limits/k')).status).toBe(404)
  })

  test('with a directive in a job is obeyed in test mode alone', async () => {
    const plain = await HttpHarness.open()
    const id = await plain.push({ metadata: { test_directive: 'terminate' } })
    await plain.fetch()
    const beat = await plain.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: [id] })
    expect(beat.body['state']).toBe('running')
  })
})

describe('a method', () => {
  test('that is not served at a path is answered 405 with those that are', async () => {
    const d = await HttpHarness.open()
    const { status, headers, body } = await d.send('PATCH', '/ojs/v1/jobs/019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f')
    expect(status).toBe(405)
    expect(headers.get('allow')).toBe('GET, DELETE, HEAD, OPTIONS')
    expect(body['error']).toMatchObject({ code: 'x_method_not_allowed', retryable: false })
    expect(body['error'].hint).toEqual(expect.any(String))
    expect((await d.get('/ojs/v1/workers/fetch')).headers.get('allow')).toBe('POST, OPTIONS')
    expect((await d.send('DELETE', '/nowhere')).status).toBe(404)
  })

  test('HEAD is answered as GET without the body, OPTIONS with the methods there are', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    const head = await d.send('HEAD', `/ojs/v1/jobs/${id}`)
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/openjobspec+json'])
    expect(head.body).toEqual({})
    expect((await d.send('HEAD', '/ojs/v1/jobs/nope')).status).toBe(404)
    expect((await d.send('HEAD', '/ojs/v1/events/stream')).status).toBe(200)
    const options = await d.send('OPTIONS', `/ojs/v1/jobs/${id}`)
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, DELETE, HEAD, OPTIONS'])
  })

  test.each(['/ojs/v1/jobs/', '/ojs/v1//jobs', '/ojs/v1/jobs/%ZZ', '/ojs/v1/queues//stats', '/OJS/v1/jobs'])(
    'at %s finds nothing',
    async (path) => {
      const d = await HttpHarness.open()
      expect((await d.get(path)).body['error'].code).toBe('not_found')
    },
  )

  test('reads a parameter as it was meant', async () => {
    const d = await HttpHarness.open()
    await d.push({ rate_limit: { key: 'a:b', concurrency: 1 } })
    expect((await d.get('/ojs/v1/rate-limits/a%3Ab')).body['key']).toBe('a:b')
  })
})

describe('the document', () => {
  test('describes every operation that is served, with the schemas that check it', async () => {
    const d = await HttpHarness.open()
    const { body } = await d.get('/openapi.json')
    expect(body['openapi']).toBe('3.1.0')
    const served = ROUTES.filter((route) => !route.testOnly)
    for (const { method, path, name } of served) {
      const shown = body['paths'][path.replaceAll(/:([a-z]+)/g, '{$1}')][method.toLowerCase()] as Json
      expect(shown).toMatchObject({ operationId: name })
      expect(JSON.stringify(shown['parameters'] ?? []).match(/"in":"path"/g)?.length ?? 0).toBe(
        path.split(':').length - 1,
      )
    }
    const names = served.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    const push = body['paths']['/ojs/v1/jobs'].post.requestBody.content['application/openjobspec+json'].schema as Json
    expect(push['required']).toEqual(['type', 'args'])
    expect(push['properties'].options.anyOf[0].properties.priority).toMatchObject({ minimum: -100, maximum: 100 })
  })
})

describe('the server', () => {
  test('is not ready while it drains, and still answers', async () => {
    const d = await HttpHarness.open()
    expect((await d.get('/ready')).status).toBe(200)
    d.app.drain()
    expect((await d.get('/ready')).status).toBe(503)
    expect((await d.get('/health')).status).toBe(200)
  })

  test('logs each request once, with its id and status, and none of its body or token', async () => {
    const lines: object[] = []
    const log = (fields: object): void => void lines.push(fields)
    const logger = { debug: log, info: log, warn: log, error: log }
    const d = await HttpHarness.open({ http: { logger } })
    await d.push({}, { args: ['secret'] }, { headers: { 'X-Request-Id': 'r1', Authorization: 'Bearer secret' } })
    expect(lines).toMatchObject([{ requestId: 'r1', method: 'POST', operation: 'enqueueJob', status: 201 }])
    expect(JSON.stringify(lines)).not.toContain('secret')
  })
})
