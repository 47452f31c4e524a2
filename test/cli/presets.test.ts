import { describe, expect, it } from 'vitest'
import { sluice } from './terminal.ts'

describe('sluice presets', () => {
  it('lists every API with its plans, and needs no store', async () => {
    const { code, out, err } = await sluice(['presets'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^preset +API +plans +read$/m)
    expect(out).toMatch(/^stripe +Stripe API +live, sandbox +\d{4}-\d\d-\d\d$/m)
    expect(out).toMatch(/^openai +OpenAI API +your own numbers /m)
  })

  it('shows the limits of one by plan, how it tells a refusal, and its sources', async () => {
    const { code, out } = await sluice(['presets', 'xero'])
    expect(code).toBe(0)
    expect(out).toMatch(/^standard +minute +60 in any 1 min, guard 250 ms +the connected organisation/m)
    expect(out).toMatch(/^standard +concurrent +5 at once /m)
    expect(out).toMatch(/^refusal +429, wait in retry-after$/m)
    expect(out).toMatch(/^read +\d{4}-\d\d-\d\d: https:\/\/developer\.xero\.com\//m)
    expect((await sluice(['presets', 'gemini'])).out).toMatch(/^your numbers +requests +n in any 1m /m)
  })

  it('gives the same as data', async () => {
    const all = JSON.parse((await sluice(['presets', '--json'])).out) as { name: string; sources: unknown[] }[]
    expect(all.length).toBeGreaterThanOrEqual(20)
    expect(all.every(({ sources }) => sources.length > 0)).toBe(true)
    const xero = JSON.parse((await sluice(['presets', 'xero', '--json'])).out) as object
    expect(xero).toMatchObject({ name: 'xero', plans: { standard: { concurrent: { policy: { concurrency: 5 } } } } })
  })

  it('refuses an unknown name with the nearest one', async () => {
    const { code, out, err } = await sluice(['presets', 'striipe'])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain('did you mean stripe?')
  })
})
