import { describe, expect, test } from 'vitest'
import { input, limit, NonRetryable, task } from '../../src/exports/index.ts'
import type { Json } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'

const KINDS = await everyStore('the jobs of the monitor')

interface Order {
  readonly tenant: string
  readonly password?: string
  readonly note?: string
}
const crm = limit('crm', { rate: 1, per: '10s', burst: 1 })
const sync = task('sync', input<Order>(), { limits: [crm.by('tenant')], queue: 'mail', run: () => undefined })
const broken = task('broken', input<Order>(), {
  retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false },
  run: ({ note }, ctx) => {
    ctx.logger.warn({ token: 'abc', n: 1 }, 'about to fail')
    ctx.progress(0.5)
    throw note === 'final' ? new NonRetryable('the order is gone') : new Error('no answer')
  },
})
const later = task('later', { run: () => undefined })

async function filled(store: string): Promise<{ m: MonitorHarness; ids: Record<string, string> }> {
  const m = await MonitorHarness.open({ store, tasks: [sync, broken, later] })
  const ids: Record<string, string> = {}
  const add = async (name: string, job: Promise<{ id: string }>): Promise<void> => void (ids[name] = (await job).id)
  await add('ran', m.sluice.enqueue(sync, { tenant: 'acme', password: 'hunter2' }))
  // It starts before a job of higher priority is there.
  await m.clock.advance('100ms')
  await add(
    'second',
    m.sluice.enqueue(sync, { tenant: 'acme', note: 'Übergröße' }, { tags: ['urgent'], meta: { shop: 5 } }),
  )
  await add('third', m.sluice.enqueue(sync, { tenant: 'acme' }, { priority: 5 }))
  await add('broken', m.sluice.enqueue(broken, { tenant: 'acme' }))
  await add('final', m.sluice.enqueue(broken, { tenant: 'acme', note: 'final' }))
  await add('later', m.sluice.enqueue(later, undefined, { delay: '1h' }))
  await m.clock.advance('3s')
  return { m, ids }
}

const idsOf = (body: Json): string[] => (body['jobs'] as { id: string }[]).map(({ id }) => id)

describe.each(KINDS)('on $name', (kind) => {
  test('jobs are found by each filter, and counted', async () => {
    const { m, ids } = await filled(kind.create())
    const table: readonly (readonly [string, readonly string[]])[] = [
      ['', ['later', 'final', 'broken', 'third', 'second', 'ran']],
      ['state=discarded', ['final', 'broken']],
      ['state=discarded,completed', ['final', 'broken', 'ran']],
      ['queue=mail', ['third', 'second', 'ran']],
      ['task=later', ['later']],
      ['tag=urgent', ['second']],
      ['meta.shop=5', ['second']],
      ['limit=crm&key=acme', ['third', 'second']],
      ['error=order', ['final']],
      ['q=hunter2', ['ran']],
      [`q=${encodeURIComponent('Übergröße')}`, ['second']],
      [`q=${String(ids['broken'])}`, ['broken']],
      ['queue=mail&state=available&q=acme', ['third', 'second']],
      ['queue=none', []],
      [`queue=${encodeURIComponent('a\u0000b')}`, []],
      ['since=1h', ['later', 'final', 'broken', 'third', 'second', 'ran']],
      ['until=1h', []],
      [`id=${String(ids['ran'])},nonsense`, ['ran']],
    ]
    for (const [query, names] of table) {
      const found = idsOf(await m.get(`/jobs?${query}`)).map((id) => Object.keys(ids).find((name) => ids[name] === id))
      expect([query, found]).toEqual([query, names])
      expect(await m.get(`/jobs/count?${query}`)).toEqual({ count: names.length, exact: true })
    }
  })

  test('pages follow each other without a gap, and a cursor belongs to its filter', async () => {
    const { m, ids } = await filled(kind.create())
    const found: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: Json = await m.get(`/jobs?size=2${cursor === '' ? '' : `&cursor=${cursor}`}`)
      found.push(...idsOf(page))
      cursor = page['cursor'] as string | null
    }
    expect(found).toEqual(Object.values(ids).toReversed())
    const { cursor } = await m.get('/jobs?size=2')
    expect((await m.send('GET', `/jobs?size=2&queue=mail&cursor=${String(cursor)}`)).status).toBe(400)
  })

  test.each([
    'sate=active',
    'state=running',
    'size=0',
    'size=201',
    'cursor=x',
    'since=yesterday',
    'key=acme',
    'queue=a&queue=b',
    'q=',
    `q=${'x'.repeat(1001)}`,
  ])('%s is refused', async (query) => {
    const m = await MonitorHarness.open({ store: kind.create() })
    const { status, body } = await m.send('GET', `/jobs?${query}`)
    expect([query, status]).toEqual([query, 400])
    expect(String((body['error'] as Json)['message'])).not.toBe('')
  })

  test('a job has its payload without secrets, its attempts with their errors, and why it waits', async () => {
    const { m, ids } = await filled(kind.create())
    expect(await m.get(`/jobs/${String(ids['ran'])}`)).toMatchObject({
      state: 'completed',
      input: { tenant: 'acme', password: '[redacted]' },
      preview: '{"tenant":"acme","password":"[redacted]"}',
      wait: null,
      // A completed job is kept for a day by default.
      keptUntil: '2026-01-02T00:00:00.000Z',
      timeline: [{ kind: 'arrived' }, { kind: 'attempt', attempt: 1, durationMs: 0 }, { kind: 'ended' }],
    })
    expect(await m.get(`/jobs/${String(ids['broken'])}`)).toMatchObject({
      state: 'discarded',
      attempt: 2,
      error: { message: 'Error: no answer' },
      progress: 0.5,
      logs: [1, 2].map((attempt) => ({
        level: 'warn',
        attempt,
        message: 'about to fail',
        fields: { token: '[redacted]', n: 1 },
      })),
      children: [],
      timeline: [
        { kind: 'arrived' },
        { kind: 'attempt', attempt: 1, error: { message: 'Error: no answer' } },
        { kind: 'waited', attempt: 2, words: 'Attempt 2 waited for its start.' },
        { kind: 'attempt', attempt: 2, durationMs: 0, error: { message: 'Error: no answer' } },
        { kind: 'ended' },
      ],
    })
    const waiting = await m.get(`/jobs/${String(ids['second'])}`)
    expect(waiting).toMatchObject({
      state: 'available',
      keptUntil: null,
      limits: [{ limit: 'crm', key: 'acme', weight: 1 }],
      wait: {
        waitsOn: { limit: 'crm', key: 'acme' },
        linePosition: 2,
        expectedStart: expect.stringMatching(/^2026-01-01T00:00:20/) as string,
      },
    })
    expect(await m.get(`/jobs/${String(ids['second'])}/explain`)).toEqual(waiting['wait'])
    expect((await m.send('GET', '/jobs/none')).status).toBe(404)
  })

  test('the line of a key has its jobs in the order of their starts', async () => {
    const { m, ids } = await filled(kind.create())
    expect(await m.get('/limits/crm/keys/~acme')).toMatchObject({
      bucket: { key: 'acme', waiting: 2 },
      line: [
        { id: ids['third'], position: 1, exact: true },
        { id: ids['second'], position: 2, expectedStart: expect.stringMatching(/^2026-01-01T00:00:20/) as string },
      ],
      holders: [],
    })
  })

  test('a job is cancelled, retried and deleted', async () => {
    const { m, ids } = await filled(kind.create())
    const act = (method: string, name: string, verb = ''): Promise<{ status: number; body: Json }> =>
      m.send(method, `/jobs/${String(ids[name])}${verb}`, method === 'POST' ? { reason: 'a test' } : undefined)
    expect((await act('POST', 'second', '/cancel')).body).toMatchObject({ done: true, job: { state: 'cancelled' } })
    expect((await act('POST', 'second', '/cancel')).body).toMatchObject({ done: false })
    expect((await act('POST', 'final', '/retry')).body).toMatchObject({ done: true })
    expect((await act('POST', 'ran', '/retry')).body).toMatchObject({ done: false, job: { state: 'completed' } })
    expect((await act('DELETE', 'third')).status).toBe(409)
    expect((await act('DELETE', 'ran')).body).toEqual({ deleted: true })
    expect((await act('DELETE', 'ran')).status).toBe(404)
    const { entries } = await m.get('/audit')
    expect((entries as Json[])[0]).toMatchObject({ action: 'monitorDeleteJob', reason: null })
    expect((entries as Json[]).at(-1)).toMatchObject({ action: 'monitorCancelJob', reason: 'a test' })
  })

  test('a job starts now where its budget allows it, and gets another priority or time', async () => {
    const { m, ids } = await filled(kind.create())
    const send = (method: string, name: string, verb: string, body: object): Promise<{ status: number; body: Json }> =>
      m.send(method, `/jobs/${String(ids[name])}${verb}`, body)
    expect((await send('POST', 'later', '/run-now', {})).body).toMatchObject({ done: true })
    await m.clock.advance('100ms')
    expect(await m.get(`/jobs/${String(ids['later'])}`)).toMatchObject({ state: 'completed' })
    for (const name of ['ran', 'second', 'final'])
      expect([name, (await send('POST', name, '/run-now', {})).status]).toEqual([name, 409])
    for (const priority of [9, 9])
      expect((await send('PATCH', 'second', '', { priority })).body).toMatchObject({ job: { priority } })
    expect((await send('PATCH', 'second', '', { runAt: '1h' })).body).toMatchObject({ job: { state: 'scheduled' } })
    const refused = await send('POST', 'second', '/run-now', {})
    expect([refused.status, (refused.body['error'] as Json)['message']]).toEqual([
      409,
      expect.stringContaining('crm for acme'),
    ])
    expect((await send('PATCH', 'ran', '', { priority: 1 })).status).toBe(409)
    for (const body of [{}, { priority: 101 }, { runAt: 'soon' }, { prio: 1 }])
      expect([400, 422]).toContain((await send('PATCH', 'third', '', body)).status)
  })

  test('the overview counts jobs, names the causes of waits and what needs attention', async () => {
    const { m } = await filled(kind.create())
    await m.sluice.limits.pause(crm, undefined, { by: 'bob' })
    const found = await m.get('/overview')
    expect(found).toMatchObject({
      states: { available: 2, scheduled: 1, completed: 1, discarded: 2 },
      waiting: { total: 2, causes: [{ limit: 'crm', key: 'acme', waiting: 2, share: 1 }] },
      workers: { alive: 1, active: 0 },
      counted: { exact: true },
    })
    expect(found['attention']).toMatchObject([{ kind: 'limit.paused', subject: { limit: 'crm' }, count: 2 }])
  })
})
