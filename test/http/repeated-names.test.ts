// A name that an object of a body has twice: parsers keep one value and drop the other without a word.
import { describe, expect, test } from 'vitest'
import { monitorHandler } from '../../src/http/monitor/handler.ts'
import { ROUTES } from '../../src/http/routes.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const ID = '01a20021-deb9-7f2f-a3ad-017f490bb225'
const HEADERS = { 'Content-Type': 'application/json', 'X-Sluice-Request': '1' }

async function send(
  door: (request: Request) => Promise<Response>,
  path: string,
  body: string,
  method = 'POST',
): Promise<{ status: number; error: Json }> {
  const sent: RequestInit = { method, headers: HEADERS, body }
  const response = await door(new Request(`http://server${path}`, sent))
  return { status: response.status, error: ((await response.json()) as Json)['error'] as Json }
}

test.each([
  ['{"type":"work","args":[],"type":"other"}', 'type'],
  ['{"type":"work","args":[{"a":1},{"b":[{"c":1,"d":{},"c":1}]}]}', 'args.1.b.0.c'],
  ['{"type":"work","args":[],"options":{"queue":"a","\\u0071ueue":"b"}}', 'options.queue'],
  ['{"type":"work","args":[],"meta":{"__proto__":1,"__proto__":2}}', 'meta.__proto__'],
  ['{"type":"work","args":[{"":1,"":2}]}', 'args.0.'],
  [`{"type":"work","args":["${'x'.repeat(10_000_000)}",{"a":1,"a":2}]}`, 'args.1.a'],
])('%.70s is refused with the path %s, and nothing is stored', async (body, path) => {
  const d = await HttpHarness.open()
  const { status, error } = await send((request) => d.app.fetch(request), '/ojs/v1/jobs', body)
  expect([status, error]).toMatchObject([
    400,
    {
      code: 'invalid_request',
      message: `${path} is there twice. Expected each name once.`,
      details: { issues: [{ path, message: 'is there twice. Expected each name once.' }] },
    },
  ])
  expect((await d.get('/ojs/v1/admin/jobs')).body['pagination'].total).toBe(0)
})

test.each([
  '{"type":"work","args":[{"a":{"a":[{"a":1},{"a":1}]},"A":1}]}',
  '{"type":"work","args":["a:\\":{\\"a\\":1,\\"a\\":1}"]}',
  '{"type":"work","args":[{"a:":":","b":"::"},":"]}',
  '{"type":"work","args":[{"__proto__":{"a":1},"constructor":1}]}',
])('%s has no name twice', async (body) => {
  const d = await HttpHarness.open()
  expect((await send((request) => d.app.fetch(request), '/ojs/v1/jobs', body)).status).toBe(201)
})

describe('every request that changes something refuses it', () => {
  const changing = ROUTES.filter(({ method }) => method !== 'GET')
  test.each(changing.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_, route) => {
    const d = await HttpHarness.open({ http: { testMode: true } })
    const path = route.path.replace(':id', ID).replaceAll(/:\w+/g, 'mail')
    const { status, error } = await send((request) => d.app.fetch(request), path, '{"x_a":1,"x_a":2}', route.method)
    expect([status, error['message']]).toEqual([400, 'x_a is there twice. Expected each name once.'])
  })

  test('also at a mounted monitor', async () => {
    const d = await HttpHarness.open()
    const monitor = monitorHandler({ sluice: d.sluice, clock: d.clock, authorize: () => 'operator' })
    const { status, error } = await send(
      (request) => monitor.fetch(request),
      '/monitor/v1/queues/q/pause',
      '{"reason":"a","reason":"b"}',
      'PUT',
    )
    expect([status, error['message']]).toEqual([400, 'reason is there twice. Expected each name once.'])
    monitor.close()
  })
})
