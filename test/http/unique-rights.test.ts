// A unique key reaches over queues; the rights of a token do not.
import { describe, expect, test } from 'vitest'
import { HttpHarness, type Json } from './http-harness.ts'

const TOKENS = [
  { name: 'root', token: 'root-0123456789ab', scopes: ['admin'] as const, tenant: '*' },
  { name: 'mail', token: 'mail-0123456789abc', scopes: ['producer'] as const, tenant: '*', queues: ['mail'] },
]
const as = (name: string): { headers: Record<string, string> } => ({
  headers: { Authorization: `Bearer ${TOKENS.find((each) => each.name === name)?.token}` },
})

describe('a token of one queue, and a unique key that a job of another queue holds', () => {
  const unique = (queue: string, on_conflict: string, meta: Json = {}): Json => ({
    type: 'work',
    args: [1],
    meta,
    options: { queue, unique: { keys: ['type', 'args'], on_conflict } },
  })

  test('is told nothing of that job', async () => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    await d.post('/ojs/v1/jobs', unique('payroll', 'ignore', { secret: 's3cret' }), as('root'))
    const { status, body } = await d.post('/ojs/v1/jobs', unique('mail', 'ignore'), as('mail'))
    expect([status, JSON.stringify(body)]).toEqual([200, expect.not.stringMatching(/s3cret|payroll/)])
  })

  test.each(['replace', 'replace_except_schedule'])('may not %s it', async (conflict) => {
    const d = await HttpHarness.open({ http: { tokens: TOKENS } })
    const first = await d.post('/ojs/v1/jobs', unique('payroll', 'ignore', { first: true }), as('root'))
    expect((await d.post('/ojs/v1/jobs', unique('mail', conflict), as('mail'))).status).toBe(403)
    const { body } = await d.get(`/ojs/v1/jobs/${first.body['job'].id}`, as('root'))
    expect(body['job']).toMatchObject({ state: 'available', queue: 'payroll', meta: { first: true } })
    const own = unique('mail', conflict)
    own['options'].unique.keys.push('queue')
    expect((await d.post('/ojs/v1/jobs', own, as('mail'))).status).toBe(201)
  })
})
