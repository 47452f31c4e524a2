// Members that clients of the Open Job Spec send beside those of the suites: aliases, headers, misspelt members.
import { describe, expect, test } from 'vitest'
import { HttpHarness, type Json } from './http-harness.ts'

const total = async (d: HttpHarness): Promise<number> =>
  (await d.get('/ojs/v1/admin/jobs')).body['pagination'].total as number

describe('a member that is not known below the top level', () => {
  test.each<[string, Json]>([
    ['options', { options: { rateLimit: { key: 'k', concurrency: 1 } } }],
    ['options.rate_limit', { options: { rate_limit: { key: 'k', concurrency: 1, on_limt: 'drop' } } }],
    ['options.rate_limit.rate', { options: { rate_limit: { key: 'k', rate: { limit: 1, per: 'PT1S' } } } }],
    ['options.rate_limit.throttle', { options: { rate_limit: { key: 'k', throttle: { limti: 1, period: 'PT1S' } } } }],
    ['options.rate_limit.x_limit', { options: { rate_limit: { x_limit: { name: 'k', wieght: 1 } } } }],
    ['rate_limit', { rate_limit: { key: 'k', concurrency: 1, on_limt: 'drop' } }],
    ['options.retry', { options: { retry: { maxAttempts: 2 } } }],
    ['options.unique', { options: { unique: { keyz: ['args'] } } }],
  ])('of %s is refused, and nothing is stored', async (path, more) => {
    const d = await HttpHarness.open()
    const job = { type: 'work', args: [1], ...more }
    for (const [to, body] of [
      ['/ojs/v1/jobs', job],
      ['/ojs/v1/jobs/batch', { jobs: [{ type: 'work', args: [] }, job] }],
      ['/ojs/v1/workflows', { type: 'group', jobs: [job] }],
      ['/ojs/v1/cron', { name: 'c', cron: '@daily', job_template: job }],
    ] as const) {
      const { status, body: answer } = await d.post(to, body)
      expect([to, status, answer['error']?.code]).toEqual([to, 400, 'invalid_request'])
      expect(answer['error'].details.issues[0].path).toContain(path)
    }
    expect(await total(d)).toBe(0)
    expect((await d.get('/ojs/v1/rate-limits')).body['items']).toEqual([])
  })

  test('but metadata and what begins with x_ is the sender’s own, and so is all at the top level', async () => {
    const d = await HttpHarness.open()
    const own = { x_own: 1, metadata: { any: 'thing' } }
    const id = await d.push(
      { ...own, rate_limit: { key: 'k', concurrency: 1, x_own: 1 }, retry: { max_attempts: 2, x_own: 1 } },
      { unknown: { at: 'top' } },
    )
    expect(await d.job(id)).toMatchObject({ unknown: { at: 'top' } })
  })

  test('of a rate limit that an admin defines is refused', async () => {
    const d = await HttpHarness.open()
    expect((await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 1, on_limt: 'drop' })).status).toBe(400)
    expect((await d.send('PUT', '/ojs/v1/admin/queues/q/rate-limit', { concurency: 1 })).status).toBe(400)
    expect((await d.get('/ojs/v1/rate-limits')).body['items']).toEqual([])
  })
})

describe('an option of a job beside its options', () => {
  const job = { type: 'work', args: [1] }

  test.each<[string, unknown]>([
    ['queue', 'mail'],
    ['priority', 9],
    ['scheduled_at', '2099-01-01T00:00:00Z'],
    ['delay', 'PT1H'],
    ['expires_at', 'PT1H'],
    ['retry', { max_attempts: 1 }],
    ['unique', { keys: ['args'] }],
    ['tags', ['a']],
    ['timeout', 30],
    ['timeout_ms', 30_000],
    ['pending', true],
  ])('is refused where it would be dropped, and nothing is stored: %s', async (name, value) => {
    const d = await HttpHarness.open()
    const expected = `options.${name === 'timeout' ? 'timeout_ms' : name}`
    const sent = { ...job, [name]: value }
    for (const [to, body] of [
      ['/ojs/v1/jobs', sent],
      ['/ojs/v1/jobs', { ...sent, options: { tags: ['b'] } }],
      ['/ojs/v1/jobs/batch', { jobs: [job, sent] }],
      ['/ojs/v1/workflows', { type: 'chain', steps: [sent] }],
      ['/ojs/v1/workflows', { type: 'batch', jobs: [job], callbacks: { on_success: sent } }],
      ['/ojs/v1/workflows', { steps: [{ ...sent, id: 'a' }] }],
      ['/ojs/v1/workflows', { type: 'chain', steps: [job], [name]: value }],
      ['/ojs/v1/workflows', { steps: [{ ...job, id: 'a' }], [name]: value }],
      ['/ojs/v1/cron', { name: 'c', cron: '@daily', job_template: sent }],
      ['/ojs/v1/cron', { name: 'c', cron: '@daily', job_template: job, [name]: value }],
      ['/ojs/v1/cron', { name: 'c', cron: '@daily', ...sent }],
    ] as const) {
      const { status, body: answer } = await d.post(to, body)
      expect([to, status, answer['error']?.code]).toEqual([to, 400, 'invalid_request'])
      expect(answer['error'].message).toContain(`Expected ${expected}.`)
    }
    expect(await total(d)).toBe(0)
    expect((await d.get('/ojs/v1/cron')).body['pagination'].total).toBe(0)
  })

  test('is refused in a nested workflow, which has no options of its own', async () => {
    const d = await HttpHarness.open()
    const inner = { type: 'group', jobs: [job] }
    for (const [name, value] of [
      ['queue', 'mail'],
      ['options', { queue: 'mail' }],
    ] as const) {
      const deep = { type: 'chain', steps: [job, { ...inner, [name]: value }] }
      for (const body of [deep, { type: 'chain', steps: [job, { type: 'chain', steps: [deep] }] }]) {
        const { status, body: answer } = await d.post('/ojs/v1/workflows', body)
        expect([name, status]).toEqual([name, 400])
        expect(answer['error'].message).toContain(`${name}: is not read in a nested workflow`)
      }
    }
    const taken = {
      type: 'chain',
      steps: [job, { ...inner, options: null }],
      queue: 'mail',
      options: { queue: 'mail' },
    }
    expect((await d.post('/ojs/v1/workflows', taken)).status).toBe(201)
    expect((await d.get('/ojs/v1/queues')).body['queues']).toMatchObject([{ name: 'mail' }])
  })

  test('is taken where the options, or the defaults, say the same, and null says nothing', async () => {
    const d = await HttpHarness.open()
    const options = { queue: 'mail', priority: 9, timeout_ms: 30_000, retry: { max_attempts: 1 }, tags: ['a'] }
    const { timeout_ms: timeout, ...beside } = options
    for (const body of [
      { ...job, ...beside, timeout, options },
      { ...job, queue: 'default', priority: 0, scheduled_at: null },
    ])
      expect((await d.post('/ojs/v1/jobs', body)).status).toBe(201)
    const cron = { name: 'c', cron: '@daily', job_template: { ...job, options: { queue: 'mail' } } }
    const { body } = await d.post('/ojs/v1/cron', cron)
    expect((await d.post('/ojs/v1/cron', body['cron'])).status).toBe(201)
  })

  test.each<[string, unknown]>([
    ['type', 'other'],
    ['args', [2]],
    ['meta', { a: 1 }],
    ['options', { tags: ['a'] }],
  ])('is refused beside the template of a schedule that says something else: %s', async (name, value) => {
    const d = await HttpHarness.open()
    const cron = { name: 'c', cron: '@daily', job_template: job }
    const { status, body } = await d.post('/ojs/v1/cron', { ...cron, [name]: value })
    expect([status, body['error'].message]).toEqual([400, expect.stringContaining(`Expected job_template.${name}.`)])
    const same = { ...cron, job_template: { ...job, [name]: value }, [name]: value }
    const kept = await d.post('/ojs/v1/cron', same)
    expect(kept.status).toBe(201)
    expect((await d.post('/ojs/v1/cron', kept.body['cron'])).status).toBe(201)
  })

  test('as a rate limit holds from the top of a job, but not of a schedule', async () => {
    const d = await HttpHarness.open()
    const limit = { rate_limit: { key: 'k', concurrency: 1 } }
    const statuses = [
      await d.post('/ojs/v1/jobs', { ...job, ...limit }),
      await d.post('/ojs/v1/jobs', { ...job, ...limit, options: { rate_limit: { key: 'k', concurrency: 2 } } }),
      await d.post('/ojs/v1/cron', { name: 'c', cron: '@daily', ...job, ...limit }),
    ].map(({ status }) => status)
    expect(statuses).toEqual([201, 400, 400])
  })
})

describe('unique.key', () => {
  const push = async (d: HttpHarness, unique: Json, more: Json = {}, queue = 'q'): Promise<[number, string]> => {
    const { status, body } = await d.post('/ojs/v1/jobs', {
      type: 'work',
      args: [{ to: 'a' }],
      ...more,
      options: { queue, unique: { on_conflict: 'ignore', ...unique } },
    })
    return [status, (body['job']?.id ?? body['error'].message) as string]
  }

  test('takes type, queue, args and meta as dimensions', async () => {
    const d = await HttpHarness.open()
    const unique = { key: ['type', 'queue', 'args'] }
    const [, first] = await push(d, unique)
    expect(await push(d, unique)).toEqual([200, first])
    expect((await push(d, unique, { args: [{ to: 'b' }] }))[0]).toBe(201)
    expect((await push(d, unique, {}, 'other'))[0]).toBe(201)
    const [, withMeta] = await push(d, { key: ['meta'] }, { meta: { tenant: 'x' } })
    expect(await push(d, { key: ['meta'] }, { meta: { tenant: 'x' }, args: [2] })).toEqual([200, withMeta])
    expect((await push(d, { key: ['meta'] }, { meta: { tenant: 'y' } }))[0]).toBe(201)
  })

  test('of a field tells jobs apart by that field alone', async () => {
    const d = await HttpHarness.open()
    const [, first] = await push(d, { key: ['to'] }, { args: [{ to: 'a', n: 1 }] })
    expect(await push(d, { key: 'to' }, { args: [{ to: 'a', n: 2 }] })).toEqual([200, first])
    expect((await push(d, { key: ['to'] }, { args: [{ to: 'b', n: 1 }] }))[0]).toBe(201)
  })

  test.each<[string, Json, Json]>([
    ['key', { key: ['from'] }, {}],
    ['key', { key: 'to' }, { args: ['a', 'b'] }],
    ['key', { key: ['to'] }, { args: [] }],
    ['key', { key: ['toString'] }, {}],
    ['args_keys', { keys: ['args'], args_keys: ['from'] }, {}],
    ['meta_keys', { keys: ['meta'], meta_keys: ['tenant'] }, {}],
  ])(
    'names a field by %s that is not there: refused, since all jobs of the type would be the same',
    async (name, unique, more) => {
      const d = await HttpHarness.open()
      const [status, message] = await push(d, unique, more)
      expect(status).toBe(400)
      expect(message).toContain(`unique.${name}`)
      expect(await total(d)).toBe(0)
    },
  )
})

describe('what SDKs call by other names', () => {
  test('retry.initial_interval_ms, max_interval_ms and unique.period_ms', async () => {
    const d = await HttpHarness.open()
    const retry = { max_attempts: 5, initial_interval_ms: 2000, max_interval_ms: 3000, jitter: false }
    const id = await d.push({ retry, unique: { keys: ['args'], period_ms: 60_000 } })
    await d.fetch()
    expect((await d.nack(id)).body['retry_delay_ms']).toBe(2000)
    await d.clock.advance('2s')
    await d.fetch()
    expect((await d.nack(id)).body['retry_delay_ms']).toBe(3000)
    const again = { type: 'work', args: [1], options: { queue: 'q', unique: { keys: ['args'], period_ms: 60_000 } } }
    expect((await d.post('/ojs/v1/jobs', again)).status).toBe(409)
    await d.clock.advance('60s')
    expect((await d.post('/ojs/v1/jobs', again)).status).toBe(201)
  })

  test.each(['PT1S', '+PT1S', 1000])('delay: %s', async (delay) => {
    const d = await HttpHarness.open()
    const id = await d.push({ delay })
    expect(await d.job(id)).toMatchObject({ state: 'scheduled', scheduled_at: '2026-01-01T00:00:01.000Z' })
    await d.clock.advance('1s')
    expect(await d.fetch()).toEqual([id])
  })

  test('a time from now without a plus', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ delay_until: 'PT1S' })
    expect(await d.job(id)).toMatchObject({ state: 'scheduled', scheduled_at: '2026-01-01T00:00:01.000Z' })
  })

  test.each(['1', '1.0', '1.0.0', '1.0.0-rc.1', '1.7', '1.2.3'])('OJS-Version: %s', async (version) => {
    const d = await HttpHarness.open()
    expect((await d.get('/ojs/v1/health', { headers: { 'OJS-Version': version } })).status).toBe(200)
  })

  test.each(['2.0', '0.9', '1x', '11.0', 'one'])(
    'OJS-Version: %s is refused in words that repeat it',
    async (version) => {
      const d = await HttpHarness.open()
      const { status, body } = await d.get('/ojs/v1/health', { headers: { 'OJS-Version': version } })
      expect([status, body['error'].code]).toEqual([422, 'unsupported'])
      expect(body['error'].message).toContain(JSON.stringify(version))
    },
  )

  test.each([{ cron: 'every day' }, { cron: '61 * * * *' }, { cron: '@daily', timezone: 'Mars/Phobos' }])(
    'a bad cron is 400: %j',
    async (grid) => {
      const d = await HttpHarness.open()
      const { status, body } = await d.post('/ojs/v1/cron', { name: 'c', ...grid, type: 'work', args: [] })
      expect([status, body['error'].code]).toEqual([400, 'invalid_request'])
    },
  )
})

test('a worker that keeps its own time says first that the run took too long: it has 800 ms', async () => {
  const d = await HttpHarness.open()
  const id = await d.push({ timeout_ms: 3000, retry: { max_attempts: 3, initial_interval: 'PT5S', jitter: false } })
  await d.fetch()
  await d.clock.advance('3799ms')
  expect((await d.job(id))['state']).toBe('active')
  expect((await d.nack(id, { code: 'timeout', message: 'own' })).status).toBe(200)
  expect(await d.job(id)).toMatchObject({ state: 'retryable', error: { code: 'timeout', message: 'own' } })
})
