import { describe, expect, test } from 'vitest'
import { limit, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const STORES = await everyStore('jobs over HTTP for handlers of the engine')

describe('what a job is', () => {
  test.each([[[]], [[1]], [[[1, 2]]], [[1, 'two', { three: [null] }]], [[null]]])(
    'the arguments %j come back as they were',
    async (args) => {
      const d = await HttpHarness.open()
      const id = await d.push({}, { args })
      expect((await d.job(id))['args']).toEqual(args)
    },
  )

  test('an engine’s task gets one argument as its input, and what an engine enqueues is a job like any other', async () => {
    const seen: unknown[] = []
    const own = task('own', { queue: 'own', run: (input: unknown) => void seen.push(input) })
    const far = task('far', { queue: 'q', run: () => undefined })
    const d = await HttpHarness.open({ engine: { tasks: [own, far], queues: { own: {} } } })
    await d.push({ queue: 'own' }, { type: 'own', args: [{ a: 1 }] })
    await d.push({ queue: 'own' }, { type: 'own', args: [1, 2] })
    await d.clock.advance('1ms')
    expect(seen).toEqual([{ a: 1 }, [1, 2]])
    const { id } = await far.enqueue()
    expect(await d.fetch()).toEqual([id])
    expect((await d.ack(id, { result: { done: true } })).status).toBe(200)
    expect(await d.job(id)).toMatchObject({ type: 'far', args: [], result: { done: true } })
  })

  test.each(STORES)('for handlers of the engine itself starts at once, on $name', async (kind) => {
    const seen: unknown[] = []
    const own = task('own', { queue: 'own', run: (input: unknown) => void seen.push(input) })
    const engine = { store: kind.create(), tasks: [own], queues: { own: {} } }
    const d = await HttpHarness.open({ engine })
    await d.clock.advance('1s')
    for (const arg of [1, 2]) {
      await d.push({ queue: 'own' }, { type: 'own', args: [arg] })
      await d.clock.advance('100ms')
    }
    expect(seen).toEqual([1, 2])
  })

  test('of a task that the engine knows has that task’s limits, by the path of its key', async () => {
    const crm = limit('crm', { rate: 1, per: '1m' })
    const sync = task('tenant.sync', { limits: [crm.by('tenantId')], run: () => undefined })
    const d = await HttpHarness.open({ engine: { tasks: [sync], limits: [crm] } })
    const push = (tenantId: string): Promise<string> => d.push({}, { type: 'tenant.sync', args: [{ tenantId }] })
    const [a, held, b] = [await push('a'), await push('a'), await push('b')]
    expect((await d.fetch({ count: 9 })).sort()).toEqual([a, b].sort())
    expect((await d.job(held))['state']).toBe('available')
  })

  test('pending waits to be activated, then goes at once or when it was scheduled for', async () => {
    const d = await HttpHarness.open()
    const at = await d.push({ pending: true })
    const later = await d.push({ pending: true, scheduled_at: '+PT10S' })
    expect(await d.job(at)).toMatchObject({ state: 'pending' })
    expect(await d.job(at)).not.toHaveProperty('enqueued_at')
    await d.clock.advance('1h')
    expect(await d.fetch()).toEqual([])
    expect((await d.post(`/ojs/v1/jobs/${at}/activate`, {})).body['job']).toMatchObject({
      state: 'available',
      activated_at: '2026-01-01T01:00:00.000Z',
    })
    expect((await d.post(`/ojs/v1/jobs/${at}/activate`, {})).status).toBe(409)
    await d.post(`/ojs/v1/jobs/${later}/activate`, {})
    expect((await d.fetch({ count: 9 })).sort()).toEqual([at, later].sort())
  })

  test('that is cancelled while it runs is cancelled at once; its permit returns, and its worker’s ack is refused', async () => {
    const d = await HttpHarness.open()
    const permits = { rate_limit: { key: 'k', concurrency: 1 } }
    const [first, second] = [await d.push(permits), await d.push(permits)]
    await d.fetch({ count: 9 })
    const { body } = await d.send('DELETE', `/ojs/v1/jobs/${first}`)
    expect(body['job']).toMatchObject({ state: 'cancelled' })
    expect((await d.ack(first)).status).toBe(409)
    expect(await d.fetch({ count: 9 })).toEqual([second])
  })

  test.each(STORES)('that is not kept is gone with its ack, and a second one finds none, on $name', async (kind) => {
    const d = await HttpHarness.open({ engine: { store: kind.create(), retention: { completed: 0 } } })
    const completed: string[] = []
    d.sluice.on('job.completed', ({ id: of }) => void completed.push(of))
    const permits = { rate_limit: { key: 'k', concurrency: 1 } }
    const [id, next] = [await d.push(permits), await d.push(permits)]
    expect(await d.fetch({ count: 9 })).toEqual([id])
    await d.clock.advance('2s')
    const acked = await d.ack(id, { result: { ok: true } })
    expect([acked.status, acked.body]).toMatchObject([
      200,
      { state: 'completed', completed_at: '2026-01-01T00:00:02.000Z' },
    ])
    expect(await d.fetch({ count: 9 })).toEqual([next])
    expect((await d.ack(id)).status).toBe(404)
    expect((await d.nack(id)).status).toBe(404)
    expect((await d.get(`/ojs/v1/jobs/${id}`)).status).toBe(404)
    expect((await d.send('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(404)
    expect(completed).toEqual([id])
  })

  test('that expired before it started has not completed', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ expires_at: '+PT2S' })
    await d.clock.advance('3s')
    const job = await d.job(id)
    expect(job).toMatchObject({ state: 'discarded', error: { code: 'x_expired' } })
    expect(job).not.toHaveProperty('completed_at')
  })
})

describe('unique jobs', () => {
  const push = (d: HttpHarness, unique: object, more: Json = {}): Promise<{ status: number; body: Json }> =>
    d.post('/ojs/v1/jobs', { type: 'work', args: [{ a: 1, b: 2 }], ...more, options: { queue: 'q', unique } })

  test('arguments are the same in whatever order they are written', async () => {
    const d = await HttpHarness.open()
    const first = await push(d, { keys: ['type', 'args'] })
    const { status, body } = await push(d, { keys: ['type', 'args'] }, { args: [{ b: 2, a: 1 }] })
    expect(status).toBe(409)
    expect(body['error']).toMatchObject({ code: 'duplicate', details: { existing_job_id: first.body['job'].id } })
  })

  test.each([
    [{ args_keys: ['a'] }, { args: [{ a: 1, b: 3 }] }, 409],
    [{ args_keys: ['a'] }, { args: [{ a: 2, b: 2 }] }, 201],
    [{ key: ['b'] }, { args: [{ a: 9, b: 2 }] }, 409],
    [{ keys: ['type'] }, { args: [] }, 409],
    [{ keys: ['type', 'args', 'meta'] }, { meta: { x: 1 } }, 201],
  ])('%j with %j is answered %d', async (unique, more, status) => {
    const d = await HttpHarness.open()
    await push(d, unique)
    expect((await push(d, unique, more)).status).toBe(status)
  })

  test('a batch of which one is a duplicate stores none', async () => {
    const d = await HttpHarness.open()
    await push(d, { keys: ['type'] })
    const jobs = [
      { type: 'free', args: [], options: { queue: 'q' } },
      { type: 'work', args: [], options: { queue: 'q', unique: { keys: ['type'] } } },
    ]
    expect((await d.post('/ojs/v1/jobs/batch', { jobs })).status).toBe(409)
    expect(await d.fetch({ count: 9 })).toHaveLength(1)
  })

  test('replace_except_schedule keeps the time and takes the new arguments', async () => {
    const d = await HttpHarness.open()
    const unique = { keys: ['type'], on_conflict: 'replace_except_schedule' }
    const id = await d.push({ unique, scheduled_at: '+PT1H' })
    expect(await d.push({ unique }, { args: ['new'] })).toBe(id)
    await d.clock.advance('59m')
    expect(await d.fetch()).toEqual([])
    await d.clock.advance('1m')
    expect(await d.fetch()).toEqual([id])
    expect((await d.job(id))['args']).toEqual(['new'])
  })
})

describe('bounded queues', () => {
  test('refuse what is beyond the bound, a batch as a whole, and warn before', async () => {
    const d = await HttpHarness.open()
    const config = { backpressure: { max_depth: 4, strategy: 'reject', warning_threshold: 0.5 } }
    await d.send('PUT', '/ojs/v1/admin/queues/q/config', config)
    await d.push({ scheduled_at: '+PT1H' })
    const job = { type: 'work', args: [], options: { queue: 'q' } }
    const second = await d.post('/ojs/v1/jobs', job)
    expect(second.headers.get('x-ojs-queue-pressure')).toBe('0.50')
    const batch = await d.post('/ojs/v1/jobs/batch', { jobs: [job, job, job] })
    expect(batch.status).toBe(429)
    expect(batch.headers.get('retry-after')).toBe('1')
    expect(batch.body['error']).toMatchObject({ code: 'QUEUE_FULL', retryable: true })
    expect((await d.post('/ojs/v1/jobs/batch', { jobs: [job, job] })).status).toBe(201)
    // A running job has left the queue.
    await d.fetch()
    expect((await d.post('/ojs/v1/jobs', job)).status).toBe(201)
    expect((await d.post('/ojs/v1/jobs', job)).status).toBe(429)
  })
})

describe('an admin', () => {
  test('lists, retries, cancels and deletes many jobs at once, if that is confirmed', async () => {
    const d = await HttpHarness.open()
    for (let i = 0; i < 3; i++) {
      const id = await d.push({ retry: { max_attempts: 1 } })
      await d.fetch()
      await d.nack(id)
    }
    const list = async (state: string): Promise<number> =>
      (await d.get(`/ojs/v1/admin/jobs?state=${state}`)).body['pagination'].total as number
    const bulk = (verb: string, filter: object, confirm = true): Promise<{ status: number; body: Json }> =>
      d.post(`/ojs/v1/admin/jobs/bulk/${verb}`, { filter, confirm })
    expect((await bulk('retry', {}, false)).status).toBe(400)
    expect(await list('discarded')).toBe(3)
    expect((await bulk('retry', { queue: 'q' })).body).toEqual({ matched: 3, succeeded: 3, failed: 0 })
    expect(await list('available')).toBe(3)
    expect((await bulk('cancel', { type: 'work' })).body).toMatchObject({ succeeded: 3 })
    expect((await bulk('delete', { state: 'cancelled' })).body).toMatchObject({ succeeded: 3 })
    expect(await list('cancelled')).toBe(0)
  })

  test('empties a queue of what has not started', async () => {
    const d = await HttpHarness.open()
    const running = await d.push()
    await d.fetch()
    await d.push()
    await d.push({ scheduled_at: '+PT1H' })
    expect((await d.send('DELETE', '/ojs/v1/admin/queues/q/jobs')).status).toBe(400)
    expect((await d.send('DELETE', '/ojs/v1/admin/queues/q/jobs?confirm=true')).body).toMatchObject({ deleted: 2 })
    expect((await d.job(running))['state']).toBe('active')
  })

  test('sees workers by what they last said', async () => {
    const d = await HttpHarness.open()
    await d.push()
    await d.fetch({ worker_id: 'a' })
    await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'a', active_jobs: 1, hostname: 'h1', pid: 7 })
    const { body } = await d.get('/ojs/v1/admin/workers')
    const seen = (body['items'] as Json[]).find((worker) => worker['id'] === 'a')
    expect(seen).toMatchObject({ state: 'running', queues: ['q'], active_jobs: 1, hostname: 'h1', pid: 7 })
    await d.clock.advance('2m')
    const stale = (await d.get('/ojs/v1/admin/workers')).body['items'] as Json[]
    expect(stale.find((worker) => worker['id'] === 'a')).toMatchObject({ state: 'stale' })
  })
})
