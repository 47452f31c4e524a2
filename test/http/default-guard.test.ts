import { describe, expect, test } from 'vitest'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const CRM = { window: 'sliding', max: 4, per: '1s' } as const
const RATE = { rate: { limit: 4, period: 'PT1S' } }

async function policyOf(d: HttpHarness, name: string): Promise<LimitPolicy | undefined> {
  return (await (await remoteOf(d.sluice).store()).limits()).find((each) => each.name === name)?.policy
}

describe('the default guard of a sliding window', () => {
  test('holds for the rate that a job brings; x_guard replaces it', async () => {
    const d = await HttpHarness.open()
    await d.push({ rate_limit: { key: 'k', ...RATE } })
    await d.push({ rate_limit: { key: 'none', ...RATE, x_guard: 'PT0S' } })
    expect(await policyOf(d, 'k')).toMatchObject({ rule: { periodUs: 1_020_000 }, defaultGuard: true })
    expect((await policyOf(d, 'none'))?.rule).toMatchObject({ periodUs: 1_000_000 })
    expect((await d.get('/ojs/v1/rate-limits/k')).body).toMatchObject({ ...RATE, x_guard: 'PT0.02S' })
    expect((await d.get('/ojs/v1/rate-limits/none')).body).not.toHaveProperty('x_guard')
  })

  test.each<[string, Json, Json]>([
    ['takes the default of its new period', { rate: { limit: 9, period: 'PT0.5S' } }, { x_guard: 'PT0.01S' }],
    ['takes the guard that is named', { ...RATE, x_guard: 'PT0.1S' }, { x_guard: 'PT0.1S' }],
  ])('a limit that a PUT defines, and one that it overrides, %s', async (_, put, shown) => {
    const d = await HttpHarness.open()
    const wanted = { rate: put['rate'], ...shown }
    expect((await d.send('PUT', '/ojs/v1/rate-limits/new', put)).body).toMatchObject(wanted)
    await d.send('PUT', '/ojs/v1/rate-limits/k', RATE)
    expect((await d.send('PUT', '/ojs/v1/rate-limits/k', put)).body).toMatchObject(wanted)
  })

  test('an explicit guard outlasts a PUT of other numbers', async () => {
    const d = await HttpHarness.open()
    await d.send('PUT', '/ojs/v1/rate-limits/k', { ...RATE, x_guard: 'PT0S' })
    const { body } = await d.send('PUT', '/ojs/v1/rate-limits/k', { rate: { limit: 9, period: 'PT2S' } })
    expect(body).toMatchObject({ rate: { limit: 9, period: 'PT2S' } })
    expect(body).not.toHaveProperty('x_guard')
    const only = await d.send('PUT', '/ojs/v1/rate-limits/k', { x_guard: 'PT0.1S' })
    // A second override takes the place of the first.
    expect(only.body).toMatchObject({ ...RATE, x_guard: 'PT0.1S' })
    expect((await d.send('PUT', '/ojs/v1/rate-limits/k', { x_guard: 'soon' })).status).toBe(422)
  })

  test('holds for limits of the configuration', async () => {
    const d = await HttpHarness.open({ http: { limits: { limits: { crm: CRM, exact: { ...CRM, guard: 0 } } } } })
    for (const name of ['crm', 'exact']) await d.push({ rate_limit: { x_limit: { name } } })
    expect(await policyOf(d, 'crm')).toMatchObject({ rule: { periodUs: 1_020_000 }, defaultGuard: true })
    expect((await policyOf(d, 'exact'))?.rule).toMatchObject({ periodUs: 1_000_000 })
  })
})
