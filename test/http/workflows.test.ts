import { describe, expect, test } from 'vitest'
import { type Answer, HttpHarness, type Json } from './http-harness.ts'

const step = (type: string, options: Json = {}): Json => ({ type, args: [type], options: { queue: 'q', ...options } })

async function started(d: HttpHarness, body: Json): Promise<string> {
  const { status, body: answer } = await d.post('/ojs/v1/workflows', body)
  expect(status).toBe(201)
  return answer['workflow']['id'] as string
}

async function taken(d: HttpHarness): Promise<Json[]> {
  const { body } = await d.post('/ojs/v1/workers/fetch', { queues: ['q'], count: 10, worker_id: 'w' })
  return body['jobs'] as Json[]
}

async function workflow(d: HttpHarness, id: string): Promise<Json> {
  return (await d.get(`/ojs/v1/workflows/${id}`)).body['workflow'] as Json
}

const types = (jobs: readonly Json[]): string[] => jobs.map((job) => job['type'] as string)

describe('a chain', () => {
  test('hands out one step after the other, each with the results of all before it', async () => {
    const d = await HttpHarness.open()
    const answer = await d.post('/ojs/v1/workflows', {
      type: 'chain',
      name: 'order',
      steps: ['a', 'b', 'c'].map((type) => step(type)),
    })
    expect(answer.body).toMatchObject({
      type: 'chain',
      name: 'order',
      state: 'running',
      steps_total: 3,
      steps_completed: 0,
      metadata: { job_count: 3, completed_count: 0, failed_count: 0, created_at: '2026-01-01T00:00:00.000Z' },
      steps: [{ state: 'pending' }, { state: 'waiting' }, { state: 'waiting' }],
    })
    expect(answer.body['workflow']).toMatchObject({ id: answer.body['id'], state: 'running' })
    const id = answer.body['id'] as string
    expect(answer.headers.get('location')).toBe(`/ojs/v1/workflows/${id}`)
    const handed: unknown[] = []
    for (const result of [{ x: 1 }, [2], null]) {
      const [job, ...others] = await taken(d)
      expect(others).toEqual([])
      expect(job).toMatchObject({ workflow_id: id })
      handed.push(job?.['parent_results'])
      await d.ack(job?.['id'] as string, { result })
    }
    expect(handed).toEqual([[], [{ x: 1 }], [{ x: 1 }, [2]]])
    expect(await workflow(d, id)).toMatchObject({
      state: 'completed',
      steps_completed: 3,
      steps: [{ state: 'completed', result: { x: 1 } }, {}, {}],
    })
  })

  test('stops at a step that is given up, and tells which and why', async () => {
    const d = await HttpHarness.open()
    const id = await started(d, {
      type: 'chain',
      steps: [step('a'), step('b', { retry: { max_attempts: 1 } }), step('c')],
    })
    const [a] = await taken(d)
    await d.ack(a?.['id'] as string)
    const [b] = await taken(d)
    await d.nack(b?.['id'] as string)
    expect(await taken(d)).toEqual([])
    expect(await workflow(d, id)).toMatchObject({
      state: 'failed',
      steps: [{ state: 'completed' }, { state: 'failed' }, { state: 'cancelled' }],
      metadata: {
        completed_count: 1,
        failed_count: 1,
        failed_step_index: 1,
        failed_job_ids: [b?.['id']],
        errors: [{ job_id: b?.['id'], code: 'handler_error', message: 'no', attempt: 1 }],
      },
    })
  })

  test('a step that runs out of time, or whose worker is lost, on its last attempt stops it too', async () => {
    const d = await HttpHarness.open()
    const once = { retry: { max_attempts: 1 } }
    const late = await started(d, { type: 'chain', steps: [step('a', { timeout_ms: 1000, ...once }), step('b')] })
    const lost = await started(d, {
      type: 'chain',
      steps: [step('c', { visibility_timeout_ms: 2000, ...once }), step('d')],
    })
    expect(types(await taken(d))).toEqual(['a', 'c'])
    await d.clock.advance('10s')
    expect([(await workflow(d, late))['state'], (await workflow(d, lost))['state']]).toEqual(['failed', 'failed'])
  })

  test('each step waits for its own limit', async () => {
    const d = await HttpHarness.open()
    const limited = { rate_limit: { key: 'api', throttle: { limit: 1, period: 'PT10S' } } }
    await started(d, { type: 'chain', steps: [step('a'), step('b', limited)] })
    await started(d, { type: 'chain', steps: [step('c'), step('d', limited)] })
    for (const job of await taken(d)) await d.ack(job['id'] as string)
    expect(types(await taken(d))).toEqual(['b'])
    expect(await taken(d)).toEqual([])
    await d.clock.advance('10s')
    expect(types(await taken(d))).toEqual(['d'])
  })

  test('a later step cannot be activated, nor the result of an earlier one be deleted', async () => {
    const d = await HttpHarness.open()
    const id = await started(d, { type: 'chain', steps: [step('a'), step('b')] })
    const [a, b] = (await workflow(d, id))['steps'] as Json[]
    expect((await d.post(`/ojs/v1/jobs/${b?.['job_id']}/activate`, {})).status).toBe(409)
    await taken(d)
    await d.ack(a?.['job_id'] as string, { result: 7 })
    await d.post('/ojs/v1/admin/jobs/bulk/delete', { filter: { state: 'completed' }, confirm: true })
    expect((await taken(d))[0]).toMatchObject({ type: 'b', parent_results: [7] })
  })

  test('fetches that wait are answered when the next step comes', async () => {
    const d = await HttpHarness.open()
    const steps = ['a', 'b', 'c'].map((type) => step(type))
    const starts = d.work(['q'])
    const id = await started(d, { type: 'chain', steps })
    await d.clock.advance('1s')
    expect(starts.map(({ arg, at }) => [arg, at])).toEqual([
      ['a', 0],
      ['b', 0],
      ['c', 0],
    ])
    expect((await workflow(d, id))['state']).toBe('completed')
  })
})

describe('a batch', () => {
  const callbacks = { on_success: step('yes'), on_failure: step('no'), on_complete: step('done') }

  test('calls back with the results of all jobs', async () => {
    const d = await HttpHarness.open()
    const id = await started(d, {
      type: 'batch',
      jobs: [step('a'), step('b', { retry: { max_attempts: 1 } })],
      callbacks,
    })
    const [a, b] = await taken(d)
    await d.ack(a?.['id'] as string, { result: 1 })
    await d.nack(b?.['id'] as string)
    const called = await taken(d)
    expect(called.map((job) => [job['type'], job['parent_results'], job['workflow_id']])).toEqual([
      ['no', [1, null], id],
      ['done', [1, null], id],
    ])
    expect(await workflow(d, id)).toMatchObject({ state: 'failed', jobs_total: 2, jobs_completed: 1 })
  })

  test('that is cancelled hands out nothing more, and what is active may end', async () => {
    const d = await HttpHarness.open()
    const id = await started(d, { type: 'batch', jobs: [step('a'), step('b')], callbacks })
    const { body } = await d.post('/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w' })
    const first = await d.send('DELETE', `/ojs/v1/workflows/${id}`)
    expect([first.status, first.body['workflow']['state']]).toEqual([200, 'cancelled'])
    const again = await d.send('DELETE', `/ojs/v1/workflows/${id}`)
    expect([again.status, again.body['error']['code']]).toEqual([409, 'conflict'])
    expect((await d.ack(body['jobs'][0]['id'] as string)).status).toBe(200)
    expect(await taken(d)).toEqual([])
    expect(await workflow(d, id)).toMatchObject({ state: 'cancelled', jobs_completed: 1 })
  })
})

describe('what is refused starts nothing', () => {
  const fine = step('a')
  const refused: readonly [string, Json, number][] = [
    ['no type', { jobs: [fine] }, 400],
    ['an unknown type', { type: 'tree', jobs: [fine] }, 400],
    ['a chain without steps', { type: 'chain', steps: [] }, 400],
    ['a chain with jobs', { type: 'chain', jobs: [fine] }, 400],
    ['a chain of too many steps', { type: 'chain', steps: Array.from({ length: 1001 }, () => fine) }, 400],
    ['a batch without callbacks', { type: 'batch', jobs: [fine] }, 400],
    ['a batch with no callback', { type: 'batch', jobs: [fine], callbacks: {} }, 400],
    ['a job without args', { type: 'group', jobs: [{ type: 'a' }] }, 400],
    ['a batch as a step', { type: 'chain', steps: [{ type: 'batch', jobs: [fine], callbacks: {} }] }, 422],
    ['a job with an id', { type: 'group', jobs: [{ ...fine, id: '01890000-0000-7000-8000-000000000000' }] }, 422],
    ['a unique job', { type: 'group', jobs: [step('a', { unique: { keys: ['type'] } })] }, 422],
  ]

  test.each(refused)('%s', async (_, body, status) => {
    const d = await HttpHarness.open()
    expect((await d.post('/ojs/v1/workflows', body)).status).toBe(status)
    expect(await d.sluice.flows.list()).toEqual([])
    expect(await d.sluice.jobs.list()).toEqual([])
  })

  test('a workflow that is not there, or is another tenant’s', async () => {
    const d = await HttpHarness.open()
    const missing = await d.get('/ojs/v1/workflows/01890000-0000-7000-8000-000000000000')
    expect([missing.status, missing.body['error']['details']['resource_type']]).toEqual([404, 'workflow'])
    const headers = { 'X-OJS-Tenant': 'acme' }
    const { body } = await d.post('/ojs/v1/workflows', { type: 'group', jobs: [fine] }, { headers })
    const path = `/ojs/v1/workflows/${body['id']}`
    const status = async (of: Promise<Answer>): Promise<number> => (await of).status
    expect(await status(d.get(path, { headers: { 'X-OJS-Tenant': 'birch' } }))).toBe(404)
    expect(await status(d.send('DELETE', path, undefined, { headers: { 'X-OJS-Tenant': 'birch' } }))).toBe(404)
    expect(await status(d.get(path, { headers }))).toBe(200)
  })
})
