import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import type { Json } from '../http/http-harness.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { UnreliableBackend } from '../engine/unreliable-backend.ts'
import { MonitorHarness } from './monitor-harness.ts'

const KINDS = await everyStore('the series of the monitor')
const crm = limit('crm', { rate: 1, per: '10s', burst: 1 })
const sync = task('sync', input<{ tenant: string }>(), {
  limits: [crm.by('tenant')],
  queue: 'mail',
  run: () => undefined,
})
const broken = task('broken', {
  retry: { attempts: 1 },
  run: () => {
    throw new Error('no')
  },
})

/** The sum of a metric over its points. */
async function sumOf(m: MonitorHarness, query: string): Promise<number> {
  const { series } = await m.get(`/series?${query}`)
  const [first] = series as { points: [number, number | null][] }[]
  return (first?.points ?? []).reduce((sum, [, value]) => sum + (value ?? 0), 0)
}

describe.each(KINDS)('on $name', (kind) => {
  test('starts, ends, failures and waits are counted by limit, key, queue and task', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [sync, broken] })
    for (const tenant of ['acme', 'acme', 'acme', 'beta']) await m.sluice.enqueue(sync, { tenant })
    for (let i = 0; i < 6; i++) await m.sluice.enqueue(broken)
    await m.clock.advance('45s')
    const table: readonly (readonly [string, number])[] = [
      ['metric=started', 10],
      ['metric=completed', 4],
      ['metric=failed', 6],
      ['metric=started&queue=mail', 4],
      ['metric=failed&task=broken', 6],
      ['metric=started&limit=crm', 4],
      ['metric=units&limit=crm', 4],
      ['metric=started&limit=crm&key=acme', 3],
      ['metric=started&limit=crm&key=none', 0],
      ['metric=denied&limit=crm&key=acme', 2],
      ['metric=waitedMs&limit=crm&key=acme', 30_000],
      ['metric=started&step=10s&from=20s', 1],
    ]
    for (const [query, sum] of table)
      expect([query, Math.round((await sumOf(m, query)) / 100)]).toEqual([query, Math.round(sum / 100)])
    for (const [query, sum] of table) if (sum < 100) expect([query, await sumOf(m, query)]).toEqual([query, sum])
    expect(await m.get('/series?metric=started,waitP95&limit=crm&from=1m&step=10s')).toMatchObject({
      step: 10_000,
      series: [
        { metric: 'started', unit: 'jobs' },
        { metric: 'waitP95', unit: 'ms' },
      ],
    })
    const used = await m.get('/series?metric=budget,units&limit=crm&key=acme&from=1m&step=10s')
    const points = (used['series'] as { metric: string; unit: string; points: [number, number][] }[]).map(
      ({ metric, unit, points: all }) => [metric, unit, all.map(([, value]) => value).filter((value) => value > 0)],
    )
    expect([used['budget'], points]).toEqual([
      1,
      [
        ['budget', 'share', [1, 1, 1]],
        ['units', 'units', [1, 1, 1]],
      ],
    ])
    for (const odd of ['metric=budget', 'metric=budget&limit=crm'])
      expect([odd, (await m.send('GET', `/series?${odd}`)).status]).toEqual([odd, 400])
    expect(await m.get('/series?metric=started')).toMatchObject({ budget: null })
    const tasks = (await m.get('/tasks'))['tasks'] as Json[]
    expect(tasks).toMatchObject([
      { task: 'broken', started: 6, failed: 6, failureRate: 1, listed: true, waits: [] },
      { task: 'sync', started: 4, completed: 4, failureRate: 0, waited: 2, waits: [{ limit: 'crm' }] },
    ])
    const [longest] = (tasks.at(-1)?.['waits'] ?? []) as { ms: number }[]
    expect(Math.round((longest?.ms ?? 0) / 100)).toBe(300)
    // Every window of the page is one of the API.
    for (const window of ['10m', '1h', '6h', '1d', '2d'])
      expect((await m.get(`/tasks?window=${window}`))['window']).toBe(window)
    const found = await m.get('/overview')
    expect(found['perMinute']).toMatchObject({ started: 10, completed: 4, failed: 6, waited: 2 })
    expect(found['attention']).toMatchObject([{ kind: 'task.failing', subject: { task: 'broken' }, count: 6 }])
    expect(await m.get('/limits/crm')).toMatchObject({ recent: { started: 4, denied: 2 } })
  })

  test('a backend of budgets that cannot be reached needs attention until it is back', async () => {
    const backend = new UnreliableBackend(createManualClock())
    const api = limit('api', { rate: 5, per: '1s', backend: 'shared' })
    const call = task('call', { limits: [api], run: () => undefined })
    const m = await MonitorHarness.open({ tasks: [call], budgets: { shared: backend } })
    backend.isDown = true
    for (let n = 0; n < 4; n++) await m.sluice.enqueue(call)
    await m.clock.advance('2s')
    expect((await m.get('/overview'))['attention']).toMatchObject([
      { kind: 'backend.down', severity: 'error', subject: { backend: 'shared' }, count: 4 },
    ])
    backend.isDown = false
    await m.clock.advance('5s')
    expect((await m.get('/overview'))['attention']).toEqual([])
  })

  test('a limit that all starts wait for needs attention after ten minutes, and the oldest job that waits is named', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [sync] })
    expect(await m.get('/overview')).toMatchObject({ oldestWaiting: null })
    // A queue is known from the start of an engine that serves it.
    expect(await m.get('/queues/mail')).toMatchObject({ name: 'mail', served: true })
    const jobs = await sync.enqueueMany(Array.from({ length: 68 }, () => ({ tenant: 'acme' })))
    await m.clock.advance('8m')
    expect((await m.get('/overview'))['attention']).toEqual([])
    await m.clock.advance('3m')
    expect(await m.get('/overview')).toMatchObject({
      attention: [{ kind: 'limit.full', subject: { limit: 'crm' }, count: 1 }],
      oldestWaiting: { id: jobs[67]?.id, task: 'sync', queue: 'mail', waitsOn: { limit: 'crm', key: 'acme' } },
    })
    await m.clock.advance('10s')
    expect(await m.get('/overview')).toMatchObject({ attention: [], oldestWaiting: null })
  })

  test('older counts are kept in coarser steps, and nothing is lost or doubled on the way', async () => {
    const m = await MonitorHarness.open({ store: kind.create() })
    const store = await remoteOf(m.sluice).store()
    const startMs = Date.UTC(2026, 0, 1)
    const minutes = (n: number): number => startMs + n * 60_000
    const row = (source: number, n: number): Promise<void> =>
      store.writeSeries(source, [
        { step: 10_000, part: 'limits', at: minutes(n), tallies: { crm: { s: 1, r: { 8: 1 } } } },
      ])
    const sums = async (step: number): Promise<[number, number][]> =>
      (await store.readSeries({ step, part: 'limits', fromMs: 0, toMs: minutes(1e6) })).map(({ at, tallies }) => [
        (at - startMs) / 60_000,
        tallies['crm']?.s ?? 0,
      ])
    // Two processes count the same step, and an answer is lost: the write comes twice.
    for (const [source, n] of [
      [1, 0],
      [2, 0],
      [2, 0],
      [1, 7],
      [1, 14],
      [1, 20],
    ] as const)
      await row(source, n)
    const all = [
      [0, 2],
      [7, 1],
      [14, 1],
      [20, 1],
    ]
    expect(await sums(10_000)).toEqual(all)
    for (let n = 1; n <= 60; n += 7) await store.rollSeries(minutes(n))
    await store.rollSeries(minutes(60))
    expect([await sums(60_000), await sums(900_000)]).toEqual([
      all,
      [
        [0, 4],
        [15, 1],
      ],
    ])
    await store.rollSeries(minutes(130))
    expect([await sums(10_000), await sums(60_000)]).toEqual([
      [
        [14, 1],
        [20, 1],
      ],
      all,
    ])
    await store.rollSeries(minutes(60 * 49))
    expect([await sums(10_000), await sums(60_000), await sums(900_000)]).toEqual([
      [],
      [],
      [
        [0, 4],
        [15, 1],
      ],
    ])
    await store.rollSeries(minutes(60 * 24 * 31))
    expect(await sums(900_000)).toEqual([])
  })

  test('a process that stops writes what it has counted', async () => {
    const store = kind.create()
    const m = await MonitorHarness.open({ store, tasks: [sync] })
    await m.sluice.enqueue(sync, { tenant: 'acme' })
    await m.clock.advance('1s')
    await m.sluice.stop({ within: 0 })
    const next = await MonitorHarness.open({ store })
    await next.clock.advance('20s')
    expect(await sumOf(next, 'metric=started')).toBe(1)
  })

  test.each([
    'metric=starts',
    'metric=started&limit=crm&queue=mail',
    'metric=started&key=acme',
    'metric=started&from=never',
    'metric=started&from=1h&to=2h',
    'metric=started&from=30d&step=10s',
    'metric=started&step=1h',
    'limit=crm',
  ])('%s is refused', async (query) => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [sync] })
    expect((await m.send('GET', `/series?${query}`)).status).toBe(400)
  })
})
