import { describe, expect, test } from 'vitest'
import type { HttpOptions } from '../../src/exports/http.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { everyStore, type StoreKind } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'

/** An answer, as much of it as is looked at. */
interface Reply {
  readonly status: number
  readonly granted?: boolean
  readonly granted_at_us?: number
  readonly permit?: { readonly id: string } | null
  readonly id?: string
  readonly limits?: readonly unknown[]
  readonly key?: string | null
  readonly available?: number
  readonly answers?: readonly Reply[]
}

const LIMITS = {
  crm: { rate: 10, per: '1s', burst: 2 },
  slots: { concurrency: 1 },
  shared: { rate: 5, per: '1s', shared: true, by: 'tenant' },
  plain: { rate: 5, per: '1s', shared: true },
  paced: { every: '1s' },
} as const

const TOKENS = [
  { token: 'x'.repeat(32), scopes: ['worker', 'reader'], tenant: 'acme', queues: ['*'] },
  { token: 'y'.repeat(32), scopes: ['worker', 'reader'], tenant: 'birch', queues: ['*'] },
  { token: 'z'.repeat(32), scopes: ['producer'], tenant: '*', queues: ['*'] },
  { token: 'w'.repeat(32), scopes: ['worker'], tenant: '*', queues: ['mail'] },
  { token: 'v'.repeat(32), scopes: ['worker'], tenant: '*', queues: ['*'] },
] as const
const [ACME, BIRCH, PRODUCER, MAIL, ALL] = TOKENS.map(({ token }) => ({ Authorization: `Bearer ${token}` }))

const STORES = await everyStore('budgets over HTTP')
/** Where the budgets live: null for the memory of the server. */
const PLACES: readonly (readonly [string, StoreKind | null])[] = [
  ['memory', null],
  ...STORES.map((kind) => [kind.name, kind] as const),
]

async function openIn(kind: StoreKind | null, http: Partial<HttpOptions> = {}) {
  const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
  const budgets = new MemoryBackend(clock)
  const d = await HttpHarness.open({
    clock,
    ...(kind && { engine: { store: kind.create() } }),
    http: { ...(!kind && { budgets }), limits: { limits: LIMITS }, ...http },
  })
  const ask = async (verb: string, body: unknown, headers = {}): Promise<Reply> => {
    const answer = await d.send('POST', `/limiter/v1/${verb}`, body, { headers })
    return { ...answer.body, status: answer.status }
  }
  const acquire = async (uses: unknown, more = {}, headers = {}): Promise<Reply> => {
    const { answers, ...rest } = await ask('acquire', { requests: [{ uses }], ...more }, headers)
    return { ...rest, ...answers?.[0] }
  }
  return { d, clock, budgets, ask, acquire }
}

describe.each(PLACES)('/limiter/v1 on %s', (_place, kind) => {
  const open = (http: Partial<HttpOptions> = {}) => openIn(kind, http)

  test('grants units until they are gone, and names the bucket and the exact wait', async () => {
    const { acquire, clock } = await open()
    const uses = [{ limit: 'crm', key: 'a' }]
    expect(await acquire(uses)).toMatchObject({ status: 200, granted: true, permit: null })
    expect(await acquire(uses)).toMatchObject({ granted: true })
    expect(await acquire(uses)).toMatchObject({ granted: false, limit: 'crm', key: 'a', retry_after_ms: 100 })
    await clock.advance(100)
    expect(await acquire(uses)).toMatchObject({ granted: true })
    expect(await acquire([{ limit: 'crm', key: 7, weight: 2 }])).toMatchObject({ granted: true })
  })

  test('decides many requests in one call, each whole or not at all', async () => {
    const { ask } = await open()
    const both = { uses: [{ limit: 'crm', key: 'a' }, { limit: 'slots' }] }
    const { answers } = await ask('acquire', { requests: [both, both, { uses: [{ limit: 'crm', key: 'a' }] }] })
    expect(answers?.map(({ granted }) => granted)).toEqual([true, false, true])
    expect(answers?.[1]).toMatchObject({ limit: 'slots', key: null, retry_after_ms: null })
  })

  test('waits for one request, for as long as it says', async () => {
    const { acquire, clock } = await open()
    const uses = [{ limit: 'crm', weight: 2 }]
    await acquire(uses)
    const waiting = acquire(uses, { wait_ms: 1000 })
    const hopeless = await acquire(uses, { wait_ms: 100 })
    expect(hopeless).toMatchObject({ granted: false, retry_after_ms: 200 })
    await clock.advance(200)
    expect(await waiting).toMatchObject({ granted: true })
  })

  test('takes permits, extends and returns them; a lease that ended is told', async () => {
    const { acquire, ask, clock } = await open()
    const uses = [{ limit: 'slots' }]
    const { permit } = await acquire(uses, { lease_ms: 1000 })
    expect(permit).toMatchObject({ limits: [{ limit: 'slots', key: null }] })
    await clock.advance(900)
    expect(await ask('extend', { permits: [permit], lease_ms: 1000 })).toMatchObject({ ended: [] })
    await clock.advance(900)
    expect(await acquire(uses)).toMatchObject({ granted: false })
    expect(await ask('release', { permits: [permit] })).toMatchObject({ status: 200, cancelled: [] })
    expect(await acquire(uses)).toMatchObject({ granted: true })
    expect(await ask('extend', { permits: [permit] })).toMatchObject({ ended: [permit?.id] })
  })

  test('books the next start, confirms it, and gives one back', async () => {
    const { acquire, ask, clock } = await open()
    const uses = [{ limit: 'crm' }]
    await acquire([{ limit: 'crm', weight: 2 }])
    const first = await ask('reserve', { uses, at_most_ms: 1000 })
    const second = await ask('reserve', { uses, at_most_ms: 1000 })
    expect([first, second]).toMatchObject([
      { booked: true, start_after_ms: 100 },
      { booked: true, start_after_ms: 200 },
    ])
    expect(await ask('reserve', { uses, at_most_ms: 250 })).toMatchObject({ booked: false, retry_after_ms: 300 })
    expect(await ask('confirm', { id: first.id })).toMatchObject({ state: 'wait', start_after_ms: 100, limit: 'crm' })
    expect(await ask('release', { reservations: [second.id, 'none'] })).toMatchObject({ cancelled: [second.id] })
    await clock.advance(100)
    expect(await ask('confirm', { id: first.id })).toMatchObject({ state: 'go', permit: null })
    expect(await ask('confirm', { id: first.id })).toMatchObject({ state: 'gone' })
  })

  test('corrects costs and closes buckets, and shows what is left', async () => {
    const { d, acquire, ask, clock } = await open()
    const { granted_at_us: granted } = await acquire([{ limit: 'crm', weight: 2 }])
    expect(await ask('charge', { limit: 'crm', units: -1, granted_at_us: granted })).toMatchObject({ status: 200 })
    expect((await d.get('/limiter/v1/limits/crm')).body).toMatchObject({ limit: 'crm', key: null, available: 1 })
    expect(await ask('penalize', { limit: 'crm', for_ms: 5000 })).toMatchObject({ changed: true })
    expect(await ask('penalize', { limit: 'crm', for_ms: 5000 })).toMatchObject({ changed: false })
    expect((await d.get('/limiter/v1/limits/crm')).body).toMatchObject({ available: 0, closed_for_ms: 5000 })
    expect((await d.get('/limiter/v1/limits/crm?key=a')).body).toMatchObject({ key: 'a', available: 2 })
    expect((await d.get('/limiter/v1/limits')).body['limits']).toHaveLength(5)
    await clock.advance(5000)
    expect(await acquire([{ limit: 'crm' }])).toMatchObject({ granted: true })
  })

  test.each([
    ['an unknown limit', 'acquire', { requests: [{ uses: [{ limit: 'none' }] }] }, 404],
    ['an unknown limit of a charge', 'charge', { limit: 'none', units: 1 }, 404],
    ['an unknown limit of a penalty', 'penalize', { limit: 'none', for_ms: 1 }, 404],
    ['an unknown limit of a reservation', 'reserve', { uses: [{ limit: 'none' }], at_most_ms: 1 }, 404],
    ['a weight above the burst', 'acquire', { requests: [{ uses: [{ limit: 'crm', weight: 3 }] }] }, 422],
    ['a misspelt member', 'acquire', { requests: [{ uses: [{ limit: 'crm', kee: 'a' }] }] }, 400],
    [
      'a wait for several requests',
      'acquire',
      { requests: [1, 2].map(() => ({ uses: [{ limit: 'crm' }] })), wait_ms: 5 },
      400,
    ],
    ['a name with a slash', 'acquire', { requests: [{ uses: [{ limit: 'acme/crm' }] }] }, 404],
    ['units that return to no start', 'charge', { limit: 'crm', units: -1 }, 400],
    ['a charge of permits', 'charge', { limit: 'slots', units: 1 }, 422],
    ['a charge of spacing', 'charge', { limit: 'paced', units: 1 }, 422],
    ['units that return to spacing', 'charge', { limit: 'paced', units: -1, granted_at_us: 0 }, 422],
    ['a priority of 101', 'acquire', { requests: [{ uses: [{ limit: 'crm' }], priority: 101 }] }, 400],
    ['a key that is no number', 'acquire', { requests: [{ uses: [{ limit: 'crm', key: null }] }] }, 400],
  ])('refuses %s, and takes nothing', async (_, verb, body, status) => {
    const { d, ask } = await open()
    expect((await ask(verb, body)).status).toBe(status)
    expect((await d.get('/limiter/v1/limits/crm')).body['available']).toBe(2)
  })

  test('keeps a key over 1 KiB, NUL and half a surrogate pair by their hashes', async () => {
    const { acquire } = await open()
    for (const key of ['x'.repeat(5000), 'a\0b', '\uD800']) {
      const uses = [{ limit: 'crm', key, weight: 2 }]
      expect(await acquire(uses)).toMatchObject({ granted: true })
      expect((await acquire(uses)).key).toMatch(/^sha256:/)
    }
  })

  test('gives each tenant budgets of its own, and shared ones by their rules', async () => {
    const { acquire, ask, d } = await open({ tokens: TOKENS as unknown as HttpOptions['tokens'] & object })
    const slots = [{ limit: 'slots' }]
    const { permit } = await acquire(slots, {}, ACME)
    expect(permit).toMatchObject({ limits: [{ limit: 'slots', key: null }] })
    const other = await acquire(slots, {}, BIRCH)
    expect(other).toMatchObject({ granted: true })
    expect(await acquire(slots, {}, ACME)).toMatchObject({ granted: false })
    await ask('release', { permits: [permit] }, ACME)
    expect(await acquire(slots, {}, ACME)).toMatchObject({ granted: true })
    for (const headers of [ACME, BIRCH])
      expect(await acquire([{ limit: 'shared', weight: 5 }], {}, headers)).toMatchObject({ granted: true })
    expect((await acquire([{ limit: 'shared', key: 'birch' }], {}, ACME)).status).toBe(403)
    expect(await acquire([{ limit: 'plain', weight: 5 }], {}, ACME)).toMatchObject({ granted: true })
    expect(await acquire([{ limit: 'plain' }], {}, BIRCH)).toMatchObject({ granted: false, limit: 'plain' })
    const seen = await d.send('GET', '/limiter/v1/limits/shared', undefined, { headers: ACME ?? {} })
    expect(seen.body).toMatchObject({ limit: 'shared', key: 'acme' })
  })

  test('lets a tenant take units of a budget that all share, and return only those of its own key', async () => {
    const { acquire, ask } = await open({ tokens: TOKENS as unknown as HttpOptions['tokens'] & object })
    const back = (limit: string, at: number | undefined, headers = {}): Promise<Reply> =>
      ask('charge', { limit, units: -5, granted_at_us: at }, headers)
    const { granted_at_us: at } = await acquire([{ limit: 'plain', weight: 5 }], {}, ACME)
    expect((await back('plain', at, BIRCH)).status).toBe(403)
    expect((await back('plain', at, ACME)).status).toBe(403)
    expect(await acquire([{ limit: 'plain' }], {}, BIRCH)).toMatchObject({ granted: false })
    expect(await ask('charge', { limit: 'plain', units: 5 }, BIRCH)).toMatchObject({ status: 200 })
    expect(await acquire([{ limit: 'plain' }], {}, ACME)).toMatchObject({ retry_after_ms: 1200 })
    expect((await back('plain', at, ALL)).status).toBe(200)
    expect(await acquire([{ limit: 'plain' }], {}, ACME)).toMatchObject({ retry_after_ms: 200 })
    const own = await acquire([{ limit: 'shared', weight: 5 }], {}, ACME)
    expect((await back('shared', own.granted_at_us, ACME)).status).toBe(200)
    expect(await acquire([{ limit: 'shared' }], {}, ACME)).toMatchObject({ granted: true })
  })

  test('lets no tenant close a budget that all share for much longer than an hour by a charge', async () => {
    const { acquire, ask } = await open({ tokens: TOKENS as unknown as HttpOptions['tokens'] & object })
    const charge = (limit: string, units: number, headers = {}): Promise<Reply> =>
      ask('charge', { limit, units }, headers)
    expect((await charge('plain', 1_000_000_000, ACME)).status).toBe(422)
    expect(await acquire([{ limit: 'plain' }], {}, BIRCH)).toMatchObject({ granted: true })
    expect((await charge('plain', 18_000, ACME)).status).toBe(200)
    expect((await charge('plain', 18_000, ACME)).status).toBe(200)
    expect((await charge('plain', 1, ACME)).status).toBe(403)
    expect((await charge('plain', 1, ALL)).status).toBe(200)
    expect((await charge('shared', 100_000, ACME)).status).toBe(200)
  })

  test('returns and confirms no permit or reservation of another tenant', async () => {
    const pool = { concurrency: 1, shared: true } as const
    const { acquire, ask } = await openIn(kind, {
      tokens: TOKENS as unknown as HttpOptions['tokens'] & object,
      limits: { limits: { pool, plain: LIMITS.plain } },
    })
    const { permit } = await acquire([{ limit: 'pool' }], {}, ACME)
    const booked = await ask('reserve', { uses: [{ limit: 'plain' }], at_most_ms: 1000 }, ACME)
    const id = permit!.id
    for (const [headers, each] of [
      [BIRCH, id],
      [BIRCH, `acme/${id}`],
      [{}, id],
    ] as const) {
      const permits = [{ ...permit, id: each }]
      await ask('release', { permits }, headers)
      if (headers === BIRCH) expect(await ask('extend', { permits }, headers)).toMatchObject({ ended: [each] })
      expect(await acquire([{ limit: 'pool' }], {}, BIRCH)).toMatchObject({ granted: false })
    }
    for (const each of [booked.id!, `acme/${booked.id}`]) {
      expect(await ask('release', { reservations: [each] }, BIRCH)).toMatchObject({ cancelled: [] })
      expect(await ask('confirm', { id: each }, BIRCH)).toMatchObject({ state: 'gone' })
    }
    expect(await ask('extend', { permits: [permit] }, ACME)).toMatchObject({ ended: [] })
    expect(await ask('confirm', { id: booked.id }, ACME)).toMatchObject({ state: 'go' })
    await ask('release', { permits: [permit] }, ACME)
    expect(await acquire([{ limit: 'pool' }], {}, BIRCH)).toMatchObject({ granted: true })
  })

  test('takes from the common limit too, within a guaranteed share of it before all others', async () => {
    const outbound = { rate: 10, per: '1s', burst: 2, shared: true } as const
    const bulk = { rate: 10, per: '1s', of: { limit: 'outbound', atLeast: { every: '1s' }, keys: 1 } } as const
    const { acquire, clock } = await openIn(kind, { limits: { limits: { outbound, bulk } } })
    const asked = [{ limit: 'bulk' }]
    if (!kind) return expect((await acquire(asked)).status).toBe(422)
    const common = [{ limit: 'outbound' }]
    expect(await acquire(asked)).toMatchObject({ granted: true })
    // The last unit is kept for the starts within the guarantee.
    expect(await acquire(common)).toMatchObject({ granted: false })
    expect(await acquire(asked)).toMatchObject({ granted: false, limit: 'outbound' })
    await clock.advance('1s')
    expect(await acquire(common)).toMatchObject({ granted: true })
    expect(await acquire(common)).toMatchObject({ granted: false })
    expect(await acquire(asked)).toMatchObject({ granted: true })
  })

  test('needs a token of a worker that may use all queues', async () => {
    const { acquire } = await open({ tokens: TOKENS as unknown as HttpOptions['tokens'] & object })
    const uses = [{ limit: 'crm' }]
    expect((await acquire(uses)).status).toBe(401)
    expect((await acquire(uses, {}, PRODUCER)).status).toBe(403)
    expect((await acquire(uses, {}, MAIL)).status).toBe(403)
  })
})

describe('/limiter/v1', () => {
  test('answers 503 with Retry-After while its backend cannot be reached', async () => {
    const { d, budgets } = await openIn(null)
    budgets.acquire = () => Promise.reject(new Error('connection refused'))
    const body = { requests: [{ uses: [{ limit: 'crm' }] }] }
    const answer = await d.send('POST', '/limiter/v1/acquire', body)
    expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '1'])
  })

  test('answers 503 after 2 s where its backend stands still, and gives back what that grants later', async () => {
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const budgets = Object.assign(new MemoryBackend(clock), { isLocal: false })
    const { d, ask, acquire } = await openIn(null, { budgets })
    const slots = [{ limit: 'slots' }]
    const { permit } = await acquire(slots)
    expect(await ask('release', { permits: [permit] })).toMatchObject({ status: 200 })
    const decide = budgets.acquire.bind(budgets)
    const asked = Promise.withResolvers<void>()
    const goesOn = Promise.withResolvers<void>()
    budgets.acquire = async (requests) => {
      const answers = await decide(requests)
      asked.resolve()
      await goesOn.promise
      return answers
    }
    const first = acquire(slots)
    await asked.promise
    await d.clock.advance('2s')
    expect(await first).toMatchObject({ status: 503, error: { details: { reason: 'limiter.backend_down' } } })
    budgets.acquire = decide
    expect(await acquire(slots)).toMatchObject({ status: 200, granted: false })
    goesOn.resolve()
    await expect.poll(() => acquire(slots)).toMatchObject({ status: 200, granted: true })
  })
})
