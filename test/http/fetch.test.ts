import { describe, expect, test } from 'vitest'
import { limit, task } from '../../src/exports/index.ts'
import { HttpHarness, type Json } from './http-harness.ts'

describe('what a fetch takes', () => {
  test('the first queue has to be empty before the next one is looked at', async () => {
    const d = await HttpHarness.open()
    const low = await d.push({ queue: 'low', priority: 100 })
    const high = [await d.push({ queue: 'high' }), await d.push({ queue: 'high' })]
    expect(await d.fetch({ queues: ['high', 'low'], count: 2 })).toEqual(high)
    expect(await d.fetch({ queues: ['high', 'low'], count: 2 })).toEqual([low])
  })

  test('within a queue by priority, then by age; a job that its budget holds back is passed over and stays available', async () => {
    const d = await HttpHarness.open()
    const rate = { rate_limit: { key: 'k', rate: { limit: 1, period: 'PT1M' } } }
    const [first, held] = [await d.push({ ...rate, priority: 9 }), await d.push({ ...rate, priority: 9 })]
    const plain = await d.push()
    expect(await d.fetch({ count: 10 })).toEqual([first, plain])
    expect((await d.job(held))['state']).toBe('available')
  })

  test('any type, unless the worker names those that it takes', async () => {
    const d = await HttpHarness.open()
    const limited = { rate_limit: { key: 'k', rate: { limit: 100, period: 'PT1S' } } }
    const other = [
      await d.push({ priority: 5 }, { type: 'report' }),
      await d.push({ ...limited, priority: 5 }, { type: 'report' }),
    ]
    const mails = [await d.push({}, { type: 'mail.send' }), await d.push(limited, { type: 'mail.send' })]
    const types = ['mail.send', 'mail.check']
    expect((await d.fetch({ types, count: 10, worker_id: 'mailer' })).toSorted()).toEqual(mails.toSorted())
    expect(await d.fetch({ types, count: 10, worker_id: 'mailer' })).toEqual([])
    expect((await d.fetch({ count: 10, worker_id: 'any' })).toSorted()).toEqual(other.toSorted())
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['q'], types: ['No Type'] })).status).toBe(400)
    expect((await d.post('/ojs/v1/workers/fetch', { queues: ['q'], types: [] })).status).toBe(400)
  })

  test('a fetch that waits for some types keeps none of others from the next', async () => {
    const d = await HttpHarness.open()
    const mailer = d.fetch({ types: ['mail.send'], wait: 20_000, worker_id: 'mailer' })
    const reporter = d.fetch({ types: ['report'], wait: 20_000, worker_id: 'reporter' })
    await d.clock.advance('1s')
    const report = await d.push({}, { type: 'report' })
    await d.clock.advance('1s')
    const mail = await d.push({}, { type: 'mail.send' })
    await d.clock.advance('1s')
    expect(await Promise.all([mailer, reporter])).toEqual([[mail], [report]])
  })

  test('nothing of a paused queue, by anybody; what an engine would run waits too', async () => {
    const work = task('work', { queue: 'q', run: () => 'done' })
    const d = await HttpHarness.open({ engine: { tasks: [work], queues: { q: {} } } })
    await d.post('/ojs/v1/queues/q/pause', {})
    const { id } = await work.enqueue()
    await d.clock.advance('1m')
    expect(await d.fetch()).toEqual([])
    expect((await d.job(id))['state']).toBe('available')
    await d.post('/ojs/v1/queues/q/resume', {})
    await d.clock.advance('1ms')
    expect((await d.job(id))['state']).toBe('completed')
  })

  test('a worker that was told to be quiet gets nothing more, and its heartbeat says so', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch({ worker_id: 'a' })
    await d.push()
    expect((await d.post('/ojs/v1/admin/workers/a/quiet', {})).status).toBe(200)
    expect(await d.fetch({ worker_id: 'a' })).toEqual([])
    const beat = await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'a', active_jobs: [id] })
    expect(beat.body['state']).toBe('quiet')
    expect(await d.fetch({ worker_id: 'b' })).toHaveLength(1)
  })
})

describe('waiting for work', () => {
  test('an arrival is answered at once; without one the answer is empty when the time is over', async () => {
    const d = await HttpHarness.open()
    const answered: [string[], number][] = []
    const wait = (): Promise<unknown> => d.fetch({ wait: 20_000 }).then((ids) => answered.push([ids, d.at]))
    const waits = [wait(), wait()]
    await d.clock.advance('5s')
    const id = await d.push()
    await d.clock.advance('30s')
    await Promise.all(waits)
    expect(answered).toEqual([
      [[id], 5],
      [[], 20],
    ])
  })

  test('a scheduled job, a retry and a token are answered at their instants', async () => {
    const d = await HttpHarness.open()
    const starts = d.work(['q'])
    await d.push({ scheduled_at: '+PT3S' }, { args: ['scheduled'] })
    const throttle = { rate_limit: { key: 'k', throttle: { limit: 1, period: 'PT2S' } } }
    await d.push(throttle, { args: ['one'] })
    await d.push(throttle, { args: ['two'] })
    await d.clock.advance('10s')
    expect(starts.map(({ arg, at }) => [arg, at])).toEqual([
      ['one', 0],
      ['two', 2],
      ['scheduled', 3],
    ])
  })

  test('what an engine of this process enqueues and what it frees is noticed', async () => {
    const gate = limit('gate', { concurrency: 1 })
    const own = task('own', { queue: 'own', limits: [gate], run: (_, { signal: _s }) => d.clock.sleep('2s') })
    const far = task('far', { queue: 'q', limits: [gate], run: () => undefined })
    const d: HttpHarness = await HttpHarness.open({ engine: { tasks: [own, far], queues: { own: {} } } })
    const starts = d.work(['q'])
    await own.enqueue()
    await d.clock.advance('1s')
    await far.enqueue()
    await d.clock.advance('5s')
    expect(starts.map(({ at }) => at)).toEqual([2])
  })

  test('a caller that has gone leaves its place, and what was taken for it is given back with its attempt', async () => {
    const d = await HttpHarness.open()
    const gone = new AbortController()
    const fetching = d.fetch({ wait: 20_000 }, { signal: gone.signal }).catch(() => [])
    await d.clock.advance('1s')
    gone.abort()
    await fetching
    const id = await d.push()
    await d.clock.advance('1ms')
    expect(await d.job(id)).toMatchObject({ state: 'available', attempt: 0 })
    expect(await d.fetch()).toEqual([id])
  })
})

describe('events', () => {
  test('can be polled by type and queue from a cursor on', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    await d.fetch()
    await d.clock.advance('250ms')
    await d.ack(id)
    const { body } = await d.get('/ojs/v1/events?types=job.started,job.completed&queues=q')
    expect(body['events'].map((event: Json) => event['type'])).toEqual(['job.started', 'job.completed'])
    expect(body['events'][1]).toMatchObject({
      specversion: '1.0',
      subject: id,
      data: { job_id: id, job_type: 'work', queue: 'q', attempt: 1, duration_ms: 250 },
    })
    expect((await d.get(`/ojs/v1/events?after=${body['cursor'] as string}`)).body['events']).toEqual([])
  })

  test('of a job are streamed as they happen', async () => {
    const d = await HttpHarness.open()
    const id = await d.push()
    const stream = await d.app.fetch(new Request(`http://server/ojs/v1/events/stream?channel=job:${id}`))
    expect(stream.headers.get('content-type')).toBe('text/event-stream')
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader()
    await d.push()
    await d.fetch({ count: 2 })
    await d.ack(id)
    let text = ''
    while (!text.includes('job.completed')) text += new TextDecoder().decode((await reader.read()).value)
    await reader.cancel()
    const seen = [...text.matchAll(/^event: (.*)$/gm)].map(([, type]) => type)
    expect(seen).toEqual(['job.started', 'job.completed'])
  })
})
