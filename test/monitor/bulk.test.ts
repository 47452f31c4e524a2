import { describe, expect, onTestFinished, test } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { input, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { monitorHandler } from '../../src/http/monitor/handler.ts'
import { type Answer, HttpHarness, type Json } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'

const KINDS = await everyStore('bulk changes of the monitor')
const mail = task('mail', input<{ n: number }>(), { queue: 'mail', run: () => undefined })
const other = task('other', input<{ n: number }>(), { queue: 'other', run: () => undefined })

async function filled(store: string, jobs: number): Promise<MonitorHarness> {
  const m = await MonitorHarness.open({ store, tasks: [mail, other], queues: {} })
  await mail.enqueueMany(Array.from({ length: jobs }, (_, n) => ({ n })))
  await other.enqueueMany([{ n: 1 }, { n: 2 }])
  return m
}

/** The change once it has ended. */
async function ended(m: MonitorHarness, id: string): Promise<Json> {
  for (;;) {
    const bulk = await m.get(`/bulk/${id}`)
    if (bulk['state'] !== 'running') return bulk
    await new Promise(setImmediate)
  }
}

describe.each(KINDS)('on $name', (kind) => {
  test('a change of many jobs is counted first, and touches nothing outside of its filter', async () => {
    const m = await filled(kind.create(), 2500)
    const body = { action: 'cancel', filter: { queue: 'mail', state: ['available'] }, reason: 'wrong list' }
    const dry = await m.send('POST', '/bulk', { ...body, dryRun: true })
    expect([dry.status, dry.body]).toEqual([200, { count: 2500, exact: true }])
    expect(await m.get('/jobs/count?state=cancelled')).toEqual({ count: 0, exact: true })
    const begun = await m.send('POST', '/bulk', body)
    expect([begun.status, begun.body]).toMatchObject([
      202,
      { state: 'running', total: 2500, by: 'ann', reason: 'wrong list' },
    ])
    await m.clock.advance('5ms')
    await mail.enqueue({ n: 9999 })
    expect(await ended(m, String(begun.body['id']))).toMatchObject({
      state: 'done',
      changed: 2500,
      total: 2500,
      error: null,
    })
    expect(await m.get('/jobs/count?state=cancelled&queue=mail')).toEqual({ count: 2500, exact: true })
    expect(await m.get('/jobs/count?state=available')).toEqual({ count: 3, exact: true })
    expect((await m.get('/bulk'))['bulks']).toMatchObject([{ id: String(begun.body['id']), action: 'cancel' }])
    expect((await m.get('/audit'))['entries']).toMatchObject([{ action: 'monitorStartBulk', reason: 'wrong list' }])
  })

  test('a change whose start failed does not run later', async () => {
    const m = await filled(kind.create(), 3)
    const { store } = await internalsOf(m.sluice).open()
    const settings = store.settings.bind(store)
    store.settings = () => Promise.reject(new Error('away'))
    const { status } = await m.send('POST', '/bulk', { action: 'cancel', filter: { queue: 'mail' } })
    store.settings = settings
    await m.clock.advance('5m')
    expect([status, (await m.get('/bulk'))['bulks']]).toEqual([500, []])
    expect(await m.get('/jobs/count?state=available')).toEqual({ count: 5, exact: true })
  })

  test('jobs move to another queue, get another priority, and are deleted', async () => {
    const m = await filled(kind.create(), 3)
    const change = async (body: object): Promise<Json> =>
      ended(m, String((await m.send('POST', '/bulk', body)).body['id']))
    expect(await change({ action: 'priority', priority: 7, filter: { queue: 'mail' } })).toMatchObject({ changed: 3 })
    expect((await m.get('/jobs?queue=mail'))['jobs']).toMatchObject([{ priority: 7 }, { priority: 7 }, { priority: 7 }])
    expect(await change({ action: 'move', to: 'slow', filter: { task: 'mail' } })).toMatchObject({ changed: 3 })
    expect(await m.get('/jobs/count?queue=slow')).toMatchObject({ count: 3 })
    expect(await change({ action: 'delete', filter: {}, all: true })).toMatchObject({
      total: 0,
      changed: 0,
      state: 'done',
    })
  })

  test('many changes of one tenant leave those of another on record', async () => {
    const d = await HttpHarness.open({ engine: { store: kind.create() } })
    const change = async (tenant: string): Promise<string> => {
      const headers = { 'X-OJS-Tenant': tenant, 'X-Sluice-Request': '1' }
      const { body } = await d.post('/monitor/v1/bulk', { action: 'cancel', filter: { queue: 'none' } }, { headers })
      return String(body['id'])
    }
    const look = async (id: string, tenant: string): Promise<Answer> =>
      d.get(`/monitor/v1/bulk/${id}`, { headers: { 'X-OJS-Tenant': tenant } })
    const [id, first] = [await change('acme'), await change('globex')]
    let last = first
    for (let n = 0; n < 105; n++) {
      last = await change('globex')
      while ((await look(last, 'globex')).body['state'] === 'running') await new Promise(setImmediate)
    }
    expect((await look(id, 'acme')).body).toMatchObject({ state: 'done' })
    expect([(await look(first, 'globex')).status, (await look(last, 'globex')).status]).toEqual([404, 200])
  })

  test('a change whose server has gone is finished by another one', async () => {
    const store = kind.create()
    const m = await filled(store, 2500)
    const first = new Sluice({ store, tasks: [], queues: {}, clock: m.clock, logger: silentLogger })
    const gone = monitorHandler({ sluice: first, authorize: () => 'operator', clock: m.clock })
    onTestFinished(() => first.stop({ within: 0 }))
    const asked = await gone.fetch(
      new Request('http://app/monitor/v1/bulk', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Sluice-Request': '1' },
        body: JSON.stringify({ action: 'cancel', filter: { queue: 'mail' } }),
      }),
    )
    const { id } = (await asked.json()) as { id: string }
    gone.close()
    await m.clock.advance('20s')
    const between = await m.get('/jobs/count?state=cancelled')
    expect((await m.get(`/bulk/${id}`))['state']).toBe('running')
    expect(between['count']).toBeLessThan(2500)
    await m.clock.advance('40s')
    expect(await ended(m, id)).toMatchObject({ state: 'done', total: 2500 })
    expect(await m.get('/jobs/count?state=cancelled&queue=mail')).toEqual({ count: 2500, exact: true })
    expect(await m.get('/jobs/count?state=available&queue=other')).toMatchObject({ count: 2 })
  })

  test.each([
    ['no filter', { action: 'cancel', filter: {} }],
    ['a misspelt field', { action: 'cancel', filter: { quene: 'mail' } }],
    ['a misspelt member', { action: 'cancel', filter: { queue: 'mail' }, dry_run: true }],
    ['an unknown action', { action: 'purge', filter: { queue: 'mail' } }],
    ['a move to nowhere', { action: 'move', filter: { queue: 'mail' } }],
    ['a queue that is not moved to', { action: 'cancel', to: 'x', filter: { queue: 'mail' } }],
    ['a priority out of range', { action: 'priority', priority: 101, filter: { queue: 'mail' } }],
    ['no priority', { action: 'priority', filter: { queue: 'mail' } }],
    ['an empty text', { action: 'cancel', filter: { q: '' } }],
  ])('%s is refused, and no job is changed', async (_, body) => {
    const m = await filled(kind.create(), 1)
    expect([400, 422]).toContain((await m.send('POST', '/bulk', body)).status)
    expect(await m.get('/bulk')).toEqual({ bulks: [] })
    expect(await m.get('/jobs/count?state=available')).toEqual({ count: 3, exact: true })
  })
})

test('a tenant changes its own jobs alone, and sees its own changes alone', async () => {
  const m = await filled('sqlite::memory:', 2)
  m.grant = { role: 'operator', tenant: 'acme' }
  const { body } = await m.send('POST', '/bulk', { action: 'cancel', filter: {}, all: true })
  expect(await ended(m, String(body['id']))).toMatchObject({ total: 0, changed: 0 })
  m.grant = { role: 'operator', tenant: 'beta' }
  expect(await m.get('/bulk')).toEqual({ bulks: [] })
  expect((await m.send('POST', `/bulk/${String(body['id'])}/stop`)).status).toBe(404)
  m.grant = 'operator'
  expect(await m.get('/jobs/count?state=available')).toEqual({ count: 4, exact: true })
})
