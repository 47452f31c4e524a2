import { describe, expect, onTestFinished, test } from 'vitest'
import { Sluice, silentLogger, task } from '../../src/exports/index.ts'
import { type Grant, monitorHandler } from '../../src/http/monitor/handler.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { WatchedPool } from '../store/postgres-watched.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'
import { Stream } from './stream-reader.ts'

const KINDS = await everyStore('the stream of the monitor')
const work = task('work', { queue: 'mail', run: () => undefined })

const open = (m: MonitorHarness, headers: Record<string, string> = {}): Promise<Stream> =>
  Stream.open((request) => m.monitor.fetch(request), '/monitor/v1/stream', headers)

describe.each(KINDS)('on $name', (kind) => {
  test('a viewer learns what has changed, at most four times a second', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [work] })
    const stream = await open(m)
    expect(stream.of('hello')).toMatchObject([{ now: '2026-01-01T00:00:00.000Z' }])
    const { id } = await m.sluice.enqueue(work)
    await m.clock.advance('240ms')
    expect(stream.of('change')).toEqual([])
    await m.clock.advance('20ms')
    expect(stream.of('change')).toMatchObject([{ topics: { jobs: [id], queues: ['mail'] } }])
    for (let i = 0; i < 20; i++) {
      await m.sluice.enqueue(work)
      await m.clock.advance('50ms')
    }
    expect(stream.of('change').length).toBeLessThanOrEqual(6)
    await m.send('PUT', '/queues/mail/pause')
    await m.clock.advance('300ms')
    expect(stream.of('change').at(-1)).toMatchObject({ topics: { queues: true, audit: true } })
  })

  test('one who returns gets what came meanwhile; one whose place is unknown is told to read all again', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [work] })
    const first = await open(m)
    await m.sluice.enqueue(work)
    await m.clock.advance('300ms')
    const { lastId } = first
    const { id } = await m.sluice.enqueue(work)
    await m.clock.advance('300ms')
    const second = await open(m, { 'Last-Event-ID': lastId })
    expect(second.of('change')).toMatchObject([{ topics: { jobs: [id] } }])
    expect(second.of('reset')).toEqual([])
    for (const odd of ['x', '', 'zz-1', `${lastId.split('-')[0]}-999`, `${lastId.split('-')[0]}--1`])
      expect((await open(m, { 'Last-Event-ID': odd })).of('reset')).toEqual([{}])
  })

  test('a stream ends when its right is revoked, and when the monitor closes', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [work] })
    const stream = await open(m)
    await m.clock.advance('3s')
    expect(stream.ended).toBe(false)
    m.grant = null
    await m.clock.advance('2s')
    await new Promise(setImmediate)
    expect([stream.ended, stream.of('end')]).toEqual([true, [{ reason: 'revoked' }]])
    m.grant = 'reader'
    const other = await open(m)
    m.monitor.close()
    await new Promise(setImmediate)
    expect([other.ended, other.of('end')]).toEqual([true, [{ reason: 'closing' }]])
  })

  test('a viewer learns within a second what another process has changed', async () => {
    const store = kind.create()
    const m = await MonitorHarness.open({ store, tasks: [work] })
    const stream = await open(m)
    const other = new Sluice({
      store,
      tasks: [task('other', { run: () => undefined })],
      clock: m.clock,
      logger: silentLogger,
    })
    onTestFinished(() => other.stop({ within: 0 }))
    await other.limits.list()
    await m.clock.advance('1s')
    const before = stream.of('change').length
    await (
      await import('../../src/remote/remote.ts')
    )
      .remoteOf(other)
      .store()
      .then((their) => their.pauseQueue('mail', true))
    await m.clock.advance('1300ms')
    expect(stream.of('change').length).toBeGreaterThan(before)
  })
})

const postgres = KINDS.find(({ name }) => name === 'postgres')

test.skipIf(!postgres)(
  'a viewer of a process that begins to listen looks once at what it may have missed',
  async () => {
    const pool = new WatchedPool()
    const mayListen = Promise.withResolvers<void>()
    const schema = new URL(postgres!.create()).searchParams.get('schema')!
    pool.before = (text) => (text.startsWith('LISTEN') ? mayListen.promise : undefined)
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const store = new PostgresStore({ connection: pool, schema, clock, retention: RETENTION, notify: true })
    const sluice = new Sluice({ store, tasks: [work], clock, logger: silentLogger })
    const monitor = monitorHandler({ sluice, authorize: () => ({ role: 'reader', tenant: 'acme' }), clock })
    onTestFinished(async () => {
      monitor.close()
      await sluice.stop({ within: 0 })
      await store.close()
      await pool.end()
    })
    await sluice.start()
    const stream = await Stream.open((request) => monitor.fetch(request), '/monitor/v1/stream')
    // The stream has its store by the time that a later request has been answered from it.
    await monitor.fetch(new Request('http://app/monitor/v1/queues'))
    mayListen.resolve()
    await clock.advance('10s')
    expect(stream.of('change')).toMatchObject([
      { at: '2026-01-01T00:00:01.250Z', topics: { jobs: true, limits: true } },
    ])
  },
)

test('a tenant learns the names of its own things alone', async () => {
  const m = await MonitorHarness.open({ tasks: [work] })
  m.grant = { role: 'reader', tenant: 'acme' }
  const stream = await open(m)
  // Many are told in fewer words.
  for (const jobs of [1, 150]) {
    for (let n = 0; n < jobs; n++) await m.sluice.enqueue(work)
    await m.clock.advance('300ms')
    expect(stream.of('change')).toEqual([])
  }
  expect(stream.text).not.toContain('mail')
})

test('a tenant learns nothing of what others change, and all of what it changes itself', async () => {
  const authorize = ({ headers }: Request): Grant => {
    const tenant = headers.get('x-tenant')
    return { role: 'operator', ...(tenant !== null && { tenant }) }
  }
  const m = await MonitorHarness.open({ tasks: [work] }, { authorize })
  const [ofAcme, ofBeta] = [{ 'X-Tenant': 'acme' }, { 'X-Tenant': 'beta' }]
  const [acme, beta, all] = [await open(m, ofAcme), await open(m, ofBeta), await open(m)]
  const change = async (headers: Record<string, string>): Promise<string> => {
    const { body } = await m.send('POST', '/bulk', { action: 'cancel', filter: { queue: 'mail' } }, headers)
    await m.clock.advance('1s')
    return body['id'] as string
  }
  const { lastId } = beta
  const id = await change(ofAcme)
  for (const stream of [acme, all]) expect(stream.of('change')).toMatchObject([{ topics: { bulk: true, audit: true } }])
  expect(beta.text.includes(id)).toBe(false)
  // A change of all tenants is told to those whose things it has changed.
  await change({})
  await m.clock.advance('10s')
  expect(all.of('change').at(-1)).toMatchObject({ topics: { jobs: true, audit: true } })
  expect(acme.of('change')).toHaveLength(1)
  expect([beta.of('change'), beta.lastId]).toEqual([[], lastId])
})
