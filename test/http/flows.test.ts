// Flows over HTTP: started, followed, signalled, retried and cancelled by clients that have no engine, on every store.
import { describe, expect, test } from 'vitest'
import type { Token } from '../../src/exports/http.ts'
import { machine, workflow } from '../../src/exports/flows.ts'
import { input, limit, NonRetryable } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { type Answer, HttpHarness, type Json, type Sending } from './http-harness.ts'

const stores = await everyStore('flows over HTTP')
const UNKNOWN = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const AT = '/flows/v1/flows'

const KINDS = {
  acme: { scopes: ['producer', 'reader'], tenant: 'acme' },
  birch: { scopes: ['producer', 'reader'], tenant: 'birch' },
  acmeReader: { scopes: ['reader'], tenant: 'acme' },
  acmeWorker: { scopes: ['worker'], tenant: 'acme' },
  acmeMail: { scopes: ['producer', 'reader'], tenant: 'acme', queues: ['mail'] },
  acmeSome: { scopes: ['reader'], tenant: 'acme', queues: ['mail', 'def*'] },
  nobody: { scopes: ['producer', 'reader'], tenant: '*' },
  admin: { scopes: ['admin'], tenant: '*' },
} as const
type Kind = keyof typeof KINDS
const TOKENS: Token[] = Object.entries(KINDS).map(([name, kind]) => ({
  token: `${name}-0123456789abcdef`,
  name,
  ...kind,
}))
const as = (kind: Kind): Sending => ({ headers: { Authorization: `Bearer ${kind}-0123456789abcdef` } })

/** A server whose engine lists a body, a machine that waits, and a body that fails once. */
async function open(url: string, tokens: Token[] = []) {
  let isBroken = true
  const slow = limit('slow', { rate: 1, per: '1h', burst: 1 })
  const order = workflow('order.pay', input<{ n: number }>(), {
    signals: { approved: input<{ by: string }>() },
    async run({ n }, flow) {
      const { by } = await flow.signal('approved')
      await flow.step('charge', { limits: [slow.key('k')] }, () => n)
      return { by, n }
    },
  })
  const gate = machine('gate', {
    states: { first: input<{ n: number }>(), end: input<{ n: number }>() },
    signals: { open: input<null>() },
    first: 'first',
    result: input<number>(),
    key: ({ n }) => `gate-${n}`,
    run: {
      first: (state, to) => to.wait(['open'], 'end', state),
      end: ({ n }, to) => to.done(n),
    },
  })
  const flaky = workflow('flaky', input<null>(), {
    defaults: { retry: { attempts: 1 } },
    async run(_, flow) {
      const one = await flow.step('one', () => 'one')
      return flow.step('two', () => {
        if (isBroken) throw new NonRetryable('it is broken')
        return `${one} two`
      })
    },
  })
  const outer = workflow('outer', input<{ n: number }>(), {
    run: ({ n }, flow) => flow.child('part', order, { n }),
  })
  const leaver = workflow('leaver', input<{ n: number }>(), {
    run: ({ n }, flow) => flow.detach('left', order, { n }),
  })
  const d = await HttpHarness.open({
    engine: { store: url, workflows: [order, gate, flaky, outer, leaver], queues: { default: { concurrency: 10 } } },
    http: { tokens },
  })
  const start = async (name: string, body: Json, sending?: Sending): Promise<string> => {
    const { status, body: answer } = await d.post(`/flows/v1/${name}`, body, sending)
    if (status >= 300) throw new Error(`a start was refused: ${JSON.stringify(answer)}`)
    await d.clock.advance('1s')
    return answer['id'] as string
  }
  return { d, start, mend: () => void (isBroken = false) }
}

describe.each(stores)('flows over HTTP on $name', (store) => {
  test('a flow is started, followed, signalled and explained', async () => {
    const { d, start } = await open(store.create())
    const started = await d.post('/flows/v1/order.pay', { input: { n: 1 } })
    expect(started).toMatchObject({ status: 201, body: { duplicate: false } })
    const id = started.body['id'] as string
    expect(started.headers.get('location')).toBe(`${AT}/${id}`)
    await d.clock.advance('1s')
    expect(await d.get(`${AT}/${id}`)).toMatchObject({
      status: 200,
      body: {
        id,
        workflow: 'order.pay',
        kind: 'workflow',
        key: null,
        state: 'running',
        finished_at: null,
        error: null,
        parent: null,
        steps: [{ name: 'approved', state: 'awaiting', signals: ['approved'] }],
      },
    })
    expect((await d.get(`${AT}/${id}/explain`)).body).toMatchObject({
      words: 'The step approved waits for the signal approved.',
      waits: [{ name: 'approved' }],
    })
    const signal = `${AT}/${id}/signals/approved`
    const sent = { payload: { by: 'ann' }, once: 'click-1' }
    expect(await d.post(signal, sent)).toMatchObject({ status: 200, body: { duplicate: false } })
    expect(await d.post(signal, sent)).toMatchObject({ status: 200, body: { duplicate: true } })
    await d.clock.advance('1s')
    expect((await d.get(`${AT}/${id}`)).body).toMatchObject({ state: 'completed', result: { by: 'ann', n: 1 } })
    const second = await start('order.pay', { input: { n: 2 } })
    await d.post(`${AT}/${second}/signals/approved`, { payload: { by: 'bob' } })
    await d.clock.advance('1s')
    const { body } = await d.get(`${AT}/${second}`)
    expect(body['steps'][1]).toMatchObject({
      name: 'charge',
      state: 'waiting',
      wait: { waits_on: { limit: 'slow', key: 'k' }, position: 1, x_wait: { position: 1 }, exact: true },
    })
    expect((await d.get(`${AT}/${second}/explain`)).body['words']).toMatch(/^The step charge waits for the budget of/)
  })

  test('a key starts one flow, a delay puts it off, and lists have pages', async () => {
    const { d, start } = await open(store.create())
    const ids = await Promise.all(
      Array.from({ length: 5 }, async () => (await d.post('/flows/v1/order.pay', { input: { n: 1 }, key: 'k' })).body),
    )
    expect(new Set(ids.map(({ id }) => id as string)).size).toBe(1)
    expect(ids.filter(({ duplicate }) => duplicate === true)).toHaveLength(4)
    expect((await d.post('/flows/v1/gate', { input: { n: 7 } })).status).toBe(201)
    expect(await d.post('/flows/v1/gate', { input: { n: 7 } })).toMatchObject({
      status: 200,
      body: { duplicate: true },
    })
    const late = await start('flaky', { input: null, delay: 'PT1M' })
    expect((await d.get(`${AT}/${late}`)).body).toMatchObject({ state: 'running', steps: [] })
    expect((await d.get(`${AT}/${late}/explain`)).body['words']).toMatch(/^The flow (goes on|is scheduled)/)
    await d.clock.advance('1m')
    expect((await d.get(`${AT}/${late}`)).body).toMatchObject({
      state: 'failed',
      error: { code: 'handler.nonretryable' },
    })
    const { body } = await d.get(`${AT}?limit=2`)
    expect(body['flows']).toMatchObject([{ id: late }, { workflow: 'gate', key: 'gate-7' }])
    const next = await d.get(`${AT}?limit=2&cursor=${body['next_cursor'] as string}`)
    expect(next.body).toMatchObject({ flows: [{ workflow: 'order.pay', key: 'k' }], next_cursor: null })
    expect((await d.get(`${AT}?workflow=gate&state=running,failed`)).body['flows']).toHaveLength(1)
    expect((await d.get(`${AT}?key=k`)).body['flows']).toMatchObject([{ workflow: 'order.pay' }])
    expect((await d.get(`${AT}?state=failed`)).body['flows']).toMatchObject([{ id: late }])
  })

  test('a failed flow is retried, a running one is cancelled with its children', async () => {
    const { d, start, mend } = await open(store.create())
    const id = await start('flaky', { input: null })
    const retry = `${AT}/${id}/retry`
    expect((await d.get(`${AT}/${id}`)).body).toMatchObject({ state: 'failed', steps: { length: 2 } })
    expect(await d.post(retry, { from: 'three' })).toMatchObject({ status: 422 })
    expect(await d.post(retry, {})).toMatchObject({ status: 200, body: { flow: { id, state: 'running' } } })
    await d.clock.advance('1s')
    mend()
    expect((await d.post(retry, { from: 'one' })).status).toBe(200)
    await d.clock.advance('1s')
    expect((await d.get(`${AT}/${id}`)).body).toMatchObject({ state: 'completed', result: 'one two' })
    expect(await d.post(retry, {})).toMatchObject({ status: 409, body: { error: { code: 'conflict' } } })
    const outer = await start('outer', { input: { n: 1 } })
    const [part] = (await d.get(`${AT}/${outer}`)).body['steps'] as Json[]
    expect(part).toMatchObject({ state: 'awaiting', child: { workflow: 'order.pay', state: 'running' } })
    expect((await d.send('POST', `${AT}/${outer}/cancel`)).body).toMatchObject({ flow: { state: 'cancelled' } })
    expect((await d.get(`${AT}/${part?.['child'].id as string}`)).body).toMatchObject({
      state: 'cancelled',
      parent: { id: outer, step: 'part' },
    })
    expect((await d.send('POST', `${AT}/${outer}/cancel`)).status).toBe(409)
    expect((await d.post(`${AT}/${outer}/signals/approved`, { payload: null })).status).toBe(422)
  })

  test('what is wrong, unknown or misspelt is refused with a code, and nothing is stored', async () => {
    const { d, start } = await open(store.create())
    const id = await start('gate', { input: { n: 1 } })
    const refused: readonly (readonly [string, Json | undefined, number, string])[] = [
      ['/flows/v1/order.refund', { input: 1 }, 404, 'x_workflow_unknown'],
      ['/flows/v1/flows', { input: 1 }, 404, 'x_workflow_unknown'],
      ['/flows/v1/gate', undefined, 400, 'invalid_payload'],
      ['/flows/v1/gate', { inputs: { n: 1 } }, 400, 'invalid_request'],
      ['/flows/v1/gate', { input: { n: 1 }, x_more: 1 }, 400, 'invalid_request'],
      ['/flows/v1/gate', { input: { n: 1 }, key: '' }, 400, 'invalid_request'],
      ['/flows/v1/gate', { input: { n: 1 }, key: 'acme/1' }, 400, 'invalid_request'],
      ['/flows/v1/gate', { input: { n: 1 }, delay: '1 hour' }, 400, 'invalid_request'],
      [`${AT}/${id}/signals/opened`, { payload: null }, 422, 'invalid_request'],
      [`${AT}/${id}/signals/open`, { paylod: null }, 400, 'invalid_request'],
      [`${AT}/${id}/signals/open`, { payload: null, once: '' }, 400, 'invalid_request'],
      [`${AT}/${id}/retry`, { form: 'first' }, 400, 'invalid_request'],
      [`${AT}/${id}/cancel`, { why: 'so' }, 400, 'invalid_request'],
      // A query that would do nothing.
      ['/flows/v1/gate?delay=PT1H', { input: { n: 1 } }, 400, 'invalid_request'],
      [`${AT}/${id}/signals/open?once=1`, { payload: null }, 400, 'invalid_request'],
      [`${AT}/${id}/retry?from=first`, {}, 400, 'invalid_request'],
      [`${AT}/${id}/cancel?why=so`, {}, 400, 'invalid_request'],
      [`${AT}/${UNKNOWN}/cancel`, {}, 404, 'not_found'],
      [`${AT}/${UNKNOWN}/retry`, {}, 404, 'not_found'],
      [`${AT}/${UNKNOWN}/signals/open`, { payload: null }, 404, 'not_found'],
      [`${AT}/x/cancel`, {}, 404, 'not_found'],
    ]
    for (const [path, body, status, code] of refused)
      expect([path, await d.send('POST', path, body)]).toMatchObject([path, { status, body: { error: { code } } }])
    expect((await d.post(`${AT}/${id}/signals/open`, { paylod: 1 })).body['error'].message).toMatch(
      /paylod is unknown; did you mean payload\?/,
    )
    for (const path of [`${AT}/${UNKNOWN}`, `${AT}/${UNKNOWN}/explain`, `${AT}/x`])
      expect((await d.get(path)).status).toBe(404)
    for (const query of ['state=done', 'cursor=x', 'limit=0', 'stat=failed', 'workflows=a'])
      expect([query, (await d.get(`${AT}?${query}`)).status]).toEqual([query, 400])
    // A payload that is left out is null.
    expect(await d.post(`${AT}/${id}/signals/open`, {})).toMatchObject({ status: 200, body: { duplicate: false } })
    await d.clock.advance('1s')
    expect(await d.post(`${AT}/${id}/signals/open`, { payload: null })).toMatchObject({ status: 409 })
    expect((await d.get(AT)).body['flows']).toHaveLength(1)
  })

  /** Each route, and its status for those who may not. A reader may read; another tenant finds nothing. */
  const ROUTES: readonly (readonly [string, (id: string) => string, Json | undefined, 'read' | 'write'])[] = [
    ['GET', (id) => `${AT}/${id}`, undefined, 'read'],
    ['GET', (id) => `${AT}/${id}/explain`, undefined, 'read'],
    ['POST', (id) => `${AT}/${id}/signals/open`, { payload: null }, 'write'],
    ['POST', (id) => `${AT}/${id}/retry`, {}, 'write'],
    ['POST', (id) => `${AT}/${id}/cancel`, {}, 'write'],
  ]

  test('each route asks for a token, its scope, the tenant and the queue', async () => {
    const { d, start } = await open(store.create(), TOKENS)
    const id = await start('gate', { input: { n: 1 } }, as('acme'))
    const send = async (route: (typeof ROUTES)[number], kind: Kind | null): Promise<number> =>
      (await d.send(route[0], route[1](id), route[2], kind === null ? {} : as(kind))).status
    for (const route of ROUTES) {
      const isRead = route[3] === 'read'
      expect(await send(route, null)).toBe(401)
      expect(await send(route, 'birch')).toBe(404)
      expect(await send(route, 'nobody')).toBe(404)
      expect(await send(route, 'acmeReader')).toBe(isRead ? 200 : 403)
      expect(await send(route, 'acmeWorker')).toBe(403)
      expect(await send(route, 'acmeMail')).toBe(404)
      if (isRead) expect(await send(route, 'admin')).toBe(200)
    }
    expect((await d.post('/flows/v1/gate', { input: { n: 1 } })).status).toBe(401)
    for (const kind of ['acmeReader', 'acmeWorker', 'acmeMail'] as const)
      expect((await d.post('/flows/v1/gate', { input: { n: 1 } }, as(kind))).status).toBe(403)
    expect((await d.get(AT)).status).toBe(401)
    expect((await d.get(AT, as('acmeWorker'))).status).toBe(403)
    expect((await d.send('POST', `${AT}/${id}/signals/open`, { payload: null }, as('acme'))).status).toBe(200)
  })

  test('tenants have flows and keys of their own, children included', async () => {
    const { d, start } = await open(store.create(), TOKENS)
    const of: Record<string, string> = {}
    for (const kind of ['acme', 'birch', 'nobody'] as const)
      of[kind] = await start('gate', { input: { n: 1 } }, as(kind))
    expect(new Set(Object.values(of)).size).toBe(3)
    const again: Answer = await d.post('/flows/v1/gate', { input: { n: 1 } }, as('acme'))
    expect(again).toMatchObject({ status: 200, body: { id: of['acme'], duplicate: true } })
    const outer = await start('outer', { input: { n: 1 } }, as('acme'))
    const seen = async (kind: Kind): Promise<string[]> =>
      ((await d.get(`${AT}?workflow=gate`, as(kind))).body['flows'] as Json[]).map(({ id, key }) => {
        expect(key).toBe('gate-1')
        return id as string
      })
    expect(await seen('acme')).toEqual([of['acme']])
    expect(await seen('birch')).toEqual([of['birch']])
    expect(await seen('nobody')).toEqual([of['nobody']])
    expect(await seen('admin')).toHaveLength(3)
    expect((await d.get(`${AT}?key=gate-1`, as('birch'))).body['flows']).toMatchObject([{ id: of['birch'] }])
    expect((await d.get(AT, as('acmeMail'))).body['flows']).toEqual([])
    const [part] = (await d.get(`${AT}/${outer}`, as('acme'))).body['steps'] as Json[]
    const child = part?.['child'].id as string
    expect((await d.get(`${AT}/${child}`, as('acme'))).status).toBe(200)
    expect((await d.get(`${AT}/${child}`, as('birch'))).status).toBe(404)
    // A flow that outlives the one that starts it belongs to its tenant, too.
    await start('leaver', { input: { n: 9 } }, as('acme'))
    expect((await d.get(`${AT}?workflow=order.pay`, as('acme'))).body['flows']).toHaveLength(2)
    expect((await d.get(`${AT}?workflow=order.pay`, as('birch'))).body['flows']).toEqual([])
  })

  test('a page is filled with the flows of one tenant, however many others have', async () => {
    const { d, start } = await open(store.create(), TOKENS)
    const own: string[] = []
    for (let n = 0; n < 3; n++) {
      own.unshift(await start('gate', { input: { n } }, as('acme')))
      for (let other = 0; other < 4; other++) await start('gate', { input: { n: 10 * n + other } }, as('birch'))
    }
    const first = await d.get(`${AT}?limit=2`, as('acme'))
    expect((first.body['flows'] as Json[]).map(({ id }) => id as string)).toEqual(own.slice(0, 2))
    const second = await d.get(`${AT}?limit=2&cursor=${first.body['next_cursor'] as string}`, as('acme'))
    expect(second.body).toMatchObject({ flows: [{ id: own[2] }], next_cursor: null })
    expect((await d.get(`${AT}?limit=100`, as('acmeMail'))).body).toEqual({ flows: [], next_cursor: null })
    expect((await d.get(`${AT}?limit=100`, as('acmeSome'))).body['flows']).toHaveLength(3)
    expect((await d.get(`${AT}?limit=100`, as('birch'))).body['flows']).toHaveLength(12)
  })
})
