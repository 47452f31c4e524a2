// The bytes that the JavaScript SDK of the Open Job Spec sends, as they were recorded, and its reading of the answers.
import { describe, expect, test } from 'vitest'
import { HttpHarness, type Answer, type Json } from './http-harness.ts'

const MEDIA = 'application/openjobspec+json'

/** Every request has these headers, those without a body too. */
async function sdk(d: HttpHarness, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await d.app.fetch(
    new Request(`http://server${path}`, {
      method,
      headers: {
        'Content-Type': MEDIA,
        Accept: MEDIA,
        'OJS-Version': '1.0',
        'X-Request-ID': '7f8a3c1e-0000-4000-8000-000000000000',
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }),
  )
  expect(response.headers.get('content-type')).toBe(MEDIA)
  return { status: response.status, headers: response.headers, body: (await response.json()) as Json }
}

describe('the JavaScript SDK', () => {
  test('enqueue, getJob, cancelJob', async () => {
    const d = await HttpHarness.open()
    const { status, body } = await sdk(d, 'POST', '/ojs/v1/jobs', {
      type: 'email.send',
      args: [{ to: 'user@example.com' }],
      meta: { trace: 'abc' },
      options: {
        queue: 'email',
        priority: 5,
        timeout_ms: 30_000,
        delay_until: '2026-01-01T00:01:00.000Z',
        expires_at: '2026-01-02T00:00:00.000Z',
        tags: ['a'],
        visibility_timeout_ms: 60_000,
        retry: {
          max_attempts: 5,
          initial_interval: 'PT1S',
          backoff_coefficient: 2,
          max_interval: 'PT5M',
          jitter: true,
        },
        unique: { key: ['to'], period: 'PT1H', on_conflict: 'reject', states: ['available', 'active'] },
      },
    })
    expect(status).toBe(201)
    const job = body['job'] as Json
    expect(job).toMatchObject({
      type: 'email.send',
      state: 'scheduled',
      queue: 'email',
      args: [{ to: 'user@example.com' }],
      priority: 5,
      timeout: 30_000,
      scheduled_at: '2026-01-01T00:01:00.000Z',
      tags: ['a'],
    })
    const got = await sdk(d, 'GET', `/ojs/v1/jobs/${job['id'] as string}`)
    expect(got.body['job'].id).toBe(job['id'])
    const cancelled = await sdk(d, 'DELETE', `/ojs/v1/jobs/${job['id'] as string}`)
    expect(cancelled.body['job']).toMatchObject({ id: job['id'], state: 'cancelled' })
    const missing = await sdk(d, 'GET', '/ojs/v1/jobs/019539a4-0000-7000-8000-000000000000')
    expect(missing.status).toBe(404)
    expect(missing.body['error'].details).toEqual({
      resource_type: 'job',
      resource_id: '019539a4-0000-7000-8000-000000000000',
    })
  })

  test('a unique job that is there already: its id stands in the details of the error', async () => {
    const d = await HttpHarness.open()
    const job = { type: 'a', args: [{ to: 'x' }], options: { unique: { key: ['to'], on_conflict: 'reject' } } }
    const first = await sdk(d, 'POST', '/ojs/v1/jobs', job)
    const second = await sdk(d, 'POST', '/ojs/v1/jobs', job)
    expect(second.status).toBe(409)
    expect(second.body['error']).toMatchObject({
      code: 'duplicate',
      details: { existing_job_id: first.body['job'].id },
    })
  })

  test('enqueueBatch', async () => {
    const d = await HttpHarness.open()
    const jobs = [1, 2, 3].map((n) => ({ type: 'a', args: [{ n }], options: { queue: 'email' } }))
    const { status, body } = await sdk(d, 'POST', '/ojs/v1/jobs/batch', { jobs })
    expect(status).toBe(201)
    expect((body['jobs'] as Json[]).map((job) => job['args'][0].n as number)).toEqual([1, 2, 3])
  })

  test('a worker: fetch, heartbeat, progress, ack and nack without a worker_id', async () => {
    const d = await HttpHarness.open()
    for (const n of [1, 2]) await sdk(d, 'POST', '/ojs/v1/jobs', { type: 'a', args: [{ n }] })
    const fetch = { queues: ['default'], count: 10, worker_id: 'worker_abc', visibility_timeout_ms: 30_000 }
    const { body } = await sdk(d, 'POST', '/ojs/v1/workers/fetch', fetch)
    const [first, second] = body['jobs'] as [Json, Json]
    expect(first).toMatchObject({ state: 'active', attempt: 1 })
    const beat = await sdk(d, 'POST', '/ojs/v1/workers/heartbeat', {
      worker_id: 'worker_abc',
      state: 'running',
      active_jobs: 2,
      active_job_ids: [first['id'], second['id']],
      hostname: 'host',
      pid: 42,
      queues: ['default'],
      concurrency: 10,
      labels: [],
    })
    expect(beat.body).toMatchObject({ state: 'running', jobs_extended: [first['id'], second['id']] })
    const progress = { job_id: first['id'], percentage: 50, message: 'half' }
    expect((await sdk(d, 'POST', '/ojs/v1/workers/progress', progress)).status).toBe(200)
    expect((await sdk(d, 'GET', `/ojs/v1/jobs/${first['id'] as string}/progress`)).body).toMatchObject({
      progress: 0.5,
    })
    expect((await sdk(d, 'POST', '/ojs/v1/workers/ack', { job_id: first['id'], result: { ok: true } })).status).toBe(
      200,
    )
    const error = { code: 'handler_error', message: 'Boom', retryable: true, details: { stack: 'Error: Boom\n at x' } }
    expect((await sdk(d, 'POST', '/ojs/v1/workers/nack', { job_id: second['id'], error })).status).toBe(200)
    await d.clock.advance('10s')
    const again = (await sdk(d, 'POST', '/ojs/v1/workers/fetch', fetch)).body['jobs'] as Json[]
    expect(again).toMatchObject([{ id: second['id'], attempt: 2 }])
    // A type that it has no handler for.
    const unknown = { code: 'handler_not_found', message: 'No handler', retryable: false }
    const nack = await sdk(d, 'POST', '/ojs/v1/workers/nack', { job_id: second['id'], error: unknown })
    expect(nack.body['state']).toBe('discarded')
  })

  test('a heartbeat of 30 s leases keeps to 30 s: a worker that was killed is made up for half a minute later', async () => {
    const d = await HttpHarness.open()
    const id = (await sdk(d, 'POST', '/ojs/v1/jobs', { type: 'a', args: [] })).body['job'].id as string
    const fetch = { queues: ['default'], count: 1, worker_id: 'worker_abc', visibility_timeout_ms: 30_000 }
    await sdk(d, 'POST', '/ojs/v1/workers/fetch', fetch)
    await d.clock.advance('20s')
    const beat = { worker_id: 'worker_abc', state: 'running', active_jobs: 1, active_job_ids: [id] }
    await sdk(d, 'POST', '/ojs/v1/workers/heartbeat', beat)
    await d.clock.advance('29s')
    expect((await d.job(id))['state']).toBe('active')
    await d.clock.advance('2s')
    expect((await d.job(id))['state']).toBe('available')
  })

  test('queues: list, stats at the root, pause and resume with an empty body of JSON type', async () => {
    const d = await HttpHarness.open()
    await sdk(d, 'POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { queue: 'email' } })
    expect((await sdk(d, 'GET', '/ojs/v1/queues')).body['queues']).toMatchObject([{ name: 'email', status: 'active' }])
    const stats = await sdk(d, 'GET', '/ojs/v1/queues/email/stats')
    expect(stats.body).toMatchObject({
      name: 'email',
      available: 1,
      active: 0,
      scheduled: 0,
      retryable: 0,
      completed: 0,
      discarded: 0,
      paused: false,
    })
    expect((await sdk(d, 'POST', '/ojs/v1/queues/email/pause')).status).toBe(200)
    expect((await sdk(d, 'GET', '/ojs/v1/queues/email/stats')).body['paused']).toBe(true)
    expect((await sdk(d, 'POST', '/ojs/v1/queues/email/resume')).status).toBe(200)
  })

  test('the dead letter: list, retry with no body, discard', async () => {
    const d = await HttpHarness.open()
    const retry = { max_attempts: 1, on_exhaustion: 'dead_letter' }
    const id = (await sdk(d, 'POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { retry } })).body['job']
      .id as string
    const fail = async (): Promise<void> => {
      await sdk(d, 'POST', '/ojs/v1/workers/fetch', { queues: ['default'], count: 1 })
      await sdk(d, 'POST', '/ojs/v1/workers/nack', { job_id: id, error: { code: 'handler_error', message: 'x' } })
    }
    await fail()
    expect((await sdk(d, 'GET', '/ojs/v1/dead-letter')).body['jobs']).toMatchObject([{ id, state: 'discarded' }])
    expect((await sdk(d, 'POST', `/ojs/v1/dead-letter/${id}/retry`)).body['job']).toMatchObject({ state: 'available' })
    await fail()
    expect((await sdk(d, 'DELETE', `/ojs/v1/dead-letter/${id}`)).status).toBe(200)
    expect((await sdk(d, 'GET', `/ojs/v1/jobs/${id}`)).status).toBe(404)
  })

  test('cron: register, list, unregister', async () => {
    const d = await HttpHarness.open()
    const cron = {
      name: 'daily',
      cron: '0 9 * * *',
      type: 'report',
      args: [{ a: 1 }],
      timezone: 'UTC',
      meta: {},
      options: {},
    }
    const { status, body } = await sdk(d, 'POST', '/ojs/v1/cron', cron)
    expect(status).toBe(201)
    expect(body['cron_job']).toMatchObject({ name: 'daily', cron: '0 9 * * *', type: 'report', status: 'active' })
    const listed = await sdk(d, 'GET', '/ojs/v1/cron?page=1&per_page=25')
    expect(listed.body).toMatchObject({
      cron_jobs: [{ name: 'daily' }],
      pagination: { total: 1, page: 1, per_page: 25 },
    })
    expect((await sdk(d, 'DELETE', '/ojs/v1/cron/daily')).status).toBe(200)
  })

  test('health and manifest', async () => {
    const d = await HttpHarness.open()
    expect((await sdk(d, 'GET', '/ojs/v1/health')).body).toMatchObject({ status: 'ok', version: '1.0' })
    expect((await sdk(d, 'GET', '/ojs/manifest')).body).toMatchObject({ ojs_version: '1.0', backend: 'sqlite' })
  })
})
