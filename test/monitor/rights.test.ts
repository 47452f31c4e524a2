import { describe, expect, test } from 'vitest'
import { limit, silentLogger, task } from '../../src/exports/index.ts'
import type { Grant } from '../../src/http/monitor/handler.ts'
import { monitorHandler } from '../../src/http/monitor/handler.ts'
import { MONITOR_ROUTES } from '../../src/http/monitor/routes.ts'
import { HttpHarness } from '../http/http-harness.ts'
import { MonitorHarness } from './monitor-harness.ts'

const crm = limit('crm', { rate: 1, per: '1h', burst: 1 })
const sync = task('sync', { limits: [crm], queue: 'mail', run: () => undefined })
const PLACES = { name: 'crm', key: '~acme', id: '01a20021-deb9-7f2f-a3ad-017f490bb225' }
const GRANTS: Readonly<Record<string, Grant | null>> = {
  nobody: null,
  'a reader': 'reader',
  'an operator': 'operator',
  "a tenant's reader": { role: 'reader', tenant: 'acme' },
  "a tenant's operator": { role: 'operator', tenant: 'acme' },
}

describe('who may do what', () => {
  test.each(MONITOR_ROUTES.map((route) => [`${route.method} ${route.path}`, route] as const))(
    '%s',
    async (_, route) => {
      const m = await MonitorHarness.open({ tasks: [sync] })
      await m.sluice.enqueue(sync)
      const path = route.path
        .replace('/monitor/v1', '')
        .replaceAll(/:(\w+)/g, (_all, part: keyof typeof PLACES) => PLACES[part])
      const body = route.method === 'GET' || route.method === 'DELETE' ? undefined : {}
      for (const [name, grant] of Object.entries(GRANTS)) {
        m.grant = grant
        const { status, body: answer } = await m.send(route.method, path, body)
        const isOperator = typeof grant === 'object' ? grant?.role === 'operator' : grant === 'operator'
        if (grant === null) expect([name, status]).toEqual([name, 401])
        else if (route.right.scope === 'operator' && !isOperator) expect([name, status]).toEqual([name, 403])
        else expect([name, [401, 403].includes(status) || status >= 500]).toEqual([name, false])
        if (grant === null || status === 403) expect(JSON.stringify(answer)).not.toContain('crm')
      }
    },
  )

  test('a change needs a proof of its origin', async () => {
    const m = await MonitorHarness.open({ tasks: [sync] })
    const put = (headers: Record<string, string>): Promise<number> =>
      m.monitor
        .fetch(new Request('http://app/monitor/v1/limits/crm/pause', { method: 'PUT', headers }))
        .then(({ status }) => status)
    expect(await put({})).toBe(403)
    expect(await put({ 'X-Sluice-Request': '1', 'Sec-Fetch-Site': 'cross-site' })).toBe(403)
    expect(await put({ 'X-Sluice-Request': '1', 'Sec-Fetch-Site': 'same-site' })).toBe(403)
    expect((await m.get('/limits/crm'))['paused']).toBe(false)
    expect(await put({ 'X-Sluice-Request': '1', 'Sec-Fetch-Site': 'same-origin' })).toBe(200)
    expect(await put({ Authorization: 'Bearer of-the-application' })).toBe(200)
  })

  test('an authorize that throws or answers nonsense lets no caller in', async () => {
    const m = await MonitorHarness.open({ tasks: [sync] })
    for (const authorize of [
      () => 'admin',
      () => true,
      () => ({ role: 'operator', tenant: 'a/b' }),
      () => ({ role: 'operator', name: '' }),
      () => Promise.reject(new Error('the database of users is away')),
    ]) {
      const monitor = monitorHandler({ sluice: m.sluice, authorize: authorize as never, logger: silentLogger })
      const { status } = await monitor.fetch(new Request('http://app/monitor/v1/overview'))
      expect(status).toBe(500)
      monitor.close()
    }
  })

  test.each([
    ['authorize is missing', { authorize: undefined }],
    ['an option is misspelt', { authorise: () => null }],
    ['a base path has a slash at its end', { basePath: '/jobs/' }],
    ['redact is a text', { redact: 'password' }],
  ])('it is not made if %s', async (_, wrong) => {
    const m = await MonitorHarness.open()
    const options = { sluice: m.sluice, authorize: () => null, ...wrong }
    expect(() => monitorHandler(options as never)).toThrow(expect.objectContaining({ code: 'option.invalid' }))
  })

  test('it serves its paths alone, behind its base path', async () => {
    const m = await MonitorHarness.open({}, { basePath: '/admin/jobs' })
    const status = async (path: string): Promise<number> =>
      (await m.monitor.fetch(new Request(`http://app${path}`))).status
    expect(await status('/admin/jobs/monitor/v1/me')).toBe(200)
    expect(await status('/monitor/v1/me')).toBe(404)
    expect(await status('/admin/jobs/ojs/v1/queues')).toBe(404)
    expect(m.monitor.serves('/admin/jobs/monitor/v1/me')).toBe(true)
    expect(m.monitor.serves('/admin/jobs')).toBe(false)
    expect(await status('/admin/jobs/openapi.json')).toBe(200)
  })
})

describe('a tenant', () => {
  const TOKENS = [
    { token: 'root-0123456789abcdef', name: 'root', scopes: ['admin'], tenant: '*' },
    { token: 'acme-0123456789abcdef', name: 'of-acme', scopes: ['operator'], tenant: 'acme' },
    { token: 'beta-0123456789abcdef', name: 'of-beta', scopes: ['operator', 'producer'], tenant: 'beta' },
  ] as const
  const as = (who: string): { headers: Record<string, string> } => ({
    headers: { Authorization: `Bearer ${who}-0123456789abcdef` },
  })

  test('sees and changes nothing of another one', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const rate_limit = { key: 'crm', concurrency: 1 }
    const id = await d.push({ queue: 'mail', rate_limit }, {}, as('beta'))
    await d.push({ queue: 'mail', rate_limit }, {}, as('beta'))
    await d.post('/ojs/v1/cron', { name: 'nightly', cron: '@daily', type: 'a', options: { queue: 'mail' } }, as('beta'))
    await d.send('PUT', '/monitor/v1/limits/crm/pause', { reason: 'S3CRET' }, as('beta'))
    // The sums of all tenants are for those who see all of them.
    expect((await d.get('/monitor/v1/series?metric=started', as('acme'))).status).toBe(400)
    expect((await d.get('/monitor/v1/series?metric=started&queue=mail', as('acme'))).status).toBe(200)
    const reads = MONITOR_ROUTES.filter(
      ({ method, path }) => method === 'GET' && !path.includes(':') && !/\/(stream|series)$/.test(path),
    )
    for (const { path } of reads) {
      const { status, body } = await d.get(path, as('acme'))
      expect([path, status]).toEqual([path, 200])
      for (const word of ['mail', 'crm', 'nightly', 'S3CRET', 'beta', id])
        expect(JSON.stringify(body)).not.toContain(word)
    }
    const odd = encodeURIComponent
    for (const path of [
      '/limits/crm',
      `/limits/${odd('beta/crm')}`,
      '/limits/crm/keys',
      `/jobs/${id}`,
      `/jobs/${id}/explain`,
      '/queues/mail',
      `/queues/${odd('beta/mail')}`,
      '/schedules/nightly',
      `/schedules/${odd('beta/nightly')}`,
    ])
      expect([path, (await d.get(`/monitor/v1${path}`, as('acme'))).status]).toEqual([path, 404])
    for (const [method, path] of [
      ['PUT', `/limits/${odd('beta/crm')}/resume`],
      ['PUT', `/queues/${odd('beta/mail')}/pause`],
      ['POST', `/jobs/${id}/cancel`],
      ['PUT', `/schedules/${odd('beta/nightly')}/pause`],
      ['POST', `/schedules/${odd('beta/nightly')}/run`],
      ['DELETE', `/schedules/${odd('beta/nightly')}`],
    ] as const)
      expect([path, (await d.send(method, `/monitor/v1${path}`, undefined, as('acme'))).status]).toEqual([path, 404])
    expect((await d.get('/monitor/v1/limits', as('beta'))).body['limits']).toMatchObject([
      { name: 'crm', paused: true },
    ])
    expect((await d.get(`/monitor/v1/jobs/${id}`, as('beta'))).body).toMatchObject({
      queue: 'mail',
      state: 'available',
    })
    expect((await d.get('/monitor/v1/limits', as('root'))).body['limits']).toMatchObject([{ name: 'beta/crm' }])
  })
})
