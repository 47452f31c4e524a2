import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { OTHER, SERIES_AT_MOST } from '../../src/engine/events/counted.ts'
import { Figures } from '../../src/engine/events/figures.ts'
import { input, limit, silentLogger, task } from '../../src/exports/index.ts'
import { expose } from '../../src/http/metrics/exposition.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'
import { figureOf, readMetrics } from './prometheus-text.ts'

const kinds = await everyStore('metrics of a store')
const OPEN = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

async function metricsOf(d: HttpHarness, accept = 'text/plain'): Promise<{ text: string; type: string | null }> {
  const answer = await d.app.fetch(new Request('http://server/metrics', { headers: { Accept: accept } }))
  return { text: await answer.text(), type: answer.headers.get('content-type') }
}

const gate = limit('gate', { rate: 2, per: '10s' })

describe.each(kinds)('metrics on $name', ({ create }) => {
  test('count jobs, runs, waits, units, claims and what stands in the store', async () => {
    const work = task('work.item', input<{ fails: boolean }>(), {
      limits: [gate],
      retry: { attempts: 1 },
      run: ({ fails }) => {
        if (fails) throw new RangeError('no')
      },
    })
    const d = await HttpHarness.open({ engine: { store: create(), tasks: [work], queues: ['default'] } })
    await work.enqueueMany([{ fails: true }, { fails: false }, { fails: false }])
    await d.clock.advance('1s')
    const { text, type } = await metricsOf(d)
    expect(type).toBe('text/plain; version=0.0.4; charset=utf-8')
    const found = readMetrics(text)
    const who = { queue: 'default', task: 'work.item' }
    const ofGate = { limit: 'gate' }
    expect(figureOf(found, 'sluice_job_started_total', who)).toBe(2)
    expect(figureOf(found, 'sluice_job_completed_total', who)).toBe(1)
    expect(figureOf(found, 'sluice_job_failed_total', who)).toBe(1)
    expect(figureOf(found, 'sluice_job_discarded_total', who)).toBe(1)
    expect(figureOf(found, 'sluice_job_run_seconds_count', { task: 'work.item', outcome: 'failed' })).toBe(1)
    expect(figureOf(found, 'sluice_limit_wait_seconds_count', ofGate)).toBe(2)
    expect(figureOf(found, 'sluice_limit_units_total', ofGate)).toBe(2)
    expect(figureOf(found, 'sluice_limit_throttled_total', ofGate)).toBe(1)
    expect(figureOf(found, 'sluice_limit_waiting', ofGate)).toBe(1)
    expect(figureOf(found, 'sluice_limit_used_ratio', ofGate)).toBeCloseTo(1, 0)
    expect(figureOf(found, 'sluice_jobs', { queue: 'default', state: 'available' })).toBe(1)
    expect(figureOf(found, 'sluice_jobs', { queue: 'default', state: 'discarded' })).toBe(1)
    expect(figureOf(found, 'sluice_queue_workers', { queue: 'default' })).toBe(1)
    expect(figureOf(found, 'sluice_claim_duration_seconds_count', { outcome: 'completed' })).toBeGreaterThan(0)
    expect(figureOf(found, 'sluice_claim_age_seconds')).toBeLessThanOrEqual(5)
    expect(found.get('sluice_event_loop_delay_seconds')).toHaveLength(3)
    await d.clock.advance('20s')
    const later = readMetrics((await metricsOf(d)).text)
    expect(figureOf(later, 'sluice_job_completed_total', who)).toBe(2)
    const below = (le: string) => figureOf(later, 'sluice_limit_wait_seconds_bucket', { ...ofGate, le })
    expect([below('0'), below('1'), below('+Inf')]).toEqual([2, 2, 3])
    expect(figureOf(later, 'sluice_limit_wait_seconds_sum', ofGate)).toBeGreaterThan(1)
  })

  test('are OpenMetrics for who asks for it', async () => {
    const d = await HttpHarness.open({ engine: { store: create() } })
    await d.push()
    await d.fetch()
    const { text, type } = await metricsOf(d, `${OPEN},text/plain;q=0.5`)
    expect(type).toBe(OPEN)
    const lines = text.split('\n')
    expect(lines.slice(-2)).toEqual(['# EOF', ''])
    expect(text).not.toContain('\n\n')
    const typed = lines.filter((line) => line.startsWith('# TYPE ')).map((line) => line.split(' ').slice(2))
    expect(new Set(typed.map(([name]) => name)).size).toBe(typed.length)
    for (const [name, kind] of typed) {
      const end = { counter: '_total', gauge: '', histogram: '(_bucket|_sum|_count)' }[kind as 'counter']
      const samples = lines.filter((line) => new RegExp(`^${name}(_total|_bucket|_sum|_count)?[{ ]`).test(line))
      for (const sample of samples) expect(sample).toMatch(new RegExp(`^${name}${end}(\\{[^}]*\\})? [-+.e\\d]+$|le="`))
    }
    expect(text).toContain('sluice_job_started_total{queue="q",task="work"} 1')
    expect(text).toContain('# TYPE sluice_job_started counter')
  })

  test('are not for a token of one tenant, nor for a reader', async () => {
    const tokens = [
      { name: 'of acme', token: 'acme-0123456789abcdef', scopes: ['admin'], tenant: 'acme' },
      { name: 'reads', token: 'read-0123456789abcdef', scopes: ['reader'], tenant: '*' },
    ] as const
    const d = await HttpHarness.open({ engine: { store: create() }, http: { tokens } })
    for (const { token } of tokens)
      expect((await d.get('/metrics', { headers: { Authorization: `Bearer ${token}` } })).status).toBe(403)
    expect((await d.get('/metrics')).status).toBe(401)
  })

  test('the tables have the version that this Sluice knows', async () => {
    const d = await HttpHarness.open({ engine: { store: create() } })
    const { stored, known } = await (await remoteOf(d.sluice).store()).schema()
    expect(stored).toBe(known)
    expect(known).toBeGreaterThan(20)
  })

  test('ready names what is not as it has to be: the store, its tables, or claims that do not go on', async () => {
    const d = await HttpHarness.open({ engine: { store: create() } })
    const store = await remoteOf(d.sluice).store()
    const checks = async (): Promise<unknown> => (await d.get('/health/ready')).body['checks']
    await d.clock.advance('1m')
    expect(await checks()).toEqual({ server: 'ok', store: 'ok', schema: 'ok', claims: 'ok' })
    const claim = store.claim.bind(store)
    store.claim = () => Promise.reject(new SluiceError('store.io', 'no disk'))
    await d.clock.advance('9s')
    expect((await d.get('/health/ready')).status).toBe(200)
    await d.clock.advance('6s')
    expect((await d.get('/health/ready')).status).toBe(503)
    expect(await checks()).toMatchObject({ store: 'ok', claims: expect.stringContaining(' s old') })
    expect(
      figureOf(readMetrics((await metricsOf(d)).text), 'sluice_store_errors_total', { code: 'store.io' }),
    ).toBeGreaterThan(0)
    store.claim = claim
    await d.clock.advance('6s')
    expect((await d.get('/ready')).status).toBe(200)
    const { known } = await store.schema()
    store.schema = async () => ({ stored: known + 1, known })
    expect((await d.get('/health/ready')).status).toBe(200)
    store.schema = async () => ({ stored: known - 1, known })
    expect((await d.get('/health/ready')).status).toBe(503)
    store.schema = () => Promise.reject(new SluiceError('store.io', 'no disk'))
    expect(await checks()).toMatchObject({ store: 'does not answer', schema: 'unknown' })
    expect((await d.get('/health/live')).status).toBe(200)
  })
})

describe('the text of metrics', () => {
  test('bears any label', () => {
    const odd = ['a"b', 'back\\slash', 'two\nlines', 'ü 漢', '{a="b"} 1']
    const series = odd.map((label, value) => ({ labels: [label], value }))
    for (const isOpen of [false, true]) {
      const text = expose([{ kind: 'gauge', name: 'odd', help: 'Odd\n"names".', labels: ['of'], series }], isOpen)
      const metrics = readMetrics(text).get('odd') ?? []
      expect(metrics.map(({ value }) => Number(value))).toEqual([0, 1, 2, 3, 4])
      expect(metrics.map(({ labels }) => labels?.['of'])).toEqual(odd)
      expect(text.split('\n')).toHaveLength(isOpen ? 9 : 8)
    }
  })

  test('has a bound of series, and loses no count beyond it', () => {
    const figures = new Figures(() => 0)
    const job = { queue: 'q', uses: [], waitedFor: null, startedUs: 0, availableUs: 0 }
    for (let n = 0; n < SERIES_AT_MOST + 50; n++) figures.start({ ...job, task: `t${n}` } as never)
    const { all } = figures.started
    expect(all.length).toBe(SERIES_AT_MOST + 1)
    expect(all.at(-1)).toEqual({ labels: [OTHER, OTHER], value: 50 })
  })
})

test('a server that runs no job is ready, and counts the runs of its remote workers', async () => {
  const d = await HttpHarness.open({ http: { logger: silentLogger } })
  const id = await d.push()
  await d.fetch()
  await d.clock.advance('2s')
  await d.ack(id)
  const found = readMetrics((await metricsOf(d)).text)
  expect(figureOf(found, 'sluice_job_completed_total', { task: 'work' })).toBe(1)
  const below = (le: string) => figureOf(found, 'sluice_job_run_seconds_bucket', { le })
  expect([below('1'), below('2.5')]).toEqual([0, 1])
  expect(figureOf(found, 'ojs_jobs', { state: 'completed' })).toBe(1)
  expect(figureOf(found, 'ojs_events_total')).toBeGreaterThan(0)
})
