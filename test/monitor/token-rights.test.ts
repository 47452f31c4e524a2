// Every operation of the monitor, asked with every kind of token of a server.
import { describe, expect, onTestFinished, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input } from '../../src/exports/index.ts'
import { MONITOR_ROUTES } from '../../src/http/monitor/routes.ts'
import { type Answer, HttpHarness, type Json } from '../http/http-harness.ts'

const SECRET = '0123456789abcdef'
const TOKENS = [
  { token: `root-${SECRET}`, name: 'root', scopes: ['admin'], tenant: '*' },
  { token: `acme-${SECRET}`, name: 'acme', scopes: ['admin'], tenant: 'acme' },
  { token: `producer-${SECRET}`, name: 'producer', scopes: ['producer'], tenant: 'acme' },
  { token: `worker-${SECRET}`, name: 'worker', scopes: ['worker'], tenant: 'acme' },
  { token: `reader-${SECRET}`, name: 'reader', scopes: ['reader'], tenant: 'acme' },
  { token: `operator-${SECRET}`, name: 'operator', scopes: ['operator'], tenant: 'acme' },
  { token: `mail-${SECRET}`, name: 'mail', scopes: ['operator'], tenant: 'acme', queues: ['mail'] },
  { token: `expired-${SECRET}`, name: 'expired', scopes: ['admin'], tenant: '*', expiresAt: '2025-12-31T00:00:00Z' },
  { token: `other-${SECRET}`, name: 'other', scopes: ['operator'], tenant: 'beta' },
] as const
/** Bodies with which the operation is done, where a body is needed. */
const BODIES: Readonly<Record<string, Json>> = {
  monitorOverrideLimit: { change: { rate: 9 } },
  monitorOverrideKey: { change: { rate: 9 } },
  monitorPenalizeLimit: { until: '5m' },
  monitorPenalizeKey: { until: '5m' },
  monitorWhatIf: { policy: { rate: 9 } },
  monitorChangeJob: { priority: 5 },
  monitorBoundQueue: { maxDepth: 5 },
  monitorDrainQueue: { timeout: '0s' },
  monitorEnqueueJob: { task: 'a', limits: [] },
  monitorStartFlow: { workflow: 'chained', input: null },
  monitorSignalFlow: { name: 'go' },
  monitorStartBulk: { action: 'cancel', filter: {}, all: true },
}
const chained = workflow('chained', input<null>(), {
  signals: { go: input<null>() },
  run: (_, flow) => flow.signal('go'),
})
/** It ends only when its reader leaves. */
const isStream = (path: string): boolean => path.endsWith('/stream')

type Send = (who: string | null, method: string, path: string, body?: Json) => Promise<Answer>

/** A server with a thing of each kind, all of them the tenant acme's, by the names of the paths. */
async function open(): Promise<{ send: Send; things: Readonly<Record<string, string>> }> {
  const d = await HttpHarness.open({ http: { tokens: TOKENS }, engine: { workflows: [chained] } })
  const send: Send = (who, method, path, body) => {
    const over = new AbortController()
    onTestFinished(() => over.abort())
    const headers: Record<string, string> = who === null ? {} : { Authorization: `Bearer ${who}-${SECRET}` }
    return d.send(method, path, body, { headers, signal: over.signal })
  }
  const acme = { headers: { Authorization: `Bearer acme-${SECRET}` } }
  const rate_limit = { key: 'crm', concurrency: 1 }
  const job = await d.push({ queue: 'mail', rate_limit }, {}, acme)
  await d.post('/ojs/v1/cron', { name: 'nightly', cron: '@daily', type: 'a', options: { queue: 'mail' } }, acme)
  const flow = await d.post('/flows/v1/chained', { input: null }, acme)
  await d.fetch({ queues: ['none'], worker_id: 'hand' }, acme)
  const bulk = await send('acme', 'POST', '/monitor/v1/bulk', { action: 'cancel', filter: { queue: 'nowhere' } })
  await expect
    .poll(async () => (await send('acme', 'GET', `/monitor/v1/bulk/${bulk.body['id']}`)).body)
    .toMatchObject({ state: 'done' })
  return {
    send,
    things: {
      limits: 'crm',
      jobs: job,
      queues: 'mail',
      schedules: 'nightly',
      flows: flow.body['id'] as string,
      workers: 'hand',
      bulk: bulk.body['id'] as string,
    },
  }
}

/** The path of an operation on the things of acme. */
function pathOf(path: string, things: Readonly<Record<string, string>>, folder = ''): string {
  const [, , , kind = ''] = path.split('/')
  return path.replace(':key', '~').replace(/:(name|id)/, encodeURIComponent(`${folder}${things[kind] ?? ''}`))
}

describe('every operation of the monitor', () => {
  test.each(MONITOR_ROUTES.map((route) => [route.name, route] as const))('%s', async (name, route) => {
    const { send, things } = await open()
    expect(Object.values(things)).not.toContain(undefined)
    const path = pathOf(route.path, things)
    const body = route.method === 'GET' || route.method === 'DELETE' ? undefined : (BODIES[name] ?? {})
    const status = async (who: string | null): Promise<number> => (await send(who, route.method, path, body)).status
    const refusals = [null, 'expired', 'unknown', 'producer', 'worker', 'mail'] as const
    const answers = []
    for (const who of refusals) answers.push([who, await status(who)])
    expect(answers).toEqual(refusals.map((who, n) => [who, n < 3 ? 401 : 403]))
    if (isStream(route.path)) return

    const isAct = route.right.scope === 'operator'
    if (isAct) expect(await status('reader')).toBe(403)
    const before = await all(send)
    const theirs = await send('other', route.method, path, body)
    if (route.path.includes(':')) {
      expect(theirs.status).toBe(404)
      const byStoredName = pathOf(route.path, things, 'acme/')
      expect((await send('other', route.method, byStoredName, body)).status).toBe(404)
    }
    for (const secret of ['acme', 'crm', 'nightly', 'chained', 'hand', ...Object.values(things)])
      if (!route.path.includes(':')) expect(JSON.stringify(theirs.body)).not.toContain(secret)
    // A change of what the other tenant has, which is nothing, is on record as its own.
    expect(await all(send)).toEqual(before)

    const { status: done } = await send(isAct ? 'operator' : 'reader', route.method, path, body)
    expect([name, done, [401, 403, 404].includes(done) || done >= 500]).toEqual([name, done, false])
  })
})

test('a tenant sees and acts on its own workflows of the Open Job Spec, and not on those of others', async () => {
  const { send } = await open()
  const step = (type: string): Json => ({ type, args: [], options: { queue: 'mail' } })
  const chain = { type: 'chain', steps: [step('a'), step('b')] }
  const { body } = await send('acme', 'POST', '/ojs/v1/workflows', chain)
  const id = body['id'] as string
  const path = `/monitor/v1/flows/${id}`
  const listed = async (who: string): Promise<Json[]> =>
    (await send(who, 'GET', '/monitor/v1/flows?kind=chain')).body['flows'] as Json[]
  for (const who of ['acme', 'operator', 'root']) {
    expect([who, await listed(who)]).toMatchObject([who, [{ id, kind: 'chain', state: 'running' }]])
    expect((await send(who, 'GET', path)).body).toMatchObject({ steps: [{ state: 'waiting' }, { state: 'waiting' }] })
    expect((await send(who, 'GET', `${path}/explain`)).status).toBe(200)
  }
  expect(await listed('other')).toEqual([])
  expect((await send('other', 'GET', path)).status).toBe(404)
  expect((await send('other', 'POST', `${path}/cancel`, {})).status).toBe(404)
  // The interface of workflows has flows of workflows alone.
  expect((await send('acme', 'GET', `/flows/v1/flows/${id}`)).status).toBe(404)
  expect((await send('acme', 'GET', '/flows/v1/flows')).body['flows']).toMatchObject([{ workflow: 'chained' }])
  expect((await send('operator', 'POST', `${path}/cancel`, {})).body).toMatchObject({ flow: { state: 'cancelled' } })
})

/** All that acme has, as the monitor shows it to acme. */
async function all(send: Send): Promise<unknown[]> {
  const lists = ['limits', 'jobs', 'queues', 'schedules', 'flows', 'workers', 'bulk', 'audit']
  return Promise.all(lists.map(async (list) => (await send('acme', 'GET', `/monitor/v1/${list}`)).body))
}
