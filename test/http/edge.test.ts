// The edge of a server: numbers, encodings, pages of browsers, probes, endless streams.
import { remoteOf } from '../../src/remote/remote.ts'
import { describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/exports/index.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const TOKENS = [{ token: 'admin-0123456789abc', name: 'root', scopes: ['admin'], tenant: '*' }] as const

function send(
  d: HttpHarness,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string,
): Promise<Response> {
  return d.app.fetch(new Request(`http://server${path}`, { method, headers, ...(body !== undefined && { body }) }))
}

describe('numbers', () => {
  const push = async (d: HttpHarness, args: string): Promise<{ status: number; body: Json }> => {
    const text = `{"type":"a","args":${args},"options":{"queue":"q"}}`
    const response = await send(d, 'POST', '/ojs/v1/jobs', { 'Content-Type': 'application/json' }, text)
    return { status: response.status, body: (await response.json()) as Json }
  }

  test.each([
    ['[9007199254740993]', 'args.0'],
    ['[{"a":[1,{"id":12345678901234567890}]}]', 'args.0.a.1.id'],
    ['[-9007199254740993]', 'args.0'],
    ['[1,"x",1e400]', 'args.2'],
    ['[{"b\\"c":-1e400}]', 'args.0.b"c'],
    ['[1e-400]', 'args.0'],
    ['[12345678901234567890.0]', 'args.0'],
    ['[123456789012345678e3]', 'args.0'],
    ['["{\\"n\\":1}",{"tweet":1541815603606036480123}]', 'args.1.tweet'],
  ])('%s is refused with the path %s, and nothing is stored', async (args, path) => {
    const d = await HttpHarness.open()
    const { status, body } = await push(d, args)
    expect(status).toBe(422)
    expect(body['error']).toMatchObject({ code: 'invalid_request', details: { issues: [{ path }] } })
    expect((await d.get('/ojs/v1/admin/jobs')).body['pagination'].total).toBe(0)
  })

  test.each([
    '[9007199254740991,-9007199254740991]',
    '[9007199254740992,1152921504606847000]',
    '["12345678901234567890","1e400"]',
    '[0.1234567890123456789,1.5e300,6.02e23,1e21,0,0e5,-0.5e-3]',
    '[{"12345678901234567890":1}]',
  ])('%s comes back as it was sent', async (args) => {
    const d = await HttpHarness.open()
    const { status, body } = await push(d, args)
    expect(status).toBe(201)
    expect(body['job'].args).toEqual(JSON.parse(args))
  })
})

describe('a compressed body', () => {
  test('is refused with 415; identity is none', async () => {
    const d = await HttpHarness.open()
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
    const refused = await send(d, 'POST', '/ojs/v1/jobs', headers, '{"type":"a","args":[]}')
    expect(refused.status).toBe(415)
    expect(((await refused.json()) as Json)['error'].code).toBe('x_unsupported_media_type')
    const taken = await send(
      d,
      'POST',
      '/ojs/v1/jobs',
      { ...headers, 'Content-Encoding': 'identity' },
      '{"type":"a","args":[]}',
    )
    expect(taken.status).toBe(201)
  })
})

describe('a page in a browser', () => {
  const PAGES: [string, Record<string, string>][] = [
    ['another origin', { Origin: 'https://evil.example' }],
    ['another port of this host', { Origin: 'http://server:3000' }],
    ['no origin that has a name', { Origin: 'null' }],
    ['another site', { 'Sec-Fetch-Site': 'cross-site' }],
  ]
  test.each(PAGES)('of %s acts on no server without tokens, with or without a body', async (_, headers) => {
    const d = await HttpHarness.open()
    expect((await send(d, 'POST', '/ojs/v1/queues/q/pause', headers)).status).toBe(403)
    const push = { ...headers, 'Content-Type': 'application/json' }
    expect((await send(d, 'POST', '/ojs/v1/jobs', push, '{"type":"a","args":[]}')).status).toBe(403)
    expect((await d.get('/ojs/v1/queues')).body['queues']).toEqual([])
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])(
    'sends %s to no server without tokens, not even without a body',
    async (type) => {
      const d = await HttpHarness.open()
      const answer = await send(d, 'POST', '/ojs/v1/queues/q/pause', { 'Content-Type': type })
      expect(answer.status).toBe(400)
      expect((await d.get('/ojs/v1/queues')).body['queues']).toEqual([])
    },
  )

  test('whose own name was pointed at the server is refused', async () => {
    const d = await HttpHarness.open({ http: { isHost: (host) => host === 'localhost' } })
    expect((await send(d, 'GET', '/ojs/v1/queues', {})).status).toBe(403)
    expect((await d.app.fetch(new Request('http://localhost:8080/ojs/v1/queues'))).status).toBe(200)
  })

  test('of the server itself, and clients that are no page, are served', async () => {
    const d = await HttpHarness.open()
    for (const headers of [{ Origin: 'http://server', 'Sec-Fetch-Site': 'same-origin' }, {}])
      expect((await send(d, 'POST', '/ojs/v1/queues/q/pause', headers)).status).toBe(200)
  })

  test('needs a token where there are tokens, and may then come from anywhere', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const headers = { Origin: 'https://app.example', Authorization: 'Bearer admin-0123456789abc' }
    expect((await send(d, 'POST', '/ojs/v1/queues/q/pause', headers)).status).toBe(200)
    expect((await send(d, 'POST', '/ojs/v1/queues/q/pause', { Origin: 'https://evil.example' })).status).toBe(401)
  })
})

test('an id that another tenant’s job has is refused without a word of that job', async () => {
  const d = await HttpHarness.open()
  const id = '01a20021-deb9-7f2f-a3ad-017f490bb225'
  const push = (tenant: string): ReturnType<HttpHarness['post']> =>
    d.post('/ojs/v1/jobs', { type: 'a', args: [], id }, { headers: { 'X-OJS-Tenant': tenant } })
  expect((await push('acme')).status).toBe(201)
  expect((await push('acme')).body['error'].details).toEqual({ existing_job_id: id })
  const other = await push('globex')
  expect(other.status).toBe(409)
  expect(JSON.stringify(other.body)).not.toContain(id)
})

describe('the log', () => {
  test('names the token and the tenant of a request, and tells probes at debug', async () => {
    const lines: [string, Json][] = []
    const at = (level: string) => (fields: object) => void lines.push([level, fields])
    const logger = { ...silentLogger, info: at('info'), debug: at('debug') }
    const d = await HttpHarness.open({ http: { tokens: TOKENS, logger } })
    const headers = { Authorization: 'Bearer admin-0123456789abc', 'X-OJS-Tenant': 'acme' }
    await d.get('/ojs/v1/queues', { headers })
    for (const path of ['/health', '/ojs/v1/health', '/health/live', '/health/ready', '/ready']) await d.get(path)
    expect(lines[0]).toMatchObject(['info', { token: 'root', tenant: 'acme', operation: 'listQueues', status: 200 }])
    expect(lines.slice(1).map(([level]) => level)).toEqual(Array(5).fill('debug'))
  })
})

describe('health', () => {
  test('live asks nothing of the store; ready and health answer within 2 s', async () => {
    const d = await HttpHarness.open()
    const store = await remoteOf(d.sluice).store()
    const hangs = new Promise<never>(() => undefined)
    store.schema = () => hangs
    expect((await d.get('/health/live')).status).toBe(200)
    const answers = ['/health/ready', '/ready', '/ojs/v1/health'].map((path) => d.get(path))
    await d.clock.advance('2s')
    for (const answer of answers) expect((await answer).status).toBe(503)
    d.app.drain()
    expect((await d.get('/health/live')).status).toBe(200)
  })

  test('ready says no as soon as the server drains', async () => {
    const d = await HttpHarness.open()
    expect((await d.get('/health/ready')).status).toBe(200)
    d.app.drain()
    expect((await d.get('/health/ready')).status).toBe(503)
  })
})

describe('a stream of events', () => {
  async function read(
    d: HttpHarness,
    headers: Record<string, string>,
    until: string,
  ): Promise<{ response: Response; text: string }> {
    const response = await send(d, 'GET', '/ojs/v1/events/stream', headers)
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    while (!text.includes(until)) text += new TextDecoder().decode((await reader.read()).value)
    await reader.cancel()
    return { response, text }
  }

  test('that goes on from Last-Event-ID tells what was missed, and is held back by no proxy', async () => {
    const d = await HttpHarness.open()
    const first = await d.push()
    const second = await d.push()
    const { text } = await read(d, { 'Last-Event-ID': '0' }, second)
    expect(text).toContain(first)
    const [, seq = ''] = /^id: (\d+)$/m.exec(text) ?? []
    const again = await read(d, { 'Last-Event-ID': seq }, second)
    expect(again.text).not.toContain(first)
    expect(again.response.headers.get('x-accel-buffering')).toBe('no')
  })

  test('refuses an id that is none', async () => {
    const d = await HttpHarness.open()
    expect((await send(d, 'GET', '/ojs/v1/events/stream', { 'Last-Event-ID': 'x' })).status).toBe(400)
  })
})

describe('a message shows the beginning of what was sent, however long that is', () => {
  const long = 'x'.repeat(50_000)
  test.each<[string, Record<string, string>, string]>([
    ['a content type', { 'Content-Type': `a/${long}` }, '{}'],
    ['a charset', { 'Content-Type': `application/json; charset=${long}` }, '{}'],
    [
      'a tenant of the meta',
      { 'Content-Type': 'application/json', 'X-OJS-Tenant': 'acme' },
      JSON.stringify({ type: 'a', args: [], meta: { tenant_id: long } }),
    ],
  ])('%s', async (_, headers, body) => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const authorization = `Bearer ${TOKENS[0].token}`
    const response = await send(d, 'POST', '/ojs/v1/jobs', { ...headers, authorization }, body)
    expect(response.status).toBe(400)
    expect((await response.text()).length).toBeLessThan(1000)
  })
})
