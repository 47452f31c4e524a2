// A tenant and a pause of a limit that all tenants share.
import { describe, expect, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, limit } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Sending } from './http-harness.ts'

const KINDS = await everyStore('what a tenant is told of a pause')
const SECRET = '0123456789abcdef'
const TOKENS = (['acme', '*'] as const).map((tenant) => ({
  token: `${tenant === '*' ? 'root' : tenant}-${SECRET}`,
  name: tenant === '*' ? 'ann-of-ops' : 'acme',
  scopes: ['admin' as const],
  tenant,
}))
const as = (who: 'acme' | 'root'): Sending => ({ headers: { Authorization: `Bearer ${who}-${SECRET}` } })
const PACE = { rate: 100, per: '1h', shared: true } as const
const LIMITS = { limits: { all: PACE, own: { ...PACE, by: 'tenant' } } } as const
const UNTIL = '2026-01-01T05:00:00.000Z'
const all = limit('all', { rate: 100, per: '1h' })
const slow = workflow('slow', input<null>(), {
  run: (_, flow) => flow.step('ask', { limits: [all] }, () => null),
})

describe.each(KINDS)('on $name', (kind) => {
  test('that it is paused and until when, but not by whom or why; of its own key, all', async () => {
    const d = await HttpHarness.open({
      http: { tokens: TOKENS, limits: LIMITS },
      engine: { store: kind.create(), workflows: [slow], queues: { default: { concurrency: 2 } } },
    })
    const use = (name: string): Promise<string> => d.push({ rate_limit: { x_limit: { name } } }, {}, as('acme'))
    const ids = [await use('all'), await use('own')]
    const pause = async (path: string, reason: string): Promise<void> => {
      const { status } = await d.send('PUT', `/monitor/v1/limits/${path}/pause`, { until: UNTIL, reason }, as('root'))
      expect(status).toBe(200)
    }
    await pause('all', 'S3CRET of all')
    await pause('own', 'S3CRET of every key')
    await pause('own/keys/~acme', 'a word for acme')
    const flow = (await d.post('/flows/v1/slow', { input: null }, as('acme'))).body['id'] as string
    await d.fetch({}, as('acme'))
    await d.clock.advance('1s')
    const paths = [
      ...ids.flatMap((id) => [`/ojs/v1/jobs/${id}`, `/ojs/v1/jobs/${id}/explain`, `/monitor/v1/jobs/${id}`]),
      ...ids.flatMap((id) => [`/monitor/v1/jobs/${id}/explain`, `/ojs/v1/admin/jobs/${id}`]),
      `/flows/v1/flows/${flow}`,
      `/flows/v1/flows/${flow}/explain`,
      `/monitor/v1/flows/${flow}`,
      `/monitor/v1/flows/${flow}/explain`,
      ...['all', 'own'].flatMap((name) => [`/monitor/v1/limits/${name}`, `/ojs/v1/rate-limits/${name}`]),
      '/monitor/v1/limits/all/keys',
      '/monitor/v1/limits/all/keys/~',
      '/monitor/v1/limits/own/keys/~acme',
      '/limiter/v1/limits/all',
      '/limiter/v1/limits/own',
      '/monitor/v1/limits',
      '/monitor/v1/overview',
      '/monitor/v1/audit',
      '/ojs/v1/rate-limits',
    ]
    const told = async (path: string, who: 'acme' | 'root'): Promise<string> => {
      const { status, body } = await d.get(path, as(who))
      expect([path, status]).toEqual([path, 200])
      return JSON.stringify(body)
    }
    for (const path of paths) {
      const text = await told(path, 'acme')
      expect([path, text.includes('S3CRET')]).toEqual([path, false])
      if (!text.includes('a word for acme')) expect([path, text.includes('ann-of-ops')]).toEqual([path, false])
    }
    const words = async (path: string, who: 'acme' | 'root'): Promise<string> =>
      (await d.get(path, as(who))).body['words'] as string
    for (const path of [`/ojs/v1/jobs/${ids[0]}/explain`, `/monitor/v1/jobs/${ids[0]}/explain`]) {
      expect(await words(path, 'acme')).toContain(`is paused until ${UNTIL}`)
      expect(await told(path, 'acme')).toContain('"kind":"pause"')
    }
    for (const path of [`/flows/v1/flows/${flow}/explain`, `/monitor/v1/flows/${flow}/explain`])
      expect(await words(path, 'acme')).toContain(`is paused until ${UNTIL}`)
    expect(await words(`/monitor/v1/jobs/${ids[0]}/explain`, 'root')).toContain('by ann-of-ops (S3CRET of all)')
    expect(await told('/monitor/v1/limits/own/keys/~acme', 'acme')).toContain('a word for acme')
  })
})
