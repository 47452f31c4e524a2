import { remoteOf } from '../../src/remote/remote.ts'
import { describe, expect, test } from 'vitest'
import { limit, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { createStore } from '../../src/store/open.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json, storeFile } from './http-harness.ts'

const KINDS = await everyStore('timeouts over several servers')

describe('who may settle a run', () => {
  test('a bare ack counts while the job is active, one that names another worker or attempt does not', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch({ worker_id: 'a' })
    expect((await d.ack(id, { worker_id: 'b' })).status).toBe(409)
    expect((await d.ack(id, { worker_id: 'a', attempt: 2 })).status).toBe(409)
    expect((await d.job(id))['state']).toBe('active')
    expect((await d.ack(id)).body).toMatchObject({ acknowledged: true, state: 'completed' })
    expect((await d.ack(id)).body['error']).toMatchObject({ code: 'conflict', details: { current_state: 'completed' } })
  })

  test('after its lease the job is another’s: the late ack of the first is refused, and the second’s counts', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch({ worker_id: 'a', visibility_timeout_ms: 1000 })
    await d.clock.advance('1001ms')
    expect(await d.job(id)).toMatchObject({ state: 'available', attempt: 1 })
    expect(await d.fetch({ worker_id: 'b' })).toEqual([id])
    expect((await d.ack(id, { worker_id: 'a', result: 1 })).status).toBe(409)
    expect((await d.ack(id, { worker_id: 'b', result: 2 })).status).toBe(200)
    expect(await d.job(id)).toMatchObject({ result: 2, errors: [{ code: 'visibility_timeout', attempt: 1 }] })
  })

  test('what an engine of this process runs is not settled from outside', async () => {
    let end = (): void => undefined
    const running = new Promise<void>((resolve) => {
      end = resolve
    })
    const work = task('work', { queue: 'own', run: () => running })
    const d = await HttpHarness.open({ engine: { tasks: [work], queues: { own: {} } } })
    const { id } = await work.enqueue()
    await d.clock.advance('1ms')
    expect((await d.job(id))['state']).toBe('active')
    expect((await d.ack(id)).status).toBe(409)
    end()
  })
})

describe('how long a job is a worker’s', () => {
  test.each(KINDS)('the permit of a dead worker goes to a handler of the engine at once, on $name', async (kind) => {
    const one = limit('one', { concurrency: 1 })
    const ran: string[] = []
    const own = task('own', { queue: 'own', limits: [one], run: () => void ran.push('own') })
    const far = task('far', { queue: 'far', limits: [one], run: () => undefined })
    const d = await HttpHarness.open({ engine: { store: kind.create(), tasks: [own, far], queues: { own: {} } } })
    await d.push({ queue: 'far', retry: { max_attempts: 1 } }, { type: 'far', args: [{}] })
    expect(await d.fetch({ queues: ['far'], visibility_timeout_ms: 1000 })).toHaveLength(1)
    await own.enqueue()
    await d.clock.advance('900ms')
    expect(ran).toEqual([])
    await d.clock.advance('200ms')
    expect(ran).toEqual(['own'])
  })

  test.each(KINDS)('the permit that a disconnected worker leaves goes to a handler at once, on $name', async (kind) => {
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const store = await createStore(kind.create(), { clock, durability: 'process', retention: RETENTION })
    const one = limit('one', { concurrency: 1 })
    const ran: string[] = []
    const own = task('own', { queue: 'own', limits: [one], run: () => void ran.push('own') })
    const far = task('far', { queue: 'far', limits: [one], run: () => undefined })
    const d = await HttpHarness.open({ engine: { store, tasks: [own, far], queues: { own: {} } }, clock })
    await d.push({ queue: 'far' }, { type: 'far', args: [{}] })
    await clock.advance('1s')
    const gone = new AbortController()
    const claim = store.claim.bind(store)
    let refused = 0
    store.claim = async (request) => {
      const claimed = await claim(request)
      if (claimed.jobs.length === 0) refused++
      if (claimed.jobs[0]?.task !== 'far') return claimed
      // The own job is refused before the permit comes back.
      const before = refused
      await own.enqueue()
      await expect.poll(() => refused).toBeGreaterThan(before)
      gone.abort()
      return claimed
    }
    await d.fetch({ queues: ['far'] }, { signal: gone.signal }).catch(() => [])
    await expect.poll(() => ran).toEqual(['own'])
  })

  test('half an hour by default, also over a restart of the server', async () => {
    const store = storeFile()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const first = await HttpHarness.open({ engine: { store }, clock })
    const id = await first.push()
    await first.fetch({ worker_id: 'a' })
    await first.close()
    const second = await HttpHarness.open({ engine: { store }, clock })
    await clock.advance('29m')
    expect(await second.fetch({ worker_id: 'b' })).toEqual([])
    expect((await second.job(id))['state']).toBe('active')
    await clock.advance('61s')
    expect(await second.fetch({ worker_id: 'b' })).toEqual([id])
  })

  test('an ack of a job that was claimed before a restart counts', async () => {
    const store = storeFile()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const first = await HttpHarness.open({ engine: { store }, clock })
    const id = await first.push()
    await first.fetch({ worker_id: 'a' })
    await first.close()
    const second = await HttpHarness.open({ engine: { store }, clock })
    expect((await second.ack(id, { worker_id: 'a', attempt: 1 })).body).toMatchObject({ state: 'completed' })
  })

  test('as the job says, before the fetch; a heartbeat and progress begin it again', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ visibility_timeout_ms: 2000 })
    await d.fetch({ visibility_timeout_ms: 60_000 })
    await d.clock.advance('1500ms')
    const beat = await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: [id] })
    expect(beat.body).toMatchObject({ state: 'running', jobs_extended: [id] })
    await d.clock.advance('1500ms')
    await d.send('PUT', `/ojs/v1/jobs/${id}/progress`, { progress: 0.5 })
    await d.clock.advance('1500ms')
    expect((await d.job(id))['state']).toBe('active')
    await d.clock.advance('600ms')
    expect((await d.job(id))['state']).toBe('available')
    const late = await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'w', active_jobs: [id] })
    expect(late.body['jobs_extended']).toEqual([])
  })

  test('a lease that ran out on the last attempt discards the job, to the dead letter if its policy says so', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ visibility_timeout_ms: 1000, retry: { max_attempts: 1, on_exhaustion: 'dead_letter' } })
    await d.fetch()
    await d.clock.advance('2s')
    expect(await d.job(id)).toMatchObject({ state: 'discarded' })
    expect((await d.get('/ojs/v1/dead-letter')).body['jobs'].map((job: Json) => job['id'])).toEqual([id])
  })
})

describe('timeouts and retries', () => {
  test('an attempt that takes longer than timeout_ms fails 800 ms later, and is repeated after its delay', async () => {
    const d = await HttpHarness.open()
    const retry = { max_attempts: 2, initial_interval: 'PT5S', jitter: false }
    const id = await d.push({ timeout_ms: 3000, retry })
    await d.fetch()
    await d.clock.advance('3799ms')
    expect((await d.job(id))['state']).toBe('active')
    await d.clock.advance('1ms')
    expect(await d.job(id)).toMatchObject({ state: 'retryable', error: { code: 'timeout' }, retry_delay_ms: 5000 })
    expect((await d.ack(id)).status).toBe(409)
    await d.clock.advance('5s')
    expect(await d.fetch()).toEqual([id])
    await d.clock.advance('3800ms')
    expect(await d.job(id)).toMatchObject({ state: 'discarded', attempt: 2 })
  })

  test('a timeout of a run that the server did not live through is noticed after its restart', async () => {
    const store = storeFile()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const first = await HttpHarness.open({ engine: { store }, clock })
    const id = await first.push({ timeout_ms: 3000, retry: { initial_interval: 'PT1M', jitter: false } })
    await first.fetch()
    await first.close()
    await clock.advance('10s')
    const second = await HttpHarness.open({ engine: { store }, clock })
    expect(await second.job(id)).toMatchObject({ state: 'retryable', error: { code: 'timeout' } })
  })

  test.each(KINDS)('on $name, a timeout of a run whose server has gone is noticed by another one', async (kind) => {
    const store = kind.create()
    const first = await HttpHarness.open({ engine: { store } })
    const { sluice } = await HttpHarness.open({ engine: { store }, clock: first.clock })
    await remoteOf(sluice).store()
    await first.clock.advance('1s')
    const id = await first.push({ timeout_ms: 3000, retry: { initial_interval: 'PT1M', jitter: false } })
    await first.fetch()
    await first.close()
    await first.clock.advance('10s')
    expect(await sluice.jobs.get(id)).toMatchObject({ state: 'retryable', error: { code: 'timeout' } })
  })

  test.each([
    ['exponential', [1000, 3000, 8000]],
    ['linear', [1000, 2000, 3000]],
    ['polynomial', [1000, 8000, 8000]],
    ['constant', [1000, 1000, 1000]],
  ])('%s delays, capped', async (strategy, delays) => {
    const d = await HttpHarness.open()
    const coefficient = 3
    const retry = {
      max_attempts: 9,
      initial_interval: 'PT1S',
      backoff_coefficient: coefficient,
      backoff_strategy: strategy,
      max_interval: 'PT8S',
      jitter: false,
    }
    const id = await d.push({ retry })
    const seen: number[] = []
    for (let i = 0; i < delays.length; i++) {
      await d.fetch()
      const { body } = await d.nack(id)
      seen.push(body['retry_delay_ms'] as number)
      await d.clock.advance(body['retry_delay_ms'] as number)
    }
    expect(seen).toEqual(delays)
  })

  test.each([
    [{ code: 'auth.expired' }, 'discarded'],
    [{ code: 'x', type: 'Fatal' }, 'discarded'],
    [{ code: 'x', details: { error_class: 'Fatal' } }, 'discarded'],
    [{ code: 'authority' }, 'retryable'],
    [{ code: 'x', retryable: false }, 'discarded'],
  ])('a failure of %j is %s', async (error, state) => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { non_retryable_errors: ['auth.*', 'Fatal'] } })
    await d.fetch()
    expect((await d.nack(id, error)).body['state']).toBe(state)
  })

  test('what its worker gives up goes back to its place, and is not an attempt', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.push()
    await d.fetch()
    expect((await d.nack(id, {}, { requeue: true })).body).toMatchObject({ state: 'available', attempt: 0 })
    expect(await d.fetch()).toEqual([id])
  })

  test('a job that its worker lets snooze is scheduled, is no failure, and uses no attempt', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { max_attempts: 1 } })
    for (let i = 0; i < 3; i++) {
      expect(await d.fetch()).toEqual([id])
      const next = new Date(d.clock.now() + 90_000).toISOString()
      const { status, body } = await d.post('/ojs/v1/workers/nack', { job_id: id, attempt: 1, snooze_ms: 90_000 })
      expect([status, body]).toMatchObject([200, { state: 'scheduled', attempt: 0, next_attempt_at: next }])
      const job = await d.job(id)
      expect(job).toMatchObject({ state: 'scheduled', attempt: 0, scheduled_at: next })
      expect(job['errors']).toBeUndefined()
      await d.clock.advance('89s')
      expect(await d.fetch()).toEqual([])
      await d.clock.advance('1s')
    }
    expect(await d.fetch()).toEqual([id])
    await d.ack(id)
    expect(await d.job(id)).toMatchObject({ state: 'completed', attempt: 1 })
    const { body } = await d.get('/ojs/v1/events?types=job.snoozed')
    const events = body['events'] as { data: Json }[]
    expect(events.map(({ data }) => data['job_id'])).toEqual([id, id, id])
  })

  test.each<[Json, number, string]>([
    [{ snooze_ms: -1 }, 400, 'snooze_ms'],
    [{ snooze_ms: 1.5 }, 400, 'snooze_ms'],
    [{ snooze_ms: '1000' }, 400, 'snooze_ms'],
    [{ snooze_ms: 4e12 }, 400, 'snooze_ms'],
    [{ snooze_ms: 3.1e12 * 2 }, 400, 'snooze_ms'],
    [{ snooze_ms: 1000, requeue: true }, 400, 'excludes'],
    [{ snooze_ms: 1000, error: { code: 'x' } }, 400, 'excludes'],
    [{ snoozems: 1000 }, 400, 'did you mean snooze_ms?'],
    [{}, 400, 'snooze_ms'],
  ])('a nack with %j is refused, and the run goes on', async (more, expected, words) => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch()
    const { status, body } = await d.post('/ojs/v1/workers/nack', { job_id: id, ...more })
    expect([status, body['error']?.message]).toEqual([expected, expect.stringContaining(words)])
    expect((await d.job(id))['state']).toBe('active')
  })

  test('of the details of failures a part is kept, and what is far too large is refused', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { max_attempts: 60, backoff_strategy: 'none' } })
    await d.fetch()
    expect((await d.nack(id, { details: { stack: 'x'.repeat(70_000) } })).status).toBe(400)
    expect((await d.job(id))['state']).toBe('active')
    for (let i = 0; i < 40; i++) {
      expect((await d.nack(id, { details: { stack: 'x'.repeat(60_000), at: i } })).status).toBe(200)
      await d.fetch()
    }
    const job = await d.job(id)
    expect(job['errors'].at(-1).details).toMatchObject({ at: 39, x_truncated: true })
    expect(JSON.stringify(job).length).toBeLessThan(25 * 16_384)
  })

  test('at most 25 failures are kept, the latest', async () => {
    const d = await HttpHarness.open()
    const id = await d.push({ retry: { max_attempts: 40, backoff_strategy: 'none' } })
    for (let i = 0; i < 30; i++) {
      await d.fetch()
      await d.nack(id, { message: `no ${i + 1}` })
    }
    const { errors } = await d.job(id)
    expect(errors).toHaveLength(25)
    expect(errors.at(-1)).toMatchObject({ attempt: 30, message: 'no 30' })
  })
})
