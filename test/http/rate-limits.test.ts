import { remoteOf } from '../../src/remote/remote.ts'
import { describe, expect, test } from 'vitest'
import { limit } from '../../src/exports/index.ts'
import { type Answer, HttpHarness, type Json } from './http-harness.ts'

const key = (rateLimit: object): Json => ({ rate_limit: { key: 'k', ...rateLimit } })

describe('policies that come with jobs', () => {
  test('rate is a sliding window, throttle even spacing, concurrency permits; all of a key must admit', async () => {
    const d = await HttpHarness.open()
    const all = key({
      concurrency: 2,
      rate: { limit: 3, period: 'PT10S' },
      throttle: { limit: 1, period: 'PT1S' },
    })
    for (let i = 0; i < 6; i++) await d.push(all)
    const at = async (): Promise<number> => (await d.fetch({ count: 9 })).length
    expect(await at()).toBe(1)
    await d.clock.advance('1s')
    expect(await at()).toBe(1)
    await d.clock.advance('1s')
    // Two run: no permit is left, although the window has one.
    expect(await at()).toBe(0)
    const { body } = await d.get('/ojs/v1/rate-limits/k')
    expect(body).toMatchObject({
      key: 'k',
      concurrency: { limit: 2, active: 2, available: 0 },
      rate: { limit: 3, period: 'PT10S', current_count: 2 },
      throttle: { limit: 1, period: 'PT1S' },
      waiting_count: 4,
    })
  })

  test.each([
    [{ key: 'k', rate: 2, period: 'second', x_guard: 'PT0S' }, 2],
    [{ key: 'k', rate: { limit: 2, period: 'PT1S' }, x_guard: 'PT0S' }, 2],
    [{ max_per_second: 3, x_guard: 'PT0S' }, 3],
  ])('%j admits %d a second', async (rateLimit, admitted) => {
    const d = await HttpHarness.open()
    for (let i = 0; i < 5; i++) await d.push({ rate_limit: rateLimit })
    expect(await d.fetch({ count: 9 })).toHaveLength(admitted)
    await d.clock.advance('999ms')
    expect(await d.fetch({ count: 9 })).toHaveLength(0)
    await d.clock.advance('1ms')
    expect(await d.fetch({ count: 9 })).toHaveLength(Math.min(admitted, 5 - admitted))
  })

  test('x_policy has the rules as text: with a job, in a definition, and in a change until a time', async () => {
    const d = await HttpHarness.open()
    for (let i = 0; i < 4; i++) await d.push(key({ x_policy: '2/s burst 2' }))
    expect(await d.fetch({ count: 9 })).toHaveLength(2)
    await d.clock.advance('500ms')
    expect(await d.fetch({ count: 9 })).toHaveLength(1)
    const put = (name: string, body: object): Promise<Answer> => d.send('PUT', `/ojs/v1/rate-limits/${name}`, body)
    expect((await put('k', { x_policy: '20/s', expires_at: 'PT1M' })).body).toMatchObject({
      rate: { limit: 20, period: 'PT1S' },
      overrides: [{ change: { rate: 20, per: '1s' } }],
    })
    expect((await put('k', { x_policy: 'every 5s', expires_at: 'PT1M' })).status).toBe(422)
    expect((await put('k', { x_policy: 'every 5s, 3 at once' })).body).toMatchObject({
      throttle: { limit: 1, period: 'PT5S' },
      concurrency: { limit: 3 },
      overrides: [],
    })
    expect((await put('w', { x_policy: '9 in any 1 min' })).body).toMatchObject({ rate: { limit: 9, period: 'PT60S' } })
    expect((await put('w', { x_policy: '4/min' })).body).toMatchObject({ rate: { limit: 4, period: 'PT60S' } })
    const wrong = await put('w', { x_policy: '4/mn' })
    expect(wrong.status).toBe(422)
    expect(JSON.stringify(wrong.body)).toContain('at character 3')
    expect((await put('w', { x_policy: '4/min', rate: 5 })).status).toBe(422)
  })

  test('a throttle beside a rate is one limit, and a PUT of one is enforced for jobs that wait', async () => {
    const d = await HttpHarness.open()
    for (let i = 0; i < 6; i++) await d.push(key({ rate: { limit: 100, period: 'PT10S' } }))
    const put = { rate: { limit: 4, period: 'PT10S' }, throttle: { limit: 1, period: 'PT1S' }, x_guard: 'PT0S' }
    expect((await d.send('PUT', '/ojs/v1/rate-limits/k', put)).body).toMatchObject({
      rate: { limit: 4, period: 'PT10S' },
      throttle: { limit: 1, period: 'PT1S' },
    })
    const started: number[] = []
    for (let second = 0; second < 12; second++) {
      const ids = await d.fetch({ count: 9 })
      started.push(...ids.map(() => second))
      for (const id of ids) await d.ack(id)
      await d.clock.advance('1s')
    }
    expect(started).toEqual([0, 1, 2, 3, 10, 11])
    expect((await d.get('/ojs/v1/rate-limits')).body['items']).toHaveLength(1)
    // Its numbers are overridden from then on; another kind of limit is defined again.
    const slower = { throttle: { limit: 1, period: 'PT5S' } }
    expect((await d.send('PUT', '/ojs/v1/rate-limits/k', slower)).body).toMatchObject({
      rate: { limit: 4 },
      throttle: { period: 'PT5S' },
    })
    await d.send('PUT', '/ojs/v1/rate-limits/permits', { concurrency: 1 })
    expect((await d.send('PUT', '/ojs/v1/rate-limits/permits', put)).body).toMatchObject({
      rate: { limit: 4 },
      throttle: { period: 'PT1S' },
    })
    const forAWhile = { ...put, expires_at: '+PT1M' }
    await d.send('PUT', '/ojs/v1/rate-limits/more', { concurrency: 1 })
    expect((await d.send('PUT', '/ojs/v1/rate-limits/more', forAWhile)).status).toBe(422)
  })

  test('a PUT of another kind replaces a definition of a higher version, and what was overridden before', async () => {
    const d = await HttpHarness.open()
    await d.send('PUT', '/ojs/v1/rate-limits/k', { rate: { limit: 9, period: 'PT1S' } })
    const [known] = await (await remoteOf(d.sluice).store()).limits()
    await remoteOf(d.sluice).define([{ ...known!, version: 3 }])
    await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 7 })
    const { body } = await d.send('PUT', '/ojs/v1/rate-limits/k', { throttle: { limit: 1, period: 'PT5S' } })
    expect(body).toMatchObject({ throttle: { period: 'PT5S' } })
    expect(body).not.toHaveProperty('rate')
    expect(body).not.toHaveProperty('concurrency')
  })

  test('the newest policy of a key holds for all that wait', async () => {
    const d = await HttpHarness.open()
    for (let i = 0; i < 4; i++) await d.push(key({ concurrency: 1 }))
    expect(await d.fetch({ count: 9 })).toHaveLength(1)
    await d.push(key({ concurrency: 3 }))
    expect(await d.fetch({ count: 9 })).toHaveLength(2)
  })

  test('a limit of code or of an admin stays as it is, whatever jobs bring', async () => {
    const d = await HttpHarness.open({ engine: { limits: [limit('k', { concurrency: 1 })] } })
    await d.send('PUT', '/ojs/v1/rate-limits/own', { concurrency: 1 })
    for (let i = 0; i < 3; i++) await d.push(key({ concurrency: 5 }))
    for (let i = 0; i < 3; i++) await d.push({ rate_limit: { key: 'own', concurrency: 5 } })
    expect(await d.fetch({ count: 9 })).toHaveLength(2)
  })

  test('on_limit drop and reschedule', async () => {
    const d = await HttpHarness.open()
    const rate = { limit: 1, period: 'PT1M' }
    await d.push({ rate_limit: { key: 'd', rate, on_limit: 'drop' } })
    const dropped = await d.push({ rate_limit: { key: 'd', rate, on_limit: 'drop' } })
    await d.push({ rate_limit: { key: 'r', rate, on_limit: 'reschedule' } })
    const later = await d.push({ rate_limit: { key: 'r', rate, on_limit: 'reschedule' } })
    expect(await d.fetch({ count: 9 })).toHaveLength(2)
    expect(await d.job(dropped)).toMatchObject({ state: 'discarded', attempt: 0 })
    expect(await d.job(dropped)).not.toHaveProperty('completed_at')
    expect(await d.job(later)).toMatchObject({ state: 'scheduled', scheduled_at: '2026-01-01T00:01:00.020Z' })
  })

  test('a job that is refused leaves the limit as it was', async () => {
    const d = await HttpHarness.open()
    const id = await d.push(key({ concurrency: 1 }))
    const again = { type: 'work', args: [], id, options: { queue: 'q', ...key({ concurrency: 9 }) } }
    expect((await d.post('/ojs/v1/jobs', again)).status).toBe(409)
    const bad = { type: 'work', args: [], options: { queue: 'q', ...key({ concurrency: 9 }), priority: 101 } }
    expect((await d.post('/ojs/v1/jobs', bad)).status).toBe(400)
    expect((await d.get('/ojs/v1/rate-limits/k')).body['concurrency'].limit).toBe(1)
  })

  test.each([
    [{ key: 'k' }],
    [{ concurrency: 1 }],
    [{ key: 'k', rate: { limit: 1 } }],
    [{ key: 'k', rate: { limit: 1, period: 'P1M' } }],
    [{ key: 'k', throttle: { limit: 1, period: 'PT0S' } }],
    [{ x_limit: { name: 'gate', key: 'a', weight: 9 } }],
  ])('%j is refused as out of range', async (rateLimit) => {
    const d = await HttpHarness.open({ engine: { limits: [limit('gate', { rate: 5, per: '1m' })] } })
    const { status } = await d.post('/ojs/v1/jobs', { type: 'work', args: [], options: { rate_limit: rateLimit } })
    expect(status).toBe(422)
  })

  test('a job that names an unknown limit is refused, and taken once the limit is defined', async () => {
    const d = await HttpHarness.open()
    const starts = d.work(['q'])
    const later = { type: 'work', args: ['l'], options: { queue: 'q', rate_limit: { x_limit: { name: 'later' } } } }
    expect((await d.post('/ojs/v1/jobs', later)).status).toBe(422)
    await d.send('PUT', '/ojs/v1/rate-limits/later', { concurrency: 1 })
    expect((await d.post('/ojs/v1/jobs', later)).status).toBe(201)
    await d.clock.advance('1ms')
    expect(starts.map(({ arg }) => arg)).toEqual(['l'])
  })
})

describe('what others say of a limit', () => {
  test('an override holds until it expires: 0 permits pause, and waiting fetches go on at that instant', async () => {
    const d = await HttpHarness.open()
    const starts = d.work(['q'])
    await d.push(key({ concurrency: 2 }))
    await d.clock.advance('1s')
    const put = await d.send('PUT', '/ojs/v1/rate-limits/k', { concurrency: 0, expires_at: '+PT30S' })
    expect(put.body['concurrency']).toMatchObject({ limit: 0 })
    await d.push(key({ concurrency: 2 }))
    await d.clock.advance('1m')
    expect(starts.map(({ at }) => at)).toEqual([0, 31])
    expect((await d.get('/ojs/v1/rate-limits/k')).body['concurrency']).toMatchObject({ limit: 2 })
  })

  test('a limit of a queue holds for all its jobs, beside their own, and for engines too', async () => {
    const d = await HttpHarness.open()
    await d.send('PUT', '/ojs/v1/admin/queues/q/rate-limit', { rate: { limit: 2, period: 'PT1M' } })
    for (let i = 0; i < 3; i++) await d.push()
    await d.push(key({ concurrency: 5 }))
    await d.push({ queue: 'other' })
    expect(await d.fetch({ count: 9, queues: ['q', 'other'] })).toHaveLength(3)
    await d.send('PUT', '/ojs/v1/admin/queues/q/rate-limit', {})
    expect(await d.fetch({ count: 9 })).toHaveLength(2)
  })

  test.each([
    [{ rate_limit_until: '+PT40S' }, 40],
    [{ retry_after: 25 }, 25],
    [{ retry_after: 0.5 }, 0.5],
  ])('a nack with %j closes the key until then, and is not an attempt', async (told, seconds) => {
    const d = await HttpHarness.open()
    const first = await d.push(key({ concurrency: 5 }))
    await d.fetch()
    await d.push(key({ concurrency: 5 }))
    const { body } = await d.nack(first, told)
    expect(body).toMatchObject({ state: 'available', attempt: 0 })
    const starts = d.work(['q'])
    await d.clock.advance('2m')
    expect(starts.map(({ at }) => at)).toEqual([seconds, seconds])
  })

  test('such a nack of a job without any limit puts the job off', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch()
    expect((await d.nack(id, { retry_after: 10 })).body).toMatchObject({ state: 'retryable', attempt: 0 })
    await d.clock.advance('10s')
    expect(await d.fetch()).toEqual([id])
  })

  test('what is left of a budget is told with each push', async () => {
    const d = await HttpHarness.open()
    const { headers } = await d.post('/ojs/v1/jobs', {
      type: 'work',
      args: [],
      options: key({ rate: { limit: 7, period: 'PT1M' } }),
    })
    expect(headers.get('x-ratelimit-limit')).toBe('7')
    expect(headers.get('x-ratelimit-remaining')).toBe('7')
  })

  test('exceeded and released are told once for each change', async () => {
    const d = await HttpHarness.open()
    d.work(['q'])
    for (let i = 0; i < 4; i++) await d.push(key({ rate: { limit: 1, period: 'PT1S' } }))
    await d.clock.advance('10s')
    const { body } = await d.get('/ojs/v1/events?types=rate_limit.*')
    const types = (body['events'] as Json[]).map((event) => event['type'] as string)
    expect(types.filter((type) => type === 'rate_limit.exceeded')).toHaveLength(1)
    expect(types.at(-1)).toBe('rate_limit.released')
  })
})
