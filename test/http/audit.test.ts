import { describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json, type Sending } from './http-harness.ts'

const KINDS = await everyStore('the record of changes')
const TOKENS = [
  { token: 'admin-0123456789abc', name: 'root', scopes: ['admin'], tenant: '*' },
  { token: 'acme-admin-0123456', name: 'of-acme', scopes: ['admin'], tenant: 'acme' },
] as const
const ROOT: Sending = { headers: { Authorization: 'Bearer admin-0123456789abc' } }
const ACME: Sending = { headers: { Authorization: 'Bearer acme-admin-0123456' } }

describe.each(KINDS)('on $name', (kind) => {
  test('every change is a row and a line of the log, with the name of the token; a refusal and a look are none', async () => {
    const lines: Json[] = []
    const logger = {
      ...silentLogger,
      info: (fields: object, message: string) => void (message === 'change' && lines.push(fields)),
    }
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { tokens: TOKENS, logger } })
    await d.post('/ojs/v1/queues/q/pause', undefined, ROOT)
    await d.send('PUT', '/ojs/v1/rate-limits/crm', { concurrency: 2 }, ACME)
    await d.send('PUT', '/ojs/v1/rate-limits/crm', { concurrency: -1 }, ACME)
    await d.post('/ojs/v1/cron', { name: 'c', cron: '@daily', type: 'a' }, ACME)
    await d.push({}, {}, ROOT)
    await d.get('/ojs/v1/admin/stats', ROOT)
    const { items } = (await d.get('/ojs/v1/admin/audit', ROOT)).body
    expect(items).toMatchObject([
      { token: 'of-acme', tenant: 'acme', action: 'registerCron', subject: '/ojs/v1/cron' },
      { token: 'of-acme', tenant: 'acme', action: 'putRateLimit', asked: { concurrency: 2 } },
      { token: 'root', action: 'pauseQueue', subject: '/ojs/v1/queues/q/pause', at: '2026-01-01T00:00:00.000Z' },
    ])
    expect(lines.map(({ token, action }) => [token, action])).toEqual([
      ['root', 'pauseQueue'],
      ['of-acme', 'putRateLimit'],
      ['of-acme', 'registerCron'],
    ])
    expect((await d.get('/ojs/v1/admin/audit', ACME)).body['items']).toHaveLength(2)
    const { body } = await d.get('/ojs/v1/admin/audit?limit=1', ROOT)
    const more = await d.get(`/ojs/v1/admin/audit?limit=5&before=${body['before']}`, ROOT)
    expect(more.body).toMatchObject({ items: [{}, {}], before: null })
  })

  test('a cron that is registered again as it is makes no row; each change of it makes one', async () => {
    const d = await HttpHarness.open({ engine: { store: kind.create() }, http: { tokens: TOKENS } })
    const cron = { name: 'c', cron: '@daily', type: 'a', args: [1], meta: { of: 'us' }, options: { queue: 'q' } }
    const register = async (more: Json = {}): Promise<number> => {
      await d.clock.advance('1s')
      const { status, body } = await d.post('/ojs/v1/cron', { ...cron, ...more }, ACME)
      expect([status, body['cron'].created_at]).toEqual([201, '2026-01-01T00:00:01.000Z'])
      return (await d.get('/ojs/v1/admin/audit', ROOT)).body['items'].length as number
    }
    expect([await register(), await register(), await register()]).toEqual([1, 1, 1])
    expect(await register({ args: [2] })).toBe(2)
    expect(await register({ args: [2], options: { queue: 'other' } })).toBe(3)
    expect(await register({ args: [2], options: { queue: 'other' } })).toBe(3)
    const limited = { options: { queue: 'q', rate_limit: { key: 'crm', concurrency: 2 } } }
    expect([await register(limited), await register(limited)]).toEqual([4, 4])
  })
})
