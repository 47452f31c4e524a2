import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { UnreliableBackend } from '../engine/unreliable-backend.ts'
import type { Json } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'

const KINDS = await everyStore('the limits of the monitor')

const api = limit('api', { window: 'sliding', max: 2, per: '1m', guard: 0 })
const crm = limit('crm', { rate: 1, per: '10s', burst: 1 })
const call = task('call', { limits: [api], run: () => undefined })
const sync = task('sync', input<{ tenant: string }>(), {
  limits: [crm.by('tenant')],
  run: () => undefined,
})

async function filled(store: string): Promise<MonitorHarness> {
  const m = await MonitorHarness.open({ store, tasks: [call, sync] })
  for (let i = 0; i < 5; i++) await m.sluice.enqueue(call)
  for (const tenant of ['acme', 'acme', 'acme', 'acme', 'beta', 'beta']) await m.sluice.enqueue(sync, { tenant })
  await m.clock.advance('1s')
  return m
}

describe.each(KINDS)('on $name', (kind) => {
  test('a limit tells its rule, what is used, what waits and when the next starts', async () => {
    const m = await filled(kind.create())
    const { limits } = await m.get('/limits')
    expect(limits).toMatchObject([
      {
        name: 'api',
        rule: '2 in any 1 min, no guard',
        keys: 1,
        waiting: 3,
        heldKeys: 1,
        nextStart: '2026-01-01T00:01:00.000Z',
        bucket: { key: null, available: 0, capacity: 2, used: 2, waiting: 3 },
      },
      { name: 'crm', keys: 2, waiting: 4, heldKeys: 2, bucket: null, drained: '2026-01-01T00:00:30.000Z' },
    ])
    expect(await m.get('/limits/api')).toEqual((limits as object[])[0])
    expect((await m.send('GET', '/limits/none')).status).toBe(404)
  })

  test('keys are sorted by what waits, by key, by use and by the next start, page by page', async () => {
    const m = await filled(kind.create())
    const keysOf = async (query: string): Promise<unknown[]> =>
      ((await m.get(`/limits/crm/keys?${query}`))['keys'] as { key: string }[]).map(({ key }) => key)
    expect(await keysOf('sort=waiting')).toEqual(['acme', 'beta'])
    expect(await keysOf('sort=key')).toEqual(['acme', 'beta'])
    await m.sluice.limits.penalize(crm, 'acme', '1h')
    await m.clock.advance('1ms')
    expect(await keysOf('sort=next')).toEqual(['beta', 'acme'])
    expect(await keysOf('sort=used')).toHaveLength(2)
    for (const sort of ['waiting', 'key', 'used', 'next']) {
      const first = await m.get(`/limits/crm/keys?sort=${sort}&limit=1`)
      const second = await m.get(`/limits/crm/keys?sort=${sort}&limit=1&cursor=${String(first['cursor'])}`)
      const both = [...(first['keys'] as { key: string }[]), ...(second['keys'] as { key: string }[])]
      expect([sort, new Set(both.map(({ key }) => key)).size, second['cursor']]).toEqual([sort, 2, null])
    }
    const { cursor } = await m.get('/limits/crm/keys?sort=key&limit=1')
    expect((await m.send('GET', `/limits/crm/keys?sort=waiting&cursor=${String(cursor)}`)).status).toBe(400)
  })

  test('an override, a pause and a penalty act at once, and the record has who and why', async () => {
    const m = await filled(kind.create())
    const put = await m.send('PUT', '/limits/crm/keys/acme/override', { change: '10/s', until: '1h', reason: 'sale' })
    expect(put.body).toMatchObject({
      bucket: { key: 'acme', overrides: [{ kind: 'override', by: 'ann', reason: 'sale', key: 'acme' }] },
    })
    const cleared = await m.send('DELETE', '/limits/crm/keys/acme/override?reason=over')
    expect(cleared.body).toMatchObject({ ended: true, bucket: { overrides: [] } })
    expect((await m.send('DELETE', '/limits/crm/keys/acme/override')).body).toMatchObject({ ended: false })
    expect((await m.send('PUT', '/limits/api/pause', { reason: 'incident' })).body).toMatchObject({
      limit: { paused: true, overrides: [{ kind: 'pause', by: 'ann', reason: 'incident' }] },
    })
    expect((await m.send('PUT', '/limits/api/resume')).body).toMatchObject({ ended: true, limit: { paused: false } })
    expect((await m.send('PUT', '/limits/crm/keys/beta/penalty', { until: '5m' })).status).toBe(200)
    await m.clock.advance('1ms')
    expect(await m.get('/limits/crm/keys?sort=key')).toMatchObject({
      keys: [{ key: 'acme' }, { key: 'beta', nextStart: '2026-01-01T00:05:01.000Z' }],
    })
    const { entries } = await m.get('/audit')
    expect((entries as { action: string }[]).map(({ action }) => action)).toEqual([
      'monitorPenalizeKey',
      'monitorResumeLimit',
      'monitorPauseLimit',
      'monitorClearKey',
      'monitorClearKey',
      'monitorOverrideKey',
    ])
    expect((entries as object[]).at(-1)).toMatchObject({
      who: 'ann',
      reason: 'sale',
      subject: '/monitor/v1/limits/crm/keys/acme/override',
      request: { change: '10/s' },
    })
    expect((await m.get('/audit?action=monitorClearKey'))['entries']).toHaveLength(2)
    const first = await m.get('/audit?size=4')
    const rest = await m.get(`/audit?size=4&cursor=${String(first['cursor'])}`)
    expect([(first['entries'] as object[]).length, (rest['entries'] as object[]).length, rest['cursor']]).toEqual([
      4,
      2,
      null,
    ])
  })

  test('what-if forecasts another policy and changes nothing', async () => {
    const m = await filled(kind.create())
    m.grant = 'reader'
    const { body } = await m.send('POST', '/limits/crm/what-if', { policy: '1 per 5s', key: 'acme' })
    expect(body).toMatchObject({ now: { jobs: 3, keys: 1, drainMs: 29_000 }, then: { jobs: 3, drainMs: 14_500 } })
    expect((await m.get('/limits/crm'))['rule']).toBe('1 per 10 s, burst 1')
  })

  test.each([
    ['a misspelt member', 'PUT', '/limits/api/pause', { untill: '1h' }, 400],
    ['a past instant', 'PUT', '/limits/api/pause', { until: '2020-01-01T00:00:00Z' }, 422],
    ['no duration', 'PUT', '/limits/api/pause', { until: 'soon' }, 422],
    ['a change of another kind', 'PUT', '/limits/api/override', { change: '1 every 5s' }, 422],
    ['an empty change', 'PUT', '/limits/api/override', { change: '' }, 400],
    ['a reason that is too long', 'PUT', '/limits/api/pause', { reason: 'x'.repeat(1001) }, 400],
    ['a limit that is not there', 'PUT', '/limits/none/pause', {}, 404],
    ['a misspelt query', 'GET', '/limits/api/keys?sorted=key', undefined, 400],
    ['an order that is none', 'GET', '/limits/api/keys?sort=age', undefined, 400],
    ['a cursor that is none', 'GET', '/limits/api/keys?cursor=x', undefined, 400],
  ])('%s is refused, and nothing is written', async (_, method, path, body, status) => {
    const m = await filled(kind.create())
    expect((await m.send(method, path, body)).status).toBe(status)
    expect((await m.get('/limits/api'))['overrides']).toEqual([])
    expect((await m.get('/audit'))['entries']).toEqual([])
  })

  test('a key may be any text', async () => {
    const odd = ['a/b', '~', '~~', 'ä ö', '%2F', '..', '<script>', '🙂', 'a\u0000b', 'a\ud800']
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [sync] })
    for (const tenant of odd) await m.sluice.enqueue(sync, { tenant })
    await m.clock.advance('1s')
    for (const { key } of (await m.get('/limits/crm/keys?limit=200'))['keys'] as { key: string }[]) {
      // A client may begin every key like this: browsers take `..` for a step up.
      const path = `~${encodeURIComponent(key)}`
      const { status, body } = await m.send('PUT', `/limits/crm/keys/${path}/penalty`, { until: '1h' })
      expect([key, status, body]).toMatchObject([key, 200, { bucket: { key } }])
    }
  })
})

test('a backend of budgets that the monitor’s own process cannot reach is told, and which process that is', async () => {
  const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared' })
  const charge = task('charge', { limits: [stripe], run: () => undefined })
  const backend = new UnreliableBackend(createManualClock())
  const m = await MonitorHarness.open({
    tasks: [charge],
    budgets: { shared: backend },
  })
  const shown = async (): Promise<unknown> => (await m.get('/limits/stripe'))['backend']
  backend.isDown = true
  await m.sluice.enqueue(charge)
  await m.clock.advance('3s')
  expect(await shown()).toEqual({ kind: 'shared', healthy: false })
  const told = ((await m.get('/overview'))['attention'] as Json[]).find(({ kind }) => kind === 'backend.down')
  expect(told).toMatchObject({ severity: 'error', subject: { backend: 'shared' }, count: 1 })
  expect(told?.['words']).toMatch(/^This process cannot reach the backend shared/)
  expect(told?.['action']).toContain('Other processes may reach it.')
  backend.isDown = false
  await m.clock.advance('5s')
  expect(await shown()).toEqual({ kind: 'shared', healthy: true })
})

describe.each(KINDS)('a backend of budgets that is away, on $name', (kind) => {
  test('is told by every process that keeps budgets there, and shown by one that does not', async () => {
    const store = kind.create()
    const stripe = limit('stripe', { rate: 100, per: '1s', backend: 'shared' })
    const charge = task('charge', { limits: [stripe], run: () => undefined })
    const [caller, idle, reaching] = [0, 1, 2].map(() => new UnreliableBackend(createManualClock())) as [
      UnreliableBackend,
      UnreliableBackend,
      UnreliableBackend,
    ]
    const m = await MonitorHarness.open({ store, tasks: [charge], budgets: { shared: caller } })
    const beside = { store, clock: m.clock, queues: { other: {} } }
    const told: string[] = []
    const others: MonitorHarness[] = []
    for (const [name, backend] of Object.entries({ idle, reaching })) {
      const limits = [limit('stripe', { rate: 100, per: '1s', backend: 'shared' })]
      const other = await MonitorHarness.open({ ...beside, limits, budgets: { shared: backend } }, { clock: m.clock })
      other.sluice.on('rate_limit.backend_down', () => told.push(`${name} down`))
      other.sluice.on('rate_limit.backend_up', () => told.push(`${name} up`))
      others.push(other)
    }
    const viewer = await MonitorHarness.open(beside, { clock: m.clock })
    const words = async (of: MonitorHarness): Promise<unknown[]> =>
      ((await of.get('/overview'))['attention'] as Json[])
        .filter(({ kind: each }) => each === 'backend.down')
        .map((each) => String(each['words']).replace(/ since .*/, ''))
    const healthy = async (): Promise<unknown> => ((await viewer.get('/limits/stripe'))['backend'] as Json)['healthy']
    expect([await words(viewer), await healthy()]).toEqual([[], true])

    caller.isDown = idle.isDown = true
    await m.sluice.enqueue(charge)
    await m.clock.advance('3s')
    expect(await words(m)).toEqual(['This process cannot reach the backend shared of budgets'])
    expect(await words(viewer)).toEqual(['Another process cannot reach the backend shared of budgets'])
    await m.clock.advance('10s')
    // It asked nothing by itself: it has nothing to do. The one that can reach the backend tells nothing.
    expect(told).toEqual(['idle down'])
    expect(await words(others[0] as MonitorHarness)).toEqual([
      'This process and another one cannot reach the backend shared of budgets',
    ])
    expect(await words(viewer)).toEqual(['2 other processes cannot reach the backend shared of budgets'])
    expect(await healthy()).toBe(false)

    // A report counts only while its process lives, and is taken back when the process stops.
    await m.clock.advance('2m')
    expect(await words(viewer)).toHaveLength(1)
    await others[0]?.sluice.stop({ within: 0 })
    expect(await words(viewer)).toEqual(['Another process cannot reach the backend shared of budgets'])
    caller.isDown = false
    await m.clock.advance('5s')
    expect([await words(m), await words(viewer), await healthy()]).toEqual([[], [], true])
  })
})
