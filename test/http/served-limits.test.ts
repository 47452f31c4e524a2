import { describe, expect, test } from 'vitest'
import { limit } from '../../src/exports/index.ts'
import type { ServedLimits, Token } from '../../src/exports/http.ts'
import { readServeConfig } from '../../src/cli/serve/config.ts'
import { everyStore } from '../stores.ts'
import { type Answer, HttpHarness, type Json, type Sending, storeFile } from './http-harness.ts'

const KINDS = await everyStore('limits of tenants')
const HOUR = { window: 'sliding', per: '1h' } as const
const of = (tenant: string, token?: string): Sending => ({
  headers: { 'X-OJS-Tenant': tenant, ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
})
const named = (name: string, more: Json = {}): Json => ({ rate_limit: { x_limit: { name, ...more } } })
const job = (options: Json = {}, more: Json = {}): Json => ({
  type: 'work',
  args: [1],
  ...more,
  options: { queue: 'q', ...options },
})
const served = (limits: ServedLimits): Promise<HttpHarness> => HttpHarness.open({ http: { limits } })

const PACE = { rate: 10, per: '1s' } as const
const SHARE = { limit: 'd', atLeast: '1/s' } as const

/** Every way on which a job comes in. */
const WAYS: Readonly<Record<string, (d: HttpHarness, json: Json, sending?: Sending) => Promise<Answer>>> = {
  push: (d, json, sending) => d.post('/ojs/v1/jobs', json, sending),
  batch: (d, json, sending) => d.post('/ojs/v1/jobs/batch', { jobs: [{ type: 'other', args: [] }, json] }, sending),
  chain: (d, json, sending) =>
    d.post('/ojs/v1/workflows', { type: 'chain', steps: [{ type: 'other', args: [] }, json] }, sending),
  group: (d, json, sending) => d.post('/ojs/v1/workflows', { type: 'group', jobs: [json] }, sending),
  callback: (d, json, sending) =>
    d.post(
      '/ojs/v1/workflows',
      { type: 'batch', jobs: [{ type: 'other', args: [] }], callbacks: { on_success: json } },
      sending,
    ),
  cron: (d, json, sending) => d.post('/ojs/v1/cron', { name: 'c', cron: '@daily', job_template: json }, sending),
}

describe.each(KINDS)('on $name, a limit of the configuration', (kind) => {
  test('is each tenant’s own: none drains or closes another’s', async () => {
    const limits: ServedLimits = { limits: { crm: { ...HOUR, max: 2 } } }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { limits } })
    for (const tenant of ['acme', 'globex']) for (let i = 0; i < 3; i++) await d.push(named('crm'), {}, of(tenant))
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(2)
    expect(await d.fetch({ count: 9 }, of('globex'))).toHaveLength(2)
    expect((await d.get('/ojs/v1/rate-limits/crm', of('acme'))).body['rate']).toMatchObject({
      limit: 2,
      current_count: 2,
    })
    expect((await d.get('/ojs/v1/rate-limits/crm')).status).toBe(404)
  })

  test('guarantees each tenant a share of a common one, which no other uses up', async () => {
    const limits: ServedLimits = {
      limits: {
        outbound: { rate: 2, per: '1h', shared: true },
        bulk: { rate: 100, per: '1h', of: { limit: 'outbound', atLeast: { rate: 1, per: '2h' }, keys: 1 } },
        plain: { rate: 100, per: '1h' },
      },
      types: { work: { limits: [{ limit: 'outbound' }, { limit: 'plain' }] } },
    }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { limits } })
    await d.push(named('bulk'), {}, of('globex'))
    await d.push({}, {}, of('acme'))
    await d.push({}, {}, of('acme'))
    // One unit is kept for guaranteed starts.
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(1)
    expect(await d.fetch({ count: 9 }, of('globex'))).toHaveLength(1)
    const stored = (await d.sluice.limits.list()).find(({ name }) => name === 'globex/bulk')
    expect(stored?.policy.of).toMatchObject({ limit: 'outbound', keys: 1 })
    const put = await d.send('PUT', '/ojs/v1/rate-limits/bulk', { throttle: 1, period: 'second' }, of('globex'))
    expect(put.status).toBe(422)
    expect(JSON.stringify(put.body)).toContain('guarantees a share')
  })

  test('that is shared is one budget for all', async () => {
    const limits: ServedLimits = { limits: { crm: { ...HOUR, max: 2, shared: true } } }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { limits } })
    for (const tenant of ['acme', 'globex']) for (let i = 0; i < 3; i++) await d.push(named('crm'), {}, of(tenant))
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(2)
    expect(await d.fetch({ count: 9 }, of('globex'))).toHaveLength(0)
    expect((await d.send('PUT', '/ojs/v1/rate-limits/crm', { rate: 9, period: 'second' }, of('acme'))).status).toBe(403)
  })

  test.each([
    ['tenant', {}],
    ['args.0.tenantId', {}],
    ['meta.region', { meta: { region: 'eu' } }],
    ['tenantId', {}],
    ['args.1', { args: [{ tenantId: 'x' }, 'second'] }],
  ])('by %s has a budget for each key', async (by, more) => {
    const limits: ServedLimits = {
      limits: { crm: { ...HOUR, max: 1, shared: true } },
      types: { work: { limits: [{ limit: 'crm', by }] } },
    }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { limits } })
    const acme: Json = { args: [{ tenantId: 'acme' }], ...more }
    for (let i = 0; i < 2; i++) await d.push({}, acme, of('acme'))
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(1)
    const other: Json = { args: [{ tenantId: 'globex' }, 'third'], meta: { region: 'us' } }
    await d.push({}, other, of('globex'))
    expect(await d.fetch({ count: 9 }, of('globex'))).toHaveLength(1)
  })

  test('holds the occurrences of a cron and the jobs of a workflow too', async () => {
    const limits: ServedLimits = {
      limits: { crm: { ...HOUR, max: 1 } },
      types: { work: { limits: [{ limit: 'crm', by: 'tenant' }] } },
    }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { limits } })
    await d.post('/ojs/v1/workflows', { type: 'group', jobs: [job(), job()] }, of('acme'))
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(1)
    await d.post(
      '/ojs/v1/cron',
      { name: 'c', cron: '* * * * *', overlap_policy: 'allow', job_template: job() },
      of('acme'),
    )
    await d.clock.advance('2m')
    expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(0)
    expect((await d.get('/ojs/v1/rate-limits/crm', of('acme'))).body['waiting_count']).toBeGreaterThan(1)
  })
})

describe.each(Object.entries(WAYS))('a %s', (_, send) => {
  const LIMITS: ServedLimits = {
    limits: { crm: { ...HOUR, max: 15 }, byTenant: { ...HOUR, max: 5, by: 'tenant', shared: true } },
    types: { sync: { limits: [{ limit: 'crm', by: 'tenantId' }] } },
  }
  const CASES: [string, Json][] = [
    ['an unknown limit', job(named('typo'))],
    ['another tenant’s limit', job(named('globex'))],
    ['a weight above the limit', job(named('crm', { key: 'z', weight: 1_000_000 }))],
    ['no key', job(named('crm'))],
    ['an empty key', job(named('crm', { key: '' }))],
    ['a key that the server sets', job(named('byTenant', { key: 'globex' }))],
    ['no value at the path', job({}, { type: 'sync', args: [{ tenant_id: 'x' }] })],
    ['null at the path', job({}, { type: 'sync', args: [{ tenantId: null }] })],
    ['an argument without members', job({}, { type: 'sync', args: ['x'] })],
    ['no argument', job({}, { type: 'sync', args: [] })],
  ]
  test.each(CASES)('with %s is refused with 422, and nothing is written', async (_case, json) => {
    const d = await served(LIMITS)
    const before = await d.sluice.limits.list()
    const answer = await send(d, json, of('acme'))
    expect(answer.status).toBe(422)
    expect(answer.body['error']).toMatchObject({ code: 'invalid_request', retryable: false })
    const { body } = await d.get('/ojs/v1/admin/jobs', of('acme'))
    expect(body['pagination'].total).toBe(0)
    expect((await d.get('/ojs/v1/cron', of('acme'))).body['crons']).toEqual([])
    expect(await d.sluice.limits.list()).toEqual(before)
  })

  test('that names another tenant’s limit by a slash is refused', async () => {
    const d = await served(LIMITS)
    await d.push({ rate_limit: { key: 'stripe', concurrency: 1 } }, {}, of('globex'))
    expect((await send(d, job(named('globex/stripe')), of('acme'))).status).toBe(400)
  })

  test('with several arguments is held to the key of the first', async () => {
    const d = await served(LIMITS)
    expect((await send(d, job({}, { type: 'sync', args: [{ tenantId: 'a' }, 1] }), of('acme'))).status).toBe(201)
  })
})

describe('a policy that a job brings', () => {
  const TOKENS: Token[] = [
    { token: 'producer-0123456789', scopes: ['producer'], tenant: '*' },
    { token: 'mailonly-0123456789', scopes: ['producer'], tenant: '*', queues: ['mail'] },
    { token: 'worker-0123456789ab', scopes: ['worker'], tenant: '*' },
    { token: 'admin-0123456789abc', scopes: ['admin'], tenant: '*' },
  ]
  const bank = (max: number): Json => ({ rate_limit: { key: 'bank', rate: { limit: max, period: 'PT1M' } } })

  test('may define a limit that is not there; to change one takes an admin', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const [producer, mail, worker, admin] = TOKENS.map(({ token }) => of('', token))
    for (let i = 0; i < 4; i++) await d.push(bank(1), {}, producer)
    expect(await d.fetch({ count: 9 }, worker)).toHaveLength(1)
    const changed = await d.post('/ojs/v1/jobs', job({ queue: 'mail', ...bank(1_000_000) }), mail)
    expect(changed.status).toBe(403)
    expect((await d.post('/ojs/v1/jobs/batch', { jobs: [job(bank(9))] }, producer)).status).toBe(403)
    expect((await d.post('/ojs/v1/workflows', { type: 'group', jobs: [job(bank(9))] }, producer)).status).toBe(403)
    expect(await d.fetch({ count: 9 }, worker)).toHaveLength(0)
    await d.push(bank(3), {}, admin)
    expect(await d.fetch({ count: 9 }, worker)).toHaveLength(2)
  })
})

test('a policy that a job brings is none for a limit of the configuration, not even before its first use', async () => {
  const d = await served({ limits: { crm: { ...HOUR, max: 1 } } })
  const bank = { rate_limit: { key: 'crm', rate: { limit: 1000, period: 'PT1S' } } }
  for (let i = 0; i < 3; i++) await d.push(bank, {}, of('acme'))
  expect(await d.fetch({ count: 9 }, of('acme'))).toHaveLength(1)
})

test('a server that starts with another policy gives it to the limits of tenants too', async () => {
  const store = storeFile()
  const first = await HttpHarness.open({
    engine: { store },
    http: { limits: { limits: { crm: { ...HOUR, max: 1 } } } },
  })
  for (let i = 0; i < 4; i++) await first.push(named('crm'), {}, of('acme'))
  expect(await first.fetch({ count: 9 }, of('acme'))).toHaveLength(1)
  const { clock } = first
  const second = await HttpHarness.open({
    clock,
    engine: { store },
    http: { limits: { limits: { crm: { ...HOUR, max: 3 } } } },
  })
  await second.app.define()
  expect(await second.fetch({ count: 9 }, of('acme'))).toHaveLength(2)
})

test('limits of code are reached by their names where the server shares them', async () => {
  const engine = { limits: [limit('gate', { ...HOUR, max: 1 })] }
  const d = await HttpHarness.open({
    engine,
    http: { limits: { limits: { gate: { ...HOUR, max: 1, shared: true } } } },
  })
  for (const tenant of ['acme', 'globex']) await d.push(named('gate'), {}, of(tenant))
  expect([...(await d.fetch({}, of('acme'))), ...(await d.fetch({}, of('globex')))]).toHaveLength(1)
})

test('the monitor tells a tenant no figures of others, of a limit that they share by their keys', async () => {
  const own = { ...HOUR, max: 1, shared: true, by: 'tenant' } as const
  const d = await HttpHarness.open({ http: { limits: { limits: { own } } } })
  for (let n = 0; n < 3; n++) await d.push({ rate_limit: { x_limit: { name: 'own' } } }, {}, of('globex'))
  expect(await d.fetch({ count: 3 }, of('globex'))).toHaveLength(1)
  const figures = async (sending: Sending): Promise<unknown> => {
    const { keys, heldKeys, waiting, nextStart } = (await d.get('/monitor/v1/limits/own', sending)).body
    return [keys, heldKeys, waiting, nextStart === null]
  }
  expect(await figures({})).toEqual([1, 1, 2, false])
  expect(await figures(of('acme'))).toEqual([0, 0, 0, true])
})

test.each([
  ['alone', {}],
  ['by a key that is no tenant', { by: 'meta.region' }],
])('of a budget that all tenants share, %s, an ack keeps a unit and charges at most an hour', async (_, keyed) => {
  const d = await HttpHarness.open({
    http: { limits: { limits: { gate: { rate: 100, per: '1h', shared: true, ...keyed } } } },
  })
  const left = async (): Promise<number | undefined> => (await d.sluice.limits.inspect('gate'))[0]?.available
  const run = async (units: number): Promise<number> => {
    const heavy = { rate_limit: { x_limit: { name: 'gate', weight: 10 } } }
    const id = await d.push(heavy, { meta: { region: 'eu' } }, of('acme'))
    expect(await d.fetch({}, of('acme'))).toEqual([id])
    const charge = [{ limit: 'gate', units }]
    return (await d.post('/ojs/v1/workers/ack', { job_id: id, charge }, of('acme'))).status
  }
  expect(await run(-1000)).toBe(200)
  expect(await left()).toBe(99)
  expect(await run(101)).toBe(422)
  expect(await left()).toBe(89)
})

test.each([
  [{ types: { a: { limits: [{ limit: 'typo' }] } } }, 'limit.unknown'],
  [{ limits: { 'a/b': { concurrency: 1 } } }, 'policy.invalid'],
  [{ limits: { c: { concurrency: 1, by: '' } } }, 'limit.key.invalid'],
  [
    { limits: { c: { ...HOUR, max: 3 } }, queues: { q: { limits: [{ limit: 'c', weight: 4 }] } } },
    'limit.weight.above_burst',
  ],
  [{ limits: { c: null } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'typo', atLeast: '1/s' } } } }, 'limit.unknown'],
  [{ limits: { c: { ...PACE, of: 'd' }, d: PACE } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 5, atLeast: '1/s' } }, d: PACE } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'c', atLeast: '1/s' } } } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'd', atleast: '1/s' } }, d: PACE } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'd', atLeast: '1/s', by: '' } }, d: PACE } }, 'limit.key.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'd', atLeast: '1/s' }, shared: true }, d: PACE } }, 'policy.invalid'],
  [{ limits: { c: { ...PACE, of: { limit: 'd', atLeast: '2/s', keys: 6 } }, d: PACE } }, 'policy.invalid'],
  [
    { limits: { c: { ...PACE, of: SHARE }, d: { ...PACE, of: { limit: 'e', atLeast: '1/s' } }, e: PACE } },
    'policy.invalid',
  ],
  [{ limits: { c: { ...PACE, of: SHARE }, d: PACE }, queues: { q: { limits: [{ limit: 'c' }] } } }, 'option.invalid'],
])('%j is refused when the server is made', async (limits, code) => {
  await expect(served(limits as ServedLimits)).rejects.toMatchObject({ code })
})

describe('a member that would be ignored in silence is refused in code and in the configuration of a server', () => {
  const limits = { c: PACE }
  const use = (more: object): object => ({ limits: [{ limit: 'c', ...more }] })
  test.each<[object, string]>([
    [{ limits, types: { work: { limit: [{ limit: 'c' }] } } }, 'did you mean limits?'],
    [{ limits, queues: { q: { limit: [{ limit: 'c' }] } } }, 'did you mean limits?'],
    [{ limits, types: { work: use({ wieght: 5 }) } }, 'did you mean weight?'],
    [{ limits, queues: { q: use({ wieght: 5 }) } }, 'did you mean weight?'],
    [{ limits, types: { work: use({ key: 'args.0.x' }) } }, 'did you mean by?'],
    [{ limits, queues: { q: use({ key: 'args.0.x' }) } }, 'did you mean by?'],
    [{ limits, types: { work: { limits: ['c'] } } }, 'Expected an object of limit, by, weight'],
    [{ limits, types: { work: { limits: { limit: 'c' } } } }, 'xpected'],
    [{ limits, types: { work: { limits: null } } }, 'xpected'],
    [{ limits, types: { work: 'c' } }, 'xpected'],
    [{ limits, types: 'work' }, 'xpected'],
    [{ limits, queues: [use({})] }, 'xpected'],
    [{ limits: ['c'] }, 'xpected'],
  ])('%j', async (given, words) => {
    const refused = { code: 'option.invalid', message: expect.stringContaining(words) as string }
    await expect(served(given as ServedLimits)).rejects.toMatchObject(refused)
    expect(() => readServeConfig(given)).toThrow(expect.objectContaining(refused))
  })

  test('and a reload with one leaves the limits as they were', async () => {
    const one = { limits: { c: { ...HOUR, max: 1 } } }
    const d = await served({ ...one, types: { work: { limits: [{ limit: 'c' }] } } })
    const change = { ...one, types: { work: { limit: [{ limit: 'c' }] } } } as ServedLimits
    const refused = d.app.reload({ tokens: [], limits: change, by: 'test' })
    await expect(refused).rejects.toMatchObject({ code: 'option.invalid' })
    for (let i = 0; i < 3; i++) await d.push()
    expect(await d.fetch({ count: 9 })).toHaveLength(1)
  })
})

test('a reload changes the limits of a queue for jobs of no tenant too, and lifts them', async () => {
  const limits = { one: { concurrency: 1 }, two: { concurrency: 2 } }
  const queues = (...names: string[]): object => ({
    limits,
    ...(names.length > 0 && { queues: { q: { limits: names.map((limit) => ({ limit })) } } }),
  })
  const d = await HttpHarness.open({ http: { limits: queues() } })
  for (let i = 0; i < 9; i++) await d.push()
  const reload = (change: object): Promise<void> => d.app.reload({ tokens: [], limits: change, by: 'test' })
  await reload(queues('one'))
  expect(await d.fetch({ count: 5 })).toHaveLength(1)
  await reload(queues('two'))
  expect(await d.fetch({ count: 5 })).toHaveLength(2)
  await reload(queues())
  expect(await d.fetch({ count: 9 })).toHaveLength(6)
})
