// How much of a server one tenant, one token and one answer may take up.
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Token } from '../../src/exports/http.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { createStore } from '../../src/store/open.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Answer, type Json, type Sending } from './http-harness.ts'

const KINDS = await everyStore('bounds over HTTP')

const asTenant = (tenant: string): Sending => ({ headers: { 'X-OJS-Tenant': tenant } })
const refusal = ({ status, body }: Answer): unknown[] => [status, body['error']?.code, body['error']?.details?.resource]
const QUOTA = (kind: string): unknown[] => [422, 'x_quota_exceeded', kind]

describe.each(KINDS)('on $name, a tenant has at most so many', (kind) => {
  const open = (bounds: Json, clock?: HttpHarness['clock'], store = kind.create()): Promise<HttpHarness> =>
    HttpHarness.open({ engine: { store }, http: { bounds }, ...(clock && { clock }) })

  test('queues, on whichever way they come in; those that are there serve on, and nothing of a refusal is written', async () => {
    const d = await open({ queues: 2 })
    const a = asTenant('acme')
    await d.push({ queue: 'a' }, {}, a)
    await d.push({ queue: 'b' }, {}, a)
    const job = { type: 'work', args: [1] }
    const into = (queue: string): Json => ({ ...job, options: { queue } })
    const tries: [string, string, unknown][] = [
      ['POST', '/ojs/v1/jobs', into('c')],
      ['POST', '/ojs/v1/jobs/batch', { jobs: [into('a'), into('c')] }],
      ['POST', '/ojs/v1/workflows', { type: 'chain', name: 'w', steps: [into('a'), into('c')] }],
      ['POST', '/ojs/v1/cron', { name: 'n', cron: '@daily', ...into('c') }],
      ['POST', '/ojs/v1/workers/fetch', { queues: ['a', 'c'], worker_id: 'w' }],
      ['POST', '/ojs/v1/queues/c/pause', {}],
      ['PUT', '/ojs/v1/admin/queues/c/config', { backpressure: { max_depth: 5 } }],
      ['PUT', '/ojs/v1/admin/queues/c/rate-limit', { concurrency: 5 }],
    ]
    for (const [method, path, body] of tries)
      expect([path, ...refusal(await d.send(method, path, body, a))]).toEqual([path, ...QUOTA('queues')])
    const queues = (await d.get('/ojs/v1/queues', a)).body['queues'] as Json[]
    expect(queues.map((each) => each['name'])).toEqual(['a', 'b'])
    expect((await d.get('/ojs/v1/admin/jobs', a)).body['pagination'].total).toBe(2)
    expect((await d.get('/ojs/v1/rate-limits', a)).body['items']).toEqual([])
    await d.push({ queue: 'a' }, {}, a)
    await d.push({ queue: 'c' }, {}, asTenant('other'))
    await d.push({ queue: 'c' })
  })

  test('queues, though many are asked for at once', async () => {
    const d = await open({ queues: 5 })
    const job = { type: 'work', args: [1] }
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => d.post('/ojs/v1/jobs', { ...job, options: { queue: `q${i}` } })),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5)
    expect((await d.get('/ojs/v1/queues')).body['queues']).toHaveLength(5)
  })

  test('queues, and hundreds of first requests for one of them ask the store once, not one after the other', async () => {
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const store = await createStore(kind.create(), { clock, durability: 'process', retention: RETENTION })
    let asked = 0
    const names = store.names.bind(store)
    store.names = (kind, ...of) => (kind === 'queues' && asked++, names(kind, ...of))
    const d = await HttpHarness.open({ clock, engine: { store } })
    await Promise.all(Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? d.fetch() : d.push())))
    expect(asked).toBe(1)
  })

  test('queues, and a name that an earlier request has reserved passes without a look at the store', async () => {
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const store = await createStore(kind.create(), { clock, durability: 'process', retention: RETENTION })
    let asked = 0
    const names = store.names.bind(store)
    store.names = (...of) => (asked++, names(...of))
    const d = await HttpHarness.open({ clock, engine: { store }, http: { bounds: { queues: 1 } } })
    await d.push({ queue: 'a' })
    expect(asked).toBe(1)
    for (let n = 0; n < 5; n++) await d.push({ queue: 'a' })
    expect(asked).toBe(1)
  })

  test('queues, counted over all servers of a store', async () => {
    const store = kind.create()
    const d = await open({ queues: 2 }, undefined, store)
    await d.push({ queue: 'a' })
    await d.push({ queue: 'b' })
    const other = await open({ queues: 2 }, d.clock, store)
    const into = (queue: string): Json => ({ type: 'work', args: [1], options: { queue } })
    expect(refusal(await other.post('/ojs/v1/jobs', into('c')))).toEqual(QUOTA('queues'))
    expect((await other.post('/ojs/v1/jobs', into('b'))).status).toBe(201)
  })

  test('limits; one of a request that was refused takes up no place for long', async () => {
    const d = await open({ limits: 1 })
    await d.push({ queue: 'a' })
    const full = { backpressure: { max_depth: 1 } }
    expect((await d.send('PUT', '/ojs/v1/admin/queues/a/config', full)).status).toBe(200)
    const brings = { queue: 'a', rate_limit: { key: 'one', concurrency: 1 } }
    expect((await d.post('/ojs/v1/jobs', { type: 'work', args: [1], options: brings })).status).toBe(429)
    await d.clock.advance('31s')
    expect((await d.send('PUT', '/ojs/v1/rate-limits/two', { concurrency: 1 })).status).toBe(200)
  })

  test('limits, by a PUT, by a policy that a job brings and of a queue', async () => {
    const d = await open({ limits: 2 })
    const a = asTenant('acme')
    expect((await d.send('PUT', '/ojs/v1/rate-limits/one', { concurrency: 1 }, a)).status).toBe(200)
    await d.push({ rate_limit: { key: 'two', concurrency: 1 } }, {}, a)
    expect(refusal(await d.send('PUT', '/ojs/v1/rate-limits/three', { concurrency: 1 }, a))).toEqual(QUOTA('limits'))
    const brings = { type: 'work', args: [1], options: { queue: 'q', rate_limit: { key: 'three', concurrency: 1 } } }
    expect(refusal(await d.post('/ojs/v1/jobs', brings, a))).toEqual(QUOTA('limits'))
    expect(refusal(await d.send('PUT', '/ojs/v1/admin/queues/q/rate-limit', { concurrency: 1 }, a))).toEqual(
      QUOTA('limits'),
    )
    expect((await d.get('/ojs/v1/rate-limits', a)).body['pagination'].total).toBe(2)
    expect((await d.get('/ojs/v1/admin/jobs', a)).body['pagination'].total).toBe(1)
    expect((await d.send('PUT', '/ojs/v1/rate-limits/one', { concurrency: 5 }, a)).status).toBe(200)
    expect((await d.send('PUT', '/ojs/v1/rate-limits/three', { concurrency: 1 })).status).toBe(200)
  })

  test('schedules; a change of one and the place of one that was deleted are free', async () => {
    const d = await open({ schedules: 1 })
    const cron = (name: string): Json => ({ name, cron: '@daily', type: 'work', args: [], options: { queue: 'q' } })
    expect((await d.post('/ojs/v1/cron', cron('one'))).status).toBe(201)
    expect(refusal(await d.post('/ojs/v1/cron', cron('two')))).toEqual(QUOTA('schedules'))
    expect((await d.post('/ojs/v1/cron', { ...cron('one'), cron: '@hourly' })).status).toBe(201)
    expect((await d.send('DELETE', '/ojs/v1/cron/one')).status).toBe(200)
    expect((await d.post('/ojs/v1/cron', cron('two'))).status).toBe(201)
  })

  test('workers that are alive, at each call that brings one; one that is silent for a minute makes room, and may return', async () => {
    const d = await open({ workers: 2 })
    const a = asTenant('acme')
    const fetch = (worker_id?: string, by = a): Promise<Answer> =>
      d.post('/ojs/v1/workers/fetch', { queues: ['q'], ...(worker_id !== undefined && { worker_id }) }, by)
    const beat = (worker_id: string, by = a): Promise<Answer> =>
      d.post('/ojs/v1/workers/heartbeat', { worker_id, active_jobs: [] }, by)
    expect([(await fetch('one')).status, (await beat('two')).status]).toEqual([200, 200])
    for (const refused of [await fetch('three'), await beat('three'), await fetch()])
      expect(refusal(refused)).toEqual(QUOTA('workers'))
    expect((await beat('three')).body['error'].hint).toContain('bounds.workers')
    for (const by of [asTenant('other'), {}]) expect((await beat('three', by)).status).toBe(200)
    const { items } = (await d.get('/ojs/v1/admin/workers', a)).body
    expect((items as Json[]).map((each) => each['id'] as string)).toEqual(['one', 'two'])
    await d.clock.advance('40s')
    expect([(await beat('one')).status, (await beat('three')).status]).toEqual([200, 422])
    await d.clock.advance('30s')
    expect((await fetch('three')).status).toBe(200)
    expect([(await beat('one')).status, (await fetch('one')).status, (await fetch('four')).status]).toEqual([
      200, 200, 422,
    ])
    // It may hold jobs, whose leases it extends.
    expect((await beat('two')).status).toBe(200)
    for (const gone of ['one', 'two'])
      expect((await d.send('DELETE', `/ojs/v1/admin/workers/${gone}`, undefined, a)).status).toBe(200)
    expect([(await beat('four')).status, (await beat('five')).status]).toEqual([200, 422])
  })

  test('workers, and one that polls keeps its place for a minute after its poll has ended', async () => {
    const d = await open({ workers: 1 })
    const a = asTenant('acme')
    const fetch = (worker_id: string, wait?: string, sending: Sending = a): Promise<Answer> =>
      d.post('/ojs/v1/workers/fetch', { queues: ['q'], worker_id, ...(wait !== undefined && { wait }) }, sending)
    const others = async (): Promise<number> => (await fetch('other')).status
    for (const beats of [false, true]) {
      expect((await fetch('one')).status).toBe(200)
      await d.clock.advance('4s')
      const polling = fetch('one', '60s')
      await d.clock.advance('20s')
      if (beats) await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'one', active_jobs: [] }, a)
      await d.clock.advance('40s')
      expect([(await polling).status, await others()]).toEqual([200, 422])
      await d.clock.advance('55s')
      expect(await others()).toBe(422)
    }
    // One whose client has gone in the middle of its poll is silent from then on.
    const gone = new AbortController()
    const polling = fetch('one', '60s', { ...a, signal: gone.signal }).catch(() => null)
    await d.clock.advance('10s')
    gone.abort()
    await polling
    await d.clock.advance('55s')
    expect(await others()).toBe(422)
    await d.clock.advance('10s')
    expect(await others()).toBe(200)
  })

  test('workers, and one of whose polls a client goes lives on for its other polls', async () => {
    const d = await open({})
    const poll = (wait: string, signal?: AbortSignal): Promise<Answer | null> =>
      d.post('/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w', wait }, signal && { signal }).catch(() => null)
    const diesAt = async (): Promise<number> => {
      const { items } = (await d.get('/ojs/v1/admin/workers')).body
      const worker = (items as Json[]).find(({ id }) => id === 'w')
      return (Date.parse(worker?.['alive_until'] as string) - Date.UTC(2026, 0, 1)) / 1000
    }
    const [first, second] = [new AbortController(), new AbortController()]
    const polls = [poll('60s', first.signal), poll('40s', second.signal), poll('20s')]
    await d.clock.advance('10s')
    expect(await diesAt()).toBe(120)
    first.abort()
    await polls[0]
    expect(await diesAt()).toBe(100)
    await d.clock.advance('5s')
    second.abort()
    await polls[1]
    expect(await diesAt()).toBe(80)
    await d.clock.advance('5s')
    expect((await polls[2])?.status).toBe(200)
    expect(await diesAt()).toBe(80)
  })

  test('workers, and hundreds of heartbeats of one ask the store once', async () => {
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const store = await createStore(kind.create(), { clock, durability: 'process', retention: RETENTION })
    let asked = 0
    const names = store.names.bind(store)
    store.names = (...of) => (asked++, names(...of))
    const d = await HttpHarness.open({ clock, engine: { store } })
    const beat = (): Promise<Answer> => d.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: [] })
    await Promise.all(Array.from({ length: 100 }, beat))
    for (let n = 0; n < 5; n++) await d.clock.advance('5s').then(beat)
    expect(asked).toBe(1)
    const others = Array.from({ length: 100 }, (_, n) => ({ worker_id: `w${n}`, active_jobs: [] }))
    await Promise.all(others.map((body) => d.post('/ojs/v1/workers/heartbeat', body)))
    expect(asked).toBeLessThan(10)
  })

  test('workers, and a fetch that is refused for its worker or for waiting takes up no name', async () => {
    const d = await open({ workers: 1, queues: 2, polls: 1 })
    const a = asTenant('acme')
    const fetch = (worker_id: string, queues: string[], wait?: string): Promise<Answer> =>
      d.post('/ojs/v1/workers/fetch', { queues, worker_id, ...(wait !== undefined && { wait }) }, a)
    const waiting = fetch('one', ['q'], '5s')
    await expect.poll(async () => (await fetch('two', ['q', 'r'], '5s')).status).toBe(429)
    expect(refusal(await fetch('two', ['q', 'r']))).toEqual(QUOTA('workers'))
    await d.push({ queue: 'other' }, {}, a)
    await d.clock.advance('5s')
    expect((await waiting).status).toBe(200)
    expect((await d.send('DELETE', '/ojs/v1/admin/workers/one', undefined, a)).status).toBe(200)
    expect((await fetch('two', ['q'])).status).toBe(200)
  })

  test('bytes in a page of jobs; next_cursor goes on behind them', async () => {
    const d = await open({ answerBytes: 100_000 })
    const jobs = Array.from({ length: 60 }, (_, i) => ({
      type: 'work',
      args: [i, 'x'.repeat(i === 7 ? 300_000 : 10_000)],
      options: { queue: 'q' },
    }))
    expect((await d.post('/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
    for (const order of ['asc', 'desc']) {
      const seen: number[] = []
      const sizes: number[] = []
      let cursor: string | null = ''
      while (cursor !== null) {
        const at: string = cursor === '' ? '' : `&cursor=${cursor}`
        const { body } = await d.get(`/ojs/v1/admin/jobs?per_page=25&order=${order}${at}`)
        const items = body['items'] as Json[]
        expect(body['pagination'].total).toBe(60)
        sizes.push(items.length)
        seen.push(...items.map((item) => item['args'][0] as number))
        cursor = body['pagination'].next_cursor as string | null
      }
      const all = Array.from({ length: 60 }, (_, i) => i)
      expect(seen).toEqual(order === 'asc' ? all : all.toReversed())
      expect(Math.max(...sizes)).toBe(9)
    }
    expect((await d.get('/ojs/v1/admin/jobs?cursor=nonsense')).status).toBe(400)
    const bulk = await d.post('/ojs/v1/admin/jobs/bulk/cancel', { confirm: true, filter: { queue: 'q' } })
    expect(bulk.body).toMatchObject({ matched: 60, succeeded: 60, failed: 0 })
  })

  test('jobs in one fetch as fit into an answer; the others come with the next', async () => {
    const d = await open({ answerBytes: 100_000 })
    const jobs = Array.from({ length: 100 }, (_, i) => ({
      type: 'work',
      args: [i, 'x'.repeat(10_000)],
      options: { queue: 'q' },
    }))
    expect((await d.post('/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
    const sizes: number[] = []
    const seen = new Set<string>()
    while (seen.size < 100) {
      const ids = await d.fetch({ count: 1000 })
      sizes.push(ids.length)
      for (const id of ids) seen.add(id)
    }
    expect(sizes.slice(0, 3)).toEqual([32, 32, 32])
    await Promise.all(Array.from({ length: 300 }, () => d.push({ queue: 'small' })))
    expect(await d.fetch({ queues: ['small'], count: 300 })).toHaveLength(300)
  })
})

describe.each(KINDS)('on $name, an answer has at most so many bytes', (kind) => {
  const open = (answerBytes: number): Promise<HttpHarness> =>
    HttpHarness.open({ engine: { store: kind.create() }, http: { bounds: { answerBytes } } })
  const size = (body: Json): number => JSON.stringify(body).length

  test('a workflow leaves out results without room, says so, and each job shows its own', async () => {
    const d = await open(100_000)
    const jobs = Array.from({ length: 60 }, (_, n) => ({ type: 'work', args: [n], options: { queue: 'q' } }))
    const { body } = await d.post('/ojs/v1/workflows', { type: 'group', jobs })
    const id = body['id'] as string
    const results = new Map<string, string>()
    for (const job of await d.fetch({ count: 60 })) {
      results.set(job, `${results.size}`.padEnd(results.size === 3 ? 90_000 : 5_000, 'x'))
      expect((await d.ack(job, { result: results.get(job) })).status).toBe(200)
    }
    const { body: shown } = await d.get(`/ojs/v1/workflows/${id}`)
    expect(size(shown)).toBeLessThan(140_000)
    expect(shown['state']).toBe('completed')
    const steps = shown['jobs'] as Json[]
    expect(steps).toHaveLength(60)
    const left = steps.filter((step) => step['result_omitted'] === true)
    expect(left).toHaveLength(51)
    for (const step of steps)
      expect(step['result']).toBe(left.includes(step) ? undefined : results.get(step['job_id'] as string))
    const large = [...results].find(([, text]) => text.length === 90_000)!
    expect(left.map((step) => step['job_id'])).toContain(large[0])
    expect((await d.job(large[0]))['result']).toBe(large[1])
  })

  test('a workflow cuts the messages of failures without room', async () => {
    const d = await open(20_000)
    const options = { queue: 'q', retry: { max_attempts: 1 } }
    const jobs = Array.from({ length: 10 }, (_, n) => ({ type: 'work', args: [n], options }))
    const { body } = await d.post('/ojs/v1/workflows', { type: 'group', jobs })
    for (const job of await d.fetch({ count: 10 })) {
      const error = { code: 'broken', message: 'm'.repeat(4_000) }
      expect((await d.post('/ojs/v1/workers/nack', { job_id: job, error })).status).toBe(200)
    }
    const shown = (await d.get(`/ojs/v1/workflows/${body['id'] as string}`)).body
    const errors = shown['metadata'].errors as Json[]
    expect(errors.map((each) => (each['message'] as string).length)).toEqual([
      4_000,
      4_000,
      ...Array<number>(8).fill(200),
    ])
  })

  test('a page of schedules that is too large is refused with a smaller per_page, which goes through', async () => {
    const d = await open(50_000)
    const text = 'x'.repeat(5_000)
    for (const name of ['a', 'b', 'c', 'd']) {
      const args = [name === 'd' ? text.repeat(20) : text]
      expect((await d.post('/ojs/v1/cron', { name, cron: '@daily', type: 'work', args })).status).toBe(201)
    }
    const refused = await d.get('/ojs/v1/cron?per_page=4')
    expect([refused.status, refused.body['error'].message]).toEqual([422, expect.stringContaining('such as 2')])
    const names = async (query: string): Promise<string[]> =>
      ((await d.get(`/ojs/v1/cron?${query}`)).body['crons'] as Json[]).map((each) => each['name'] as string)
    expect(await names('per_page=2')).toEqual(['a', 'b'])
    expect(await names('per_page=1&page=4')).toEqual(['d'])
  })

  test('a list of events ends early, and its cursor goes on', async () => {
    const d = await open(2_000)
    for (let n = 0; n < 20; n++) await d.push()
    const seen: string[] = []
    for (let [after, more] = ['', true]; more;) {
      const { body } = await d.get(`/ojs/v1/events?types=job.enqueued&after=${after}`)
      const events = body['events'] as Json[]
      expect(events.length).toBeLessThan(10)
      seen.push(...events.map((event) => event['data'].job_id as string))
      after = body['cursor'] as string
      more = body['has_more'] as boolean
    }
    expect(new Set(seen).size).toBe(20)
    expect(seen).toHaveLength(20)
    const tiny = await open(1)
    await tiny.push()
    await tiny.push()
    expect((await tiny.get('/ojs/v1/events?types=job.enqueued')).body).toMatchObject({ has_more: true, events: [{}] })
  })
})

describe('a token holds open at most so many', () => {
  const tokens: Token[] = ['a', 'b'].map((name) => ({
    token: name.repeat(20),
    name,
    scopes: ['worker', 'reader'],
    tenant: '*',
  }))
  const as = (name: string): Record<string, string> => ({ Authorization: `Bearer ${name.repeat(20)}` })

  test('streams: one more is answered 429 with Retry-After; one that ended makes room', async () => {
    const d = await HttpHarness.open({ http: { tokens, bounds: { streams: 2 } } })
    const listen = (name: string, signal?: AbortSignal): Promise<Response> =>
      d.app.fetch(new Request('http://server/ojs/v1/events/stream', { headers: as(name), ...(signal && { signal }) }))
    const gone = new AbortController()
    expect((await listen('a', gone.signal)).status).toBe(200)
    const second = await listen('a')
    const third = await listen('a')
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '1'])
    expect(((await third.json()) as Json)['error']).toMatchObject({ code: 'rate_limited', retryable: true })
    const other = await listen('b')
    expect(other.status).toBe(200)
    gone.abort()
    const fourth = await listen('a')
    expect(fourth.status).toBe(200)
    expect((await listen('a')).status).toBe(429)
    await second.body?.cancel()
    const head = new Request('http://server/ojs/v1/events/stream', { method: 'HEAD', headers: as('a') })
    expect((await d.app.fetch(head)).status).toBe(200)
    const fifth = await listen('a')
    expect(fifth.status).toBe(200)
    for (const { body } of [other, fourth, fifth]) await body?.cancel()
  })

  test('long polls: one more is answered 429 with Retry-After; one that does not wait is none', async () => {
    const d = await HttpHarness.open({ http: { tokens, bounds: { polls: 2 } } })
    const over = new AbortController()
    onTestFinished(() => over.abort())
    const fetch = (wait?: string, name = 'a'): Promise<Answer> =>
      d.post(
        '/ojs/v1/workers/fetch',
        { queues: ['q'], worker_id: 'w', ...(wait !== undefined && { wait }) },
        { headers: as(name), signal: over.signal },
      )
    const waiting = [fetch('PT30S'), fetch('PT30S')]
    await d.clock.advance('1s')
    const third = await fetch('PT30S')
    expect([third.status, third.headers.get('retry-after'), third.body['error'].code]).toEqual([
      429,
      '1',
      'rate_limited',
    ])
    expect(third.body['error'].hint).toContain('bounds.polls')
    const drained = await d.post('/monitor/v1/queues/q/drain', {}, { headers: { ...as('a'), 'X-Sluice-Request': '1' } })
    expect(drained.status).toBe(429)
    expect((await fetch()).status).toBe(200)
    const others = fetch('PT1S', 'b')
    await d.clock.advance('30s')
    expect((await others).status).toBe(200)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200])
    const again = fetch('PT1S')
    await d.clock.advance('2s')
    expect((await again).status).toBe(200)
  })
})

test.each(KINDS)('on $name, a change of many jobs that a server takes over counts for its token', async (kind) => {
  const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
  const store = await createStore(kind.create(), { clock, durability: 'process', retention: RETENTION })
  const { promise: goOn, resolve: open } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  const changeJobs = store.changeJobs.bind(store)
  store.changeJobs = async (...of) => (begin(), await goOn, changeJobs(...of))
  const tokens: Token[] = ['a', 'b'].map((name) => ({ token: name.repeat(20), name, scopes: ['admin'], tenant: '*' }))
  const d = await HttpHarness.open({ clock, engine: { store }, http: { tokens, bounds: { bulks: 1 } } })
  const as = (name: string): Sending => ({ headers: { Authorization: `Bearer ${name.repeat(20)}` } })
  await d.push({}, {}, as('a'))
  const lost = {
    id: 'lost',
    action: 'cancel',
    filter: {},
    change: { kind: 'cancel' },
    match: {},
    state: 'running',
    total: 1,
    changed: 0,
    by: 'a',
    caller: '["a",null]',
    reason: null,
    tenant: null,
    createdMs: clock.now(),
    updatedMs: clock.now(),
    finishedMs: null,
    error: null,
    owner: 'gone',
  }
  await store.keepSetting('monitor.bulk.lost', JSON.stringify(lost))
  await d.clock.advance('45s')
  await begun
  const change = (by: string): Promise<Answer> =>
    d.post('/monitor/v1/bulk', { action: 'retry', filter: { queue: 'none' } }, as(by))
  expect(refusal(await change('a'))).toEqual([429, 'rate_limited', 'bulks'])
  expect((await change('b')).status).toBe(202)
  open()
  await expect.poll(async () => (await d.get('/monitor/v1/bulk/lost', as('a'))).body['state']).toBe('done')
  await expect.poll(async () => (await change('a')).status).toBe(202)
})

test('a token has at most so many changes of many jobs under way; one that ended makes room', async () => {
  const tokens: Token[] = ['a', 'b'].map((name) => ({
    token: name.repeat(20),
    name,
    scopes: ['operator', 'producer'],
    tenant: '*',
  }))
  const d = await HttpHarness.open({ http: { tokens, bounds: { bulks: 2 } } })
  const as = (name: string): Sending => ({
    headers: { Authorization: `Bearer ${name.repeat(20)}`, 'X-Sluice-Request': '1' },
  })
  for (let n = 0; n < 3; n++) {
    const jobs = Array.from({ length: 1000 }, () => ({ type: 'work', args: [n], options: { queue: 'q' } }))
    expect((await d.post('/ojs/v1/jobs/batch', { jobs }, as('a'))).status).toBe(201)
  }
  const change = { action: 'priority', priority: 5, filter: { queue: 'q' } }
  const priority = (more: Json = {}, by = 'a'): Promise<Answer> =>
    d.post('/monitor/v1/bulk', { ...change, ...more }, as(by))
  const cancel = (): Promise<Answer> => d.post('/ojs/v1/admin/jobs/bulk/cancel', { confirm: true }, as('a'))
  const purge = (): Promise<Answer> => d.send('DELETE', '/ojs/v1/admin/queues/q/jobs?confirm=true', undefined, as('a'))
  const begun = await Promise.all([priority(), cancel(), priority(), cancel(), purge(), priority()])
  const refused = begun.filter(({ status }) => status >= 300)
  expect(refused).toHaveLength(4)
  for (const each of refused) expect(refusal(each)).toEqual([429, 'rate_limited', 'bulks'])
  expect((await priority({}, 'b')).status).toBe(202)
  const running = async (): Promise<unknown> =>
    ((await d.get('/monitor/v1/bulk', as('a'))).body['bulks'] as Json[]).filter(({ state }) => state === 'running')
  await expect.poll(running).toEqual([])
  const later = [await priority(), await priority({ dryRun: true }), await cancel(), await purge()]
  expect(later.map(({ status }) => status)).toEqual([202, 200, 200, 200])
})

test.each([{ queues: 0 }, { streams: 1.5 }, { limits: '5' }, { quues: 5 }])('bounds %j are refused', async (bounds) => {
  await expect(HttpHarness.open({ http: { bounds: bounds as Json } })).rejects.toMatchObject({ code: 'option.invalid' })
})
