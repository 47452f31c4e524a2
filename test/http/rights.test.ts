import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'
import type { Token } from '../../src/exports/http.ts'
import { HttpHarness, type Json } from './http-harness.ts'

/** One token of each kind. */
const KINDS = {
  producer: { scopes: ['producer'] },
  worker: { scopes: ['worker'] },
  reader: { scopes: ['reader'] },
  operator: { scopes: ['operator'] },
  admin: { scopes: ['admin'] },
  ofTenant: { scopes: ['admin'], tenant: 'acme' },
  oneQueue: { scopes: ['admin'], queues: ['mail'] },
} as const
type Kind = keyof typeof KINDS | 'none'
const TOKENS: Token[] = Object.entries(KINDS).map(([name, kind]) => ({
  token: `${name}-0123456789abcdef`,
  name,
  tenant: '*',
  ...kind,
}))

/** Who is let through to each operation; `ofTenant` and `oneQueue` are admins but for what they are named after. */
const LET: Readonly<Record<string, readonly Kind[]>> = {
  open: ['none', 'producer', 'worker', 'reader', 'operator', 'admin', 'ofTenant', 'oneQueue'],
  producing: ['producer', 'admin', 'ofTenant', 'oneQueue'],
  working: ['worker', 'admin', 'ofTenant', 'oneQueue'],
  'working on all queues': ['worker', 'admin', 'ofTenant'],
  reading: ['reader', 'operator', 'admin', 'ofTenant', 'oneQueue'],
  'reading all queues': ['reader', 'operator', 'admin', 'ofTenant'],
  operating: ['operator', 'admin', 'ofTenant', 'oneQueue'],
  'operating all queues': ['operator', 'admin', 'ofTenant'],
  'operating all tenants': ['operator', 'admin'],
  'administering a queue': ['admin', 'ofTenant', 'oneQueue'],
  administering: ['admin', 'ofTenant'],
  'administering all tenants': ['admin'],
}
const TABLE: Readonly<Record<string, string>> = {
  open: 'manifest health live healthReady ready openApi',
  producing:
    'enqueueJob enqueueBatch activateJob cancelJob createWorkflow cancelWorkflow startFlow signalFlow cancelFlow retryFlow registerCron deleteCron',
  working: 'fetchJobs ackJob nackJob heartbeat putProgress reportProgress',
  'working on all queues':
    'acquireUnits reserveUnits confirmReservation releasePermits extendPermits chargeUnits penalizeBucket',
  reading:
    'getJob explainJob getProgress getWorkflow listFlows getFlow explainFlow listCron listDeadLetter getDeadLetter listQueues queueStats listEvents streamEvents',
  'reading all queues':
    'listRateLimits getRateLimit listRateLimitKeys listBudgets getBudget monitorMe monitorSeries monitorTasks monitorBulks monitorBulk monitorStream monitorOverview monitorLimits monitorLimit monitorLimitKeys monitorLimitKey monitorJobs monitorCountJobs monitorWhatIf monitorJob monitorExplainJob monitorQueues monitorQueue monitorDrainQueue monitorSchedules monitorSchedule monitorFlows monitorFlow monitorExplainFlow monitorWorkers',
  operating:
    'pauseQueue resumeQueue retryDeadLetter deleteDeadLetter adminListQueues adminGetQueue admin_pause_queue admin_resume_queue purgeQueue bulk_retry bulk_cancel bulk_delete listJobs adminGetJob adminCancelJob adminRetryJob deadLetterStats adminListDeadLetter adminGetDeadLetter adminRetryDeadLetter adminDeleteDeadLetter',
  'operating all queues':
    'adminStats tenantStats schedulingStats listPools listWorkers quietWorker deleteWorker monitorOverrideLimit monitorOverrideKey monitorClearLimit monitorClearKey monitorPauseLimit monitorPauseKey monitorResumeLimit monitorResumeKey monitorPenalizeLimit monitorPenalizeKey monitorEnqueueJob monitorStartFlow monitorCancelJob monitorRetryJob monitorDeleteJob monitorPauseQueue monitorResumeQueue monitorBoundQueue monitorDeleteSchedule monitorPauseSchedule monitorResumeSchedule monitorRunSchedule monitorCancelFlow monitorRetryFlow monitorSignalFlow monitorQuietWorker monitorAudit monitorRunJob monitorChangeJob monitorStartBulk monitorStopBulk',
  'operating all tenants': 'metrics',
  'administering a queue': 'configureQueue limitQueue',
  administering: 'putRateLimit deleteRateLimit putPool listAudit',
  'administering all tenants': 'reset',
}
const bearer = (kind: Kind): { headers: Record<string, string> } => ({
  headers: kind === 'none' ? {} : { Authorization: `Bearer ${kind}-0123456789abcdef` },
})
const BODY: Json = {
  type: 'a',
  args: [],
  options: { queue: 'mail' },
  jobs: [{ type: 'a', args: [], options: { queue: 'mail' } }],
  queues: ['mail'],
  concurrency: 1,
}
const ID = '01a20021-deb9-7f2f-a3ad-017f490bb225'

describe('the table of rights', () => {
  test.each(ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const))('%s', async (_, route) => {
    const name = route.name.replace(/_at_.*$/, '')
    const [row = ''] = Object.entries(TABLE).find(([, names]) => names.split(' ').includes(name)) ?? []
    expect(LET, `${name} has no row in the table`).toHaveProperty(row)
    const d = await HttpHarness.open({ http: { tokens: TOKENS, testMode: true } })
    const path = route.path.replace(':id', ID).replace(/:(name|key|limit)/, 'mail')
    const let_: Kind[] = []
    for (const kind of ['none', ...Object.keys(KINDS)] as Kind[]) {
      const over = new AbortController()
      const response = await d.app.fetch(
        new Request(`http://server${path}`, {
          method: route.method,
          headers: { 'Content-Type': 'application/json', ...bearer(kind).headers },
          ...(route.method !== 'GET' && { body: JSON.stringify(BODY) }),
          signal: over.signal,
        }),
      )
      over.abort()
      await response.body?.cancel().catch(() => undefined)
      expect(response.status).toBeLessThan(500)
      if (response.status !== 401 && response.status !== 403) let_.push(kind)
      else expect(response.status).toBe(kind === 'none' ? 401 : 403)
    }
    expect(let_).toEqual(LET[row])
  })
})

describe('a token of one queue', () => {
  const one = bearer('oneQueue')

  test('neither sees, overwrites nor ends another queue’s schedules', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const payroll = { name: 'payroll', cron: '0 0 1 1 *', type: 'pay', args: ['S3CRET'], options: { queue: 'payroll' } }
    expect((await d.post('/ojs/v1/cron', payroll, bearer('producer'))).status).toBe(201)
    expect((await d.get('/ojs/v1/cron', one)).body['crons']).toEqual([])
    const evil = { ...payroll, type: 'evil', options: { queue: 'mail' } }
    expect((await d.post('/ojs/v1/cron', evil, one)).status).toBe(403)
    expect((await d.send('DELETE', '/ojs/v1/cron/payroll', undefined, one)).status).toBe(404)
    expect((await d.get('/ojs/v1/cron', bearer('reader'))).body['crons']).toMatchObject([{ type: 'pay' }])
  })

  test('bounds, limits, pauses and purges no other queue', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const at = (verb: string): string => `/ojs/v1/admin/queues/payroll/${verb}`
    expect((await d.send('PUT', at('config'), { backpressure: { max_depth: 1 } }, one)).status).toBe(403)
    expect((await d.send('PUT', at('rate-limit'), { concurrency: 0 }, one)).status).toBe(403)
    expect((await d.post(at('pause'), {}, one)).status).toBe(403)
    expect((await d.send('DELETE', `${at('jobs')}?confirm=true`, {}, one)).status).toBe(403)
    expect((await d.get('/ojs/v1/admin/jobs?queue=payroll', one)).status).toBe(403)
  })

  test('counts in lists only what it may see', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    for (const queue of ['mail', 'payroll']) await d.push({ queue }, {}, bearer('producer'))
    expect((await d.get('/ojs/v1/admin/jobs', one)).body).toMatchObject({ items: [{}], pagination: { total: 1 } })
    expect((await d.get('/ojs/v1/admin/jobs', bearer('operator'))).body['pagination'].total).toBe(2)
  })

  test('extends no lease of another queue’s jobs', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const id = await d.push({ queue: 'payroll' }, {}, bearer('producer'))
    await d.fetch({ queues: ['payroll'], worker_id: 'alice' }, bearer('worker'))
    const body = { worker_id: 'alice', active_jobs: [id], visibility_timeout_ms: 1 }
    expect((await d.post('/ojs/v1/workers/heartbeat', body, one)).body['jobs_extended']).toEqual([])
  })
})

test('a heartbeat ends no lease, whatever timeout it asks for', async () => {
  const d = await HttpHarness.open({ http: { tokens: TOKENS } })
  const id = await d.push({ queue: 'mail' }, {}, bearer('producer'))
  await d.fetch({ queues: ['mail'], worker_id: 'alice' }, bearer('worker'))
  const body = { worker_id: 'alice', active_jobs: [id], visibility_timeout_ms: 1 }
  await d.post('/ojs/v1/workers/heartbeat', body, bearer('worker'))
  await d.clock.advance('1s')
  expect((await d.get(`/ojs/v1/jobs/${id}`, bearer('reader'))).body['job'].state).toBe('active')
})

test('a tenant’s numbers hold nothing of others', async () => {
  const d = await HttpHarness.open({ http: { tokens: TOKENS } })
  await d.push({ queue: 'mail' }, {}, bearer('producer'))
  const [id] = await d.fetch({ queues: ['mail'] }, bearer('worker'))
  await d.post('/ojs/v1/workers/ack', { job_id: id }, bearer('worker'))
  const { body } = await d.get('/ojs/v1/admin/stats', bearer('ofTenant'))
  expect(body).toMatchObject({ queues: 0, workers: 0, throughput: { processed_per_minute: 0 } })
  const all = await d.get('/ojs/v1/admin/stats', bearer('operator'))
  expect(all.body['throughput'].processed_per_minute).toBe(1)
})
