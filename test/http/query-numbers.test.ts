// A number in a query is decimal digits at every door: `Number` alone takes other texts for numbers too.
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const OTHERS = ['', ' ', '%205', '5%20', '+5', '%2B5', '-5', '-0', '5.0', '5.', '0x10', '0b1', '1e2', '1_0', '٥', 'NaN']

/** The numbers in the queries of all operations, as the server describes them. */
async function numbers(d: HttpHarness): Promise<[method: string, path: string, name: string][]> {
  const { paths } = (await d.get('/openapi.json')).body
  return ROUTES.flatMap(({ method, path }) => {
    const described = paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] as Json | undefined
    const own = ((described?.['parameters'] ?? []) as Json[]).filter(
      (each) => each['in'] === 'query' && each['schema'].type === 'integer',
    )
    return own.map((each): [string, string, string] => [method, path.replaceAll(/:\w+/g, 'mail'), each['name']])
  })
}

describe('a query holds a number as decimal digits', () => {
  test('at every operation that has one', async () => {
    const d = await HttpHarness.open()
    const all = await numbers(d)
    expect(all.length).toBeGreaterThan(25)
    const taken: string[] = []
    for (const [method, path, name] of all)
      for (const text of OTHERS) {
        const { status, body } = await d.send(method, `${path}?${name}=${text}`)
        const issue = body['error']?.details?.issues?.[0]
        const isRefused = status === 400 && issue?.path === name && /digits/.test(issue.message)
        if (!isRefused) taken.push(`${path}?${name}=${text} ${status}`)
      }
    expect(taken).toEqual([])
  })

  test.each(['1', '01', '100'])('%s is one', async (text) => {
    const d = await HttpHarness.open()
    const { status, body } = await d.get(`/ojs/v1/admin/jobs?per_page=${text}`)
    expect([status, body['pagination']?.per_page]).toEqual([200, Number(text)])
  })

  test.each(['0', '101', '9007199254740993', '1'.repeat(400)])('%s is beyond its range', async (text) => {
    const d = await HttpHarness.open()
    expect((await d.get(`/ojs/v1/admin/jobs?per_page=${text}`)).status).toBe(400)
  })
})

test.each(['jobs?size=1&size=2', 'jobs?cursor=a&cursor=b', 'jobs?size=1&size=1', 'jobs/count?queue=a&queue=a'])(
  'a search of the monitor refuses %s: one of both would be dropped',
  async (query) => {
    const d = await HttpHarness.open()
    const { status, body } = await d.get(`/monitor/v1/${query}`)
    expect([status, body['error']?.message]).toEqual([400, expect.stringContaining('twice. Expected it once.')])
  },
)
