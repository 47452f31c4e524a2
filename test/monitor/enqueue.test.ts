// Jobs and flows that people start at the monitor, and the wait for an empty queue.
import { describe, expect, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, limit, type SluiceOptions, task } from '../../src/exports/index.ts'
import { HttpHarness, type Json } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'

const stores = await everyStore('jobs from the monitor')

const checked = {
  '~standard': {
    version: 1,
    vendor: 'own',
    validate: (value: unknown) => (value === 'bad' ? { issues: [{ message: 'it is bad' }] } : { value }),
  },
} as const
/** The id of the job, or of the flow, of an answer. */
const idOf = ({ body }: { readonly body: Json }): string => ((body['job'] ?? body) as { readonly id: string }).id
const MONITOR = { headers: { 'X-Sluice-Request': '1' } }

describe.each(stores)('on $name', ({ create }) => {
  const ran: unknown[] = []
  const crm = limit('crm', { rate: 1, per: '1h', burst: 1 })
  const work = task('work', checked as never, {
    limits: [crm.by((given: unknown) => String(given))],
    retry: { attempts: 7 },
    run: (given) => void ran.push(given),
  })
  const asks = workflow('asks', input<string>(), {
    signals: { go: input<null>() },
    run: async (given, flow) => {
      await flow.signal('go')
      return given
    },
  })
  const open = (options: Partial<SluiceOptions> = {}): Promise<MonitorHarness> =>
    MonitorHarness.open({ store: create(), tasks: [work], workflows: [asks], ...options })

  test('a job of a listed task has the limits of its code, and its input is checked', async () => {
    const m = await open()
    const first = await m.send('POST', '/jobs', { task: 'work', input: 'acme', priority: 5, reason: 'again' })
    expect(first).toMatchObject({ status: 201, body: { created: true, job: { task: 'work', priority: 5 } } })
    await m.clock.advance('1s')
    expect(ran).toContain('acme')
    const id = idOf(await m.send('POST', '/jobs', { task: 'work', input: 'acme', unique: 'u' }))
    const job = await m.get(`/jobs/${id}`)
    expect(job).toMatchObject({ limits: [{ limit: 'crm', key: 'acme', weight: 1 }], maxAttempts: 7 })
    const again = await m.send('POST', '/jobs', { task: 'work', input: 'acme', unique: 'u' })
    expect(again).toMatchObject({ status: 200, body: { created: false, job: { id } } })
    expect((await m.send('POST', '/jobs', { task: 'work', input: 'bad' })).status).toBe(400)
    const later = await m.send('POST', '/jobs', { task: 'work', input: 'b', runAt: '5m', attempts: 2 })
    expect(later.body['job']).toMatchObject({ state: 'scheduled', maxAttempts: 2 })
    expect((await m.get('/audit?action=monitorEnqueueJob'))['entries']).toContainEqual(
      expect.objectContaining({ subject: '/monitor/v1/jobs', reason: 'again' }),
    )
  })

  test('a job of a task elsewhere has the limits that the request names, within the bound of its queue', async () => {
    const m = await open()
    const named = { task: 'elsewhere', input: { a: 1 }, queue: 'far', limits: [{ limit: 'crm', key: 'acme' }] }
    const id = idOf(await m.send('POST', '/jobs', named))
    expect(await m.sluice.jobs.get(id)).toMatchObject({ input: { a: 1 }, queue: 'far', maxAttempts: 3 })
    expect((await m.sluice.jobs.explain(id)).limits).toEqual([{ limit: 'crm', key: 'acme', weight: 1 }])
    await m.sluice.queues.bound('far', 1)
    expect(await m.send('POST', '/jobs', named)).toMatchObject({ status: 429, body: { error: { code: 'QUEUE_FULL' } } })
  })

  test('a job by the name of its limits has the buckets that code would give it', async () => {
    const common = limit('common', { rate: 10, per: '1h' })
    const share = limit('share', { rate: 5, per: '1h', of: { limit: common, atLeast: '1 per 1h', keys: 2 } })
    const other = task('other', input<string>(), { limits: [share.by((given) => given)], run: () => undefined })
    const m = await open({ tasks: [work, other] })
    const key = 'k'.repeat(1025)
    const ofCode = idOf(await m.send('POST', '/jobs', { task: 'work', input: key }))
    const named = idOf(await m.send('POST', '/jobs', { task: 'elsewhere', limits: [{ limit: 'crm', key }] }))
    expect((await m.sluice.jobs.explain(named)).limits).toEqual((await m.sluice.jobs.explain(ofCode)).limits)
    const limits = [{ limit: 'share', key: 'a' }]
    const half = await m.send('POST', '/jobs', { task: 'elsewhere', limits })
    expect(half.status).toBe(422)
    expect(JSON.stringify(half.body)).toContain('common')
    const whole = { task: 'elsewhere', limits: [...limits, { limit: 'common' }] }
    expect((await m.send('POST', '/jobs', whole)).status).toBe(201)
    expect((await m.send('POST', '/jobs', { task: 'other', input: 'a' })).status).toBe(201)
  })

  test('a tenant stores and starts its own, and a reader nothing', async () => {
    const m = await open()
    m.grant = { role: 'operator', name: 'ann', tenant: 'acme' }
    const bare = { task: 'elsewhere', limits: [] }
    const job = idOf(await m.send('POST', '/jobs', bare))
    expect(await m.sluice.jobs.get(job)).toMatchObject({ queue: 'acme/default', meta: { tenant_id: 'acme' } })
    expect((await m.get('/jobs'))['jobs']).toMatchObject([{ id: job, queue: 'default' }])
    const others = { ...bare, limits: [{ limit: 'crm', key: 'acme' }] }
    expect((await m.send('POST', '/jobs', others)).status).toBe(404)
    expect((await m.send('POST', '/jobs', { ...bare, queue: 'birch/default' })).status).toBe(422)
    const start = { workflow: 'asks', input: 'a', key: 'k' }
    const id = idOf(await m.send('POST', '/flows', start))
    expect(await m.send('POST', '/flows', start)).toMatchObject({ status: 200, body: { id, duplicate: true } })
    expect(await m.get(`/flows/${id}`)).toMatchObject({ key: 'k', state: 'running' })
    m.grant = { role: 'operator', name: 'bob', tenant: 'birch' }
    expect((await m.send('GET', `/flows/${id}`)).status).toBe(404)
    expect(await m.send('POST', '/flows', start)).toMatchObject({ status: 201, body: { duplicate: false } })
    m.grant = 'reader'
    expect((await m.send('POST', '/jobs', bare)).status).toBe(403)
    expect((await m.send('POST', '/flows', start)).status).toBe(403)
  })

  test('a queue of a tenant has no limits and terms of the engine’s queue of that name', async () => {
    const far = { concurrency: 1, limits: [crm.by('account')], retry: { attempts: 9 } }
    const m = await open({ queues: { default: { concurrency: 1 }, far } })
    const sent = { task: 'elsewhere', limits: [], queue: 'far', input: { account: 'a' } }
    const found = async (): Promise<unknown> => {
      const id = idOf(await m.send('POST', '/jobs', sent))
      const { limits, job } = await m.sluice.jobs.explain(id)
      return [limits.map(({ key }) => key), job.maxAttempts]
    }
    expect(await found()).toEqual([['a'], 9])
    m.grant = { role: 'operator', name: 'ann', tenant: 'acme' }
    expect(await found()).toEqual([[], 3])
  })

  test('a job of a listed task goes to the queue of its code, unless the request names another', async () => {
    const slow = task('slow', input<null>(), { queue: 'far', run: () => undefined })
    const m = await open({ tasks: [slow], queues: { other: { concurrency: 1 } } })
    const queueOf = async (queue?: string): Promise<unknown> =>
      (await m.sluice.jobs.get(idOf(await m.send('POST', '/jobs', { task: 'slow', queue }))))?.queue
    expect(await Promise.all([queueOf(), queueOf('near')])).toEqual(['far', 'near'])
  })

  test('each tenant has unique keys of its own, and sees no job of another by one', async () => {
    const m = await open()
    const stored: string[] = []
    const sent = { task: 'elsewhere', limits: [], unique: 'u' }
    const all = { role: 'operator', name: 'ann' } as const
    const tenants = [all, ...['acme', 'birch'].map((tenant) => ({ ...all, tenant }))]
    for (const grant of tenants) {
      m.grant = grant
      const answer = await m.send('POST', '/jobs', sent)
      expect(answer).toMatchObject({ status: 201, body: { created: true } })
      stored.push(idOf(answer))
    }
    for (const [i, grant] of tenants.entries()) {
      m.grant = grant
      expect((await m.send('POST', '/jobs', sent)).body).toMatchObject({ created: false, job: { id: stored[i] } })
      expect((await m.get('/jobs?task=elsewhere&uniqueKey=u'))['jobs']).toMatchObject([{ id: stored[i] }])
    }
    m.grant = all
    await m.send('POST', '/jobs', { ...sent, unique: 'acme/v' })
    m.grant = { ...all, tenant: 'acme' }
    expect((await m.send('POST', '/jobs', { ...sent, unique: 'v' })).status).toBe(404)
  })

  test('a queue is waited for until it is empty, or until the time is over, by a reader too', async () => {
    const m = await open({ queues: { other: { concurrency: 1 } } })
    const { id } = await work.enqueue('acme')
    m.grant = 'reader'
    const asked = async (timeout: string): Promise<unknown> =>
      (await m.send('POST', '/queues/default/drain', { timeout })).body
    const soon = asked('2s')
    await m.clock.advance('3s')
    expect(await soon).toEqual({ drained: false })
    const wait = asked('1m')
    await m.sluice.jobs.cancel(id)
    await m.clock.advance('2s')
    expect(await wait).toEqual({ drained: true })
    expect((await m.send('POST', '/queues/default/drain', { timeout: '61s' })).status).toBe(422)
    await work.enqueue('acme')
    await m.clock.advance('1s')
    await work.enqueue('acme')
    const held = asked('1m')
    m.monitor.close()
    await m.clock.advance('1s')
    expect(await held).toEqual({ drained: false })
    m.grant = 'operator'
    expect((await m.get('/audit'))['entries']).toEqual([])
  })

  test('the configuration of a server stands in place of the code of a type', async () => {
    const d = await HttpHarness.open({
      engine: { store: create() },
      http: {
        limits: {
          limits: { partner: { rate: 5, per: '1m', by: 'tenant' } },
          types: { sync: { limits: [{ limit: 'partner' }] } },
        },
      },
    })
    const headers = { ...MONITOR.headers, 'X-OJS-Tenant': 'acme' }
    const answer = await d.send('POST', '/monitor/v1/jobs', { task: 'sync', input: 1, priority: 3 }, { headers })
    const id = idOf(answer)
    expect(answer).toMatchObject({ status: 201, body: { created: true } })
    const { limits } = await d.sluice.jobs.explain(id)
    expect(limits).toMatchObject([{ limit: 'acme/partner', weight: 1 }])
    expect(await d.sluice.jobs.get(id)).toMatchObject({ queue: 'acme/default', priority: 3 })
  })
})
