// Why and for whom a job waits, and how workers report budgets: over HTTP as in code.
import { describe, expect, test } from 'vitest'
import { limit } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const KINDS = await everyStore('waits over HTTP')
const crm = limit('crm', { rate: 1, per: '10s', burst: 1 })
const keyed = (key: string, weight = 1): Json => ({ rate_limit: { x_limit: { name: 'crm', key, weight } } })
const open = (kind: (typeof KINDS)[number], more: Json = {}): Promise<HttpHarness> =>
  HttpHarness.open({ engine: { store: kind.create(), limits: [crm] }, ...more })

describe.each(KINDS)('on $name, a job that waits', (kind) => {
  test('says for which budget, at which position and until when', async () => {
    const d = await open(kind)
    const first = await d.push(keyed('acme'))
    const ids = [await d.push(keyed('acme')), await d.push(keyed('acme'))]
    expect(await d.fetch({ count: 9 })).toEqual([first])
    const start = Date.UTC(2026, 0, 1)
    const at = (s: number): string => new Date(start + s * 1000).toISOString()
    const waits = await Promise.all(ids.map(async (id) => (await d.job(id))['x_wait'] as Json))
    expect(waits.map(({ limit: name, key, position, exact }) => [name, key, position, exact])).toEqual([
      ['crm', 'acme', 1, true],
      ['crm', 'acme', 2, true],
    ])
    for (const [i, wait] of waits.entries()) {
      expect(Math.abs(Date.parse(wait['expected_start'] as string) - Date.parse(at(10 * (i + 1))))).toBeLessThan(1000)
      expect(Math.abs(Date.parse(wait['throttled_until'] as string) - Date.parse(at(10)))).toBeLessThan(1000)
    }
    expect((await d.job(first))['x_wait']).toBeUndefined()
  })

  test('is explained at length', async () => {
    const d = await open(kind)
    await d.push(keyed('acme'))
    const id = await d.push(keyed('acme'))
    await d.fetch({ count: 9 })
    const { status, body } = await d.get(`/ojs/v1/jobs/${id}/explain`)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      job_id: id,
      state: 'available',
      limits: [{ limit: 'crm', key: 'acme', weight: 1 }],
      waits_on: { limit: 'crm', key: 'acme' },
      position: 1,
      exact: true,
      x_wait: { limit: 'crm', key: 'acme', position: 1 },
    })
    expect(body['words']).toContain('crm for acme')
    await d.sluice.limits.pause('crm', 'acme', { by: 'ann' })
    expect((await d.get(`/ojs/v1/jobs/${id}/explain`)).body['overrides']).toMatchObject([
      { limit: 'crm', key: 'acme', kind: 'pause', by: 'ann' },
    ])
    expect((await d.get('/ojs/v1/jobs/019539a4-0000-7000-8000-000000000000/explain')).status).toBe(404)
  })

  test('is counted with its queue and its key; keys come by how many wait, page by page', async () => {
    const d = await open(kind)
    for (const [key, jobs] of [
      ['a', 2],
      ['b', 4],
      ['c', 3],
      ['d', 1],
    ] as const)
      for (let i = 0; i < jobs; i++) await d.push(keyed(key))
    expect(await d.fetch({ count: 99 })).toHaveLength(4)
    const keys: [string, number][] = []
    let cursor: string | null = null
    do {
      const more: string = cursor === null ? '' : `&cursor=${cursor}`
      const { status, body } = await d.get(`/ojs/v1/rate-limits/crm/keys?sort=waiting&limit=2${more}`)
      expect(status).toBe(200)
      for (const item of body['items'] as Json[]) keys.push([item['key'] as string, item['waiting'] as number])
      cursor = body['cursor'] as string | null
    } while (cursor !== null)
    expect(keys).toEqual([
      ['b', 3],
      ['c', 2],
      ['a', 1],
      ['d', 0],
    ])
    const byKey = (await d.get('/ojs/v1/rate-limits/crm/keys?sort=key')).body
    expect((byKey['items'] as Json[]).map((item) => item['key'])).toEqual(['a', 'b', 'c', 'd'])
    expect(byKey['items'][1]).toMatchObject({ waiting: 3, available: 0, capacity: 1 })
    expect((await d.get('/ojs/v1/rate-limits/crm/keys?cursor=nonsense')).status).toBe(400)
    expect((await d.get('/ojs/v1/rate-limits/none/keys')).status).toBe(404)
    expect((await d.get('/ojs/v1/queues')).body['queues']).toMatchObject([{ name: 'q', throttled: 6 }])
    expect((await d.get('/ojs/v1/queues/q/stats')).body).toMatchObject({ throttled: 6, stats: { throttled: 6 } })
    expect((await d.get('/ojs/v1/rate-limits')).body['items']).toMatchObject([
      { key: 'crm', rate: { limit: 1, period: 'PT10S' }, waiting_count: 6, partitions: 4 },
    ])
  })

  test('DELETE ends an override of a limit, or of one partition of it', async () => {
    const d = await open(kind)
    const get = async (more = ''): Promise<Json> => (await d.get(`/ojs/v1/rate-limits/crm${more}`)).body['rate'] as Json
    await d.send('PUT', '/ojs/v1/rate-limits/crm', { rate: { limit: 7, period: 'PT10S' } })
    await d.send('PUT', '/ojs/v1/rate-limits/crm', { rate: { limit: 9, period: 'PT10S' }, partition: 'acme' })
    expect([(await get())['limit'], (await get('?partition=acme'))['limit']]).toEqual([7, 9])
    const one = await d.send('DELETE', '/ojs/v1/rate-limits/crm?partition=acme')
    expect([one.status, one.body['deleted']]).toEqual([200, true])
    expect([(await get())['limit'], (await get('?partition=acme'))['limit']]).toEqual([7, 7])
    await d.send('DELETE', '/ojs/v1/rate-limits/crm')
    expect((await get())['limit']).toBe(1)
    expect((await d.send('DELETE', '/ojs/v1/rate-limits/crm')).body['deleted']).toBe(false)
    expect((await d.send('DELETE', '/ojs/v1/rate-limits/none')).status).toBe(404)
  })
})

describe.each(KINDS)('on $name, a worker tells of budgets when a run ends', (kind) => {
  const tokens = limit('tokens', { rate: 100, per: '100s' })
  const told = limit('told', { rate: 100, per: '100s', calibrate: 'headers' })
  const start = async (name: string, weight = 10): Promise<[HttpHarness, string]> => {
    const d = await HttpHarness.open({ engine: { store: kind.create(), limits: [tokens, told] } })
    const id = await d.push({ rate_limit: { x_limit: { name, weight } } })
    await d.fetch()
    return [d, id]
  }
  const left = async (d: HttpHarness, name: string): Promise<number> => {
    const [bucket] = await d.sluice.limits.inspect(name)
    return bucket?.available ?? -1
  }

  test('what it cost beyond its weight, or less', async () => {
    const [d, id] = await start('tokens')
    expect((await d.ack(id, { charge: [{ limit: 'tokens', units: 25 }] })).status).toBe(200)
    expect(await left(d, 'tokens')).toBe(65)
    const next = await d.push({ rate_limit: { x_limit: { name: 'tokens', weight: 10 } } })
    await d.fetch()
    await d.nack(next, {}, { charge: [{ limit: 'tokens', units: -1000 }] })
    expect(await left(d, 'tokens')).toBe(65)
  })

  test('what its job does not use is refused before anything is settled', async () => {
    const [d, id] = await start('tokens')
    const { status, body } = await d.ack(id, { charge: [{ limit: 'told', units: 1 }] })
    expect([status, body['error'].code]).toEqual([422, 'invalid_request'])
    expect((await d.job(id))['state']).toBe('active')
    expect((await d.ack(id, { charge: [{ limit: 'tokens', units: 1.5 }] })).status).toBe(400)
    expect((await d.ack(id)).status).toBe(200)
  })

  test('what the other side says is left, by its headers', async () => {
    const [d, id] = await start('told')
    const headers = { 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': '4', 'X-RateLimit-Reset': '50' }
    expect((await d.ack(id, { rate_limit_headers: headers })).status).toBe(200)
    expect(await left(d, 'told')).toBe(4)
  })

  test('a Retry-After among the headers of a nack closes the budget, and the attempt does not count', async () => {
    const [d, id] = await start('tokens', 1)
    const { body } = await d.nack(id, {}, { rate_limit_headers: { 'retry-after': '30' } })
    expect(body).toMatchObject({ state: 'available', attempt: 0 })
    expect(await d.fetch()).toEqual([])
    await d.clock.advance('30s')
    expect(await d.fetch()).toEqual([id])
  })
})
