// One class of fault has one status, whichever route meets it.
import { expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'
import { HttpHarness } from './http-harness.ts'

const MONITOR = { headers: { 'X-Sluice-Request': '1' } }
const cursed = [
  '/ojs/v1/admin/jobs',
  ...ROUTES.filter(({ query, method }) => {
    const shape = (query as { readonly shape?: object } | null)?.shape
    return method === 'GET' && shape !== undefined && 'cursor' in shape
  }).map(({ path }) => path),
]

test('there are lists with a cursor on every side', () => {
  expect(cursed).toEqual(
    expect.arrayContaining(['/ojs/v1/rate-limits/:key/keys', '/flows/v1/flows', '/monitor/v1/audit']),
  )
})

test.each(cursed)('%s refuses a cursor that no page returned with 400', async (path) => {
  const d = await HttpHarness.open()
  await d.push({ rate_limit: { key: 'crm', concurrency: 1 } })
  const at = path.replace(/:(?:key|name)/, 'crm')
  const { status, body } = await d.send('GET', `${at}?cursor=nonsense`, undefined, MONITOR)
  expect({ status, body }).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
})

test.each([
  '/ojs/v1/admin/jobs?state=done',
  ...['queu:mail', 'all', 'job:', ''].map((channel) => `/ojs/v1/events/stream?channel=${channel}`),
  '/flows/v1/flows?state=done',
  '/monitor/v1/flows?state=done',
  '/monitor/v1/flows?kind=other',
  ...['jobs', 'jobs/count'].flatMap((list) =>
    ['state=done', 'state=', 'since=soon', 'queues=a', 'queue=a&queue=b', 'q='].map(
      (query) => `/monitor/v1/${list}?${query}`,
    ),
  ),
  '/monitor/v1/limits/crm/keys?sort=name',
  '/monitor/v1/tasks?window=5m',
  '/monitor/v1/audit?since=soon',
  '/monitor/v1/series?metric=started&from=soon',
  '/monitor/v1/series?metric=started&step=soon',
])('%s has a wrong value, and is refused with 400', async (path) => {
  const d = await HttpHarness.open()
  await d.push({ rate_limit: { key: 'crm', concurrency: 1 } })
  const { status, body } = await d.send('GET', path, undefined, MONITOR)
  expect({ status, body }).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
})

// A member that is missing, unknown or of the wrong type; and a value that the engine's rules stand against.
test.each([
  ['POST', '/ojs/v1/jobs', { type: 'a', args: 1 }, 400],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { queu: 'b' } }, 400],
  ['POST', '/monitor/v1/jobs', { task: 1 }, 400],
  ['POST', '/monitor/v1/jobs', { task: 'a', queu: 'b' }, 400],
  ['POST', '/monitor/v1/bulk', { action: 'move', filter: { state: 'available' } }, 400],
  ['PUT', '/monitor/v1/queues/default/bound', { maxDepth: 'many' }, 400],
  ['POST', '/monitor/v1/queues/default/drain', { timeout: 5 }, 400],
  ['POST', '/monitor/v1/queues/default/drain', { timeout: 'soon' }, 422],
  ['POST', '/monitor/v1/jobs', { task: 'a', limits: [], runAt: 'soon' }, 422],
  ['POST', '/monitor/v1/jobs', { task: 'a', limits: [], runAt: '2200-01-01T00:00:00Z' }, 422],
  ['POST', '/monitor/v1/jobs', { task: 'a', limits: [], queue: 'No Queue' }, 422],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { scheduled_at: '2200-01-01T00:00:00Z' } }, 422],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], options: { retry: { max_attempts: -1 } } }, 422],
  ['POST', '/ojs/v1/jobs', { type: 'a', args: [], rate_limit: { x_limit: { name: 'nope' } } }, 422],
] as const)('%s %s with %j answers %i', async (method, path, body, status) => {
  const d = await HttpHarness.open()
  await d.push({ queue: 'default' })
  expect(await d.send(method, path, body, MONITOR)).toMatchObject({ status })
})
