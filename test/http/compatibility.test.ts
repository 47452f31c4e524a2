// Requests that a client may try beside those of the suites.
import { describe, expect, test } from 'vitest'
import { createManualClock } from '../../src/exports/testing.ts'
import { HttpHarness, type Json, storeFile } from './http-harness.ts'

const ADMIN = '/ojs/v1/admin'

describe('deeds on many jobs', () => {
  test.each(['retry', 'cancel', 'delete'])(
    'bulk %s refuses words that it does not know, which would have it done to all jobs',
    async (verb) => {
      const d = await HttpHarness.open()
      const id = await d.push()
      const path = `${ADMIN}/jobs/bulk/${verb}`
      for (const body of [{ filter: { job_type: 'other' } }, { job_ids: ['x'] }, { filter: { queues: ['q'] } }]) {
        const { status, body: answer } = await d.post(path, { ...body, confirm: true })
        expect([status, answer['error'].code]).toEqual([400, 'invalid_request'])
      }
      expect((await d.job(id))['state']).toBe('available')
      expect((await d.post(path, { filter: { queue: 'q' }, confirm: true })).status).toBe(200)
    },
  )
})

describe('a full queue', () => {
  const bounded = async (): Promise<HttpHarness> => {
    const d = await HttpHarness.open()
    await d.send('PUT', `${ADMIN}/queues/q/config`, { backpressure: { max_depth: 2, warning_threshold: 0.5 } })
    return d
  }
  const step = (queue: string): Json => ({ type: 'a', args: [], options: { queue } })

  test('takes no workflow whose first jobs do not fit, and nothing of it is stored', async () => {
    const d = await bounded()
    await d.push()
    const group = { type: 'group', jobs: [step('other'), step('q'), step('q')] }
    const { status, headers, body } = await d.post('/ojs/v1/workflows', group)
    expect(status).toBe(429)
    expect(body['error']).toMatchObject({
      code: 'QUEUE_FULL',
      retryable: true,
      details: { queue: 'q', depth: 1, bound: 2 },
    })
    expect([headers.get('retry-after'), headers.get('x-ojs-queue-depth')]).toEqual(['1', '1'])
    expect((await d.get(`${ADMIN}/stats`)).body['jobs']).toMatchObject({ available: 1, pending: 0 })
    expect((await d.post('/ojs/v1/workflows', { type: 'group', jobs: [step('q')] })).status).toBe(201)
  })

  test('takes the later steps of a workflow: what runs must be able to end', async () => {
    const d = await bounded()
    await d.post('/ojs/v1/workflows', { type: 'chain', steps: [step('other'), step('q')] })
    await d.push()
    await d.push()
    const [first] = await d.fetch({ queues: ['other'] })
    expect((await d.ack(first as string)).status).toBe(200)
    expect((await d.get('/ojs/v1/queues/q/stats')).body['stats']).toMatchObject({ depth: 3, max_depth: 2 })
  })

  test('keeps its bounds when something else of its configuration is set, and says so', async () => {
    const d = await bounded()
    const kept = { backpressure: { max_depth: 2, strategy: 'reject', warning_threshold: 0.5 } }
    expect((await d.send('PUT', `${ADMIN}/queues/q/config`, { x_color: 'red' })).body['config']).toEqual(kept)
    expect((await d.get(`${ADMIN}/queues/q`)).body['config']).toEqual(kept)
  })
})

describe('the stripes of a queue', () => {
  test('are set by its configuration, and shown there while they are several', async () => {
    const d = await HttpHarness.open()
    const at = `${ADMIN}/queues/q/config`
    expect((await d.send('PUT', at, { stripes: 4 })).body['config']).toEqual({ backpressure: null, stripes: 4 })
    expect((await d.get(`${ADMIN}/queues/q`)).body['config']).toEqual({ backpressure: null, stripes: 4 })
    expect((await d.send('PUT', at, { stripes: 1 })).body['config']).toEqual({ backpressure: null })
  })

  test.each([{ stripes: 0 }, { stripes: 65 }, { stripes: 2.5 }, { stripes: '4' }, { stripes: null }, { stripe: 4 }])(
    '%j is refused',
    async (body) => {
      const d = await HttpHarness.open()
      expect((await d.send('PUT', `${ADMIN}/queues/q/config`, body)).status).toBe(400)
    },
  )
})

describe('a worker', () => {
  test('may leave out what it has nothing to say of, or send null for it', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    const nothing = { worker_id: null, visibility_timeout_ms: null }
    expect(await d.fetch(nothing)).toEqual([id])
    expect((await d.post('/ojs/v1/workers/nack', { job_id: id, requeue: true })).body).toMatchObject({
      state: 'available',
    })
    await d.fetch(nothing)
    const error = { code: 'boom', message: null, type: null, retryable: null, details: null, retry_after: null }
    const nacked = await d.post('/ojs/v1/workers/nack', { job_id: id, worker_id: null, attempt: null, error })
    expect(nacked.body).toMatchObject({ state: 'retryable', attempt: 1 })
  })

  test('that says neither what failed nor to requeue is refused', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch()
    const { status, body } = await d.post('/ojs/v1/workers/nack', { job_id: id })
    expect([status, body['error'].code]).toEqual([400, 'invalid_request'])
    expect((await d.job(id))['state']).toBe('active')
  })

  test('learns that a retry without delay begins at once', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { backoff_strategy: 'none', jitter: false } })
    await d.fetch()
    expect((await d.nack(id)).body).toMatchObject({ state: 'available', retry_delay_ms: 0 })
  })
})

describe('a job', () => {
  test.each([
    ['scheduled', { scheduled_at: '+PT10S' }, undefined],
    ['pending', { pending: true }, undefined],
    ['available', {}, expect.any(String)],
  ])('that was cancelled while it was %s tells truly whether it ever was available', async (state, options, told) => {
    const d = await HttpHarness.open()
    const id = await d.push(options)
    expect((await d.job(id))['state']).toBe(state)
    const { body } = await d.send('DELETE', `/ojs/v1/jobs/${id}`)
    expect(body['job']['enqueued_at']).toEqual(told)
  })

  test('of the dead letter is read there, by clients and by admins; another is not there', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
    expect((await d.get(`/ojs/v1/dead-letter/${id}`)).status).toBe(404)
    await d.fetch()
    await d.nack(id)
    expect((await d.get(`/ojs/v1/dead-letter/${id}`)).body['job']).toMatchObject({ id, state: 'discarded' })
    expect((await d.get(`${ADMIN}/dead-letter/${id}`)).body).toMatchObject({ id, state: 'discarded' })
  })
})

describe('the dead letter', () => {
  test('is listed by queue and by type', async () => {
    const d = await HttpHarness.open()
    const dead = { retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } }
    const ids = [await d.push(dead), await d.push({ ...dead, queue: 'other' }), await d.push(dead, { type: 'b' })]
    for (const id of await d.fetch({ queues: ['q', 'other'], count: 3 })) await d.nack(id)
    for (const path of ['/ojs/v1/dead-letter', `${ADMIN}/dead-letter`]) {
      const listed = async (query: string): Promise<unknown[]> => {
        const { jobs, items, pagination } = (await d.get(path + query)).body
        expect(pagination.total).toBe((jobs ?? items).length)
        return ((jobs ?? items) as Json[]).map((job) => job['id'] as string)
      }
      expect(await listed('')).toEqual([...ids].reverse())
      expect(await listed('?queue=other')).toEqual([ids[1]])
      expect(await listed('?type=b')).toEqual([ids[2]])
      expect(await listed('?queue=none')).toEqual([])
    }
  })
})

describe('what is asked for and not done', () => {
  test('recurring work that is not to be at work is refused, not begun', async () => {
    const d = await HttpHarness.open()
    const cron = { name: 'c', expression: '* * * * *', enabled: false, job_template: { type: 'a', args: [] } }
    expect((await d.post('/ojs/v1/cron', cron)).status).toBe(422)
    expect((await d.get('/ojs/v1/cron')).body['crons']).toEqual([])
    expect((await d.post('/ojs/v1/cron', { ...cron, enabled: true })).status).toBe(201)
  })

  test('a callback that no batch knows is refused', async () => {
    const d = await HttpHarness.open()
    const job = { type: 'a', args: [] }
    const callbacks = { on_success: job, on_sucess: job }
    expect((await d.post('/ojs/v1/workflows', { type: 'batch', jobs: [job], callbacks })).status).toBe(400)
  })
})

describe('events', () => {
  test('go on behind a cursor of the server before this one, and do not look twice through what does not match', async () => {
    const store = storeFile()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const first = await HttpHarness.open({ engine: { store }, clock })
    for (let i = 0; i < 3; i++) await first.push()
    const { cursor } = (await first.get('/ojs/v1/events?queues=other')).body
    expect((await first.get(`/ojs/v1/events?after=${cursor}`)).body).toMatchObject({ events: [], cursor })
    await first.close()
    await clock.advance('1s')
    const second = await HttpHarness.open({ engine: { store }, clock })
    const id = await second.push()
    const { events, has_more: more } = (await second.get(`/ojs/v1/events?after=${cursor}`)).body
    expect(events).toMatchObject([{ data: { job_id: id } }])
    expect(more).toBe(false)
  })

  test('tell of a failure what the worker called it, and of an arrival that no attempt was made', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { max_attempts: 1 } })
    await d.fetch()
    await d.nack(id, { code: 'smtp.refused', message: 'no such box' })
    const { body } = await d.get('/ojs/v1/events')
    const [arrived, , failed, discarded] = body['events'] as Json[]
    expect(arrived).toMatchObject({ type: 'job.enqueued', data: { job_id: id, attempt: 0 } })
    const error = { code: 'smtp.refused', message: 'no such box' }
    expect(failed).toMatchObject({ type: 'job.failed', data: { attempt: 1, error, duration_ms: 0 } })
    expect(discarded).toMatchObject({ type: 'job.discarded', data: { error } })
  })
})
