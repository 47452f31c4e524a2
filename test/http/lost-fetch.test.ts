// Fetches whose claim the database has written, and whose answer never reached the server.
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { type Served, serve } from '../conformance/ojs/serve.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'
import type { Json } from './http-harness.ts'

const postgres = await onPostgres('fetches whose claim is lost')

async function post({ url }: Served, path: string, body: unknown): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${url}/ojs/v1${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/openjobspec+json' },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Json }
}

async function push(server: Served, queue: string, more: Json = {}): Promise<string> {
  const options = { queue, retry: { max_attempts: 1 }, ...more }
  const { body } = await post(server, '/jobs', { type: 'lost.fetch', args: [1], options })
  return body['job'].id as string
}

/** Until a fetch is answered, as a worker would. */
async function fetchOne(server: Served, more: Json = {}): Promise<Json> {
  for (;;) {
    const { status, body } = await post(server, '/workers/fetch', { queues: ['q'], worker_id: 'w', ...more })
    if (status === 200 && body['jobs'].length > 0) return body['jobs'][0] as Json
  }
}

test.skipIf(!postgres).each(['with a limit', 'without limits'] as const)(
  'jobs of a fetch whose answer was lost on the way to the server are given back with their only attempt (%s)',
  async (which) => {
    const proxy = await PostgresProxy.before(postgres!.create())
    const server = await serve('--store', proxy.url, '--port', '0')
    const limited = which === 'with a limit' ? { rate_limit: { key: 'one', concurrency: 1 } } : {}
    const first = await push(server, 'q', limited)
    expect((await fetchOne(server))['id']).toBe(first)
    await post(server, '/workers/ack', { job_id: first, worker_id: 'w' })

    const id = await push(server, 'q', limited)
    proxy.losesAnswerTo = (sent, answered) => /claim_(write|open)/.test(sent) && answered.includes('lost.fetch')
    const lost = await post(server, '/workers/fetch', {
      queues: ['q'],
      worker_id: 'w',
      visibility_timeout_ms: 3_600_000,
    })
    expect(proxy.losesAnswerTo, 'an answer was lost').toBeNull()
    expect(lost.status).toBeGreaterThanOrEqual(500)
    // Another worker, for which no claim has failed.
    expect(await fetchOne(server, { worker_id: 'other' })).toMatchObject({ id, attempt: 1 })
    expect((await post(server, '/workers/ack', { job_id: id, worker_id: 'other' })).status).toBe(200)
  },
)

test.skipIf(!postgres)('what the queues before a failed claim gave is handed out', async () => {
  const proxy = await PostgresProxy.before(postgres!.create())
  const server = await serve('--store', proxy.url, '--port', '0')
  const id = await push(server, 'first')
  const other = await push(server, 'second')
  // The second claim of the fetch: its jobs are of the other queue.
  proxy.losesAnswerTo = (sent, answered) => /claim_(write|open)/.test(sent) && answered.includes(other)
  const queues = ['first', 'second']
  const { status, body } = await post(server, '/workers/fetch', { queues, worker_id: 'w', count: 5 })
  expect(status).toBe(200)
  expect(body['jobs'].map((job: Json) => job['id'])).toEqual([id])
  expect(await fetchOne(server, { queues })).toMatchObject({ id: other, attempt: 1 })
})

test.skipIf(!postgres)('a claim that the database writes long after its fetch has failed is given back', async () => {
  const store = postgres!.create()
  const proxy = await PostgresProxy.before(store)
  const server = await serve('--store', proxy.url, '--port', '0')
  const warm = await push(server, 'q')
  expect((await fetchOne(server))['id']).toBe(warm)
  await post(server, '/workers/ack', { job_id: warm, worker_id: 'w' })

  const other = new Client({ connectionString: store })
  await other.connect()
  onTestFinished(() => other.end())
  const held = `"${new URL(store).searchParams.get('schema')}".held`
  const waiting = async (): Promise<number> => {
    const { rows } = await other.query<{ waiting: number }>(
      `SELECT count(*)::int AS waiting FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock'
       AND classid = (hashtext($1) + 4294967296) % 4294967296 AND objid = (hashtext('q') + 4294967296) % 4294967296`,
      [held],
    )
    return rows[0]?.waiting ?? 0
  }
  const id = await push(server, 'q')
  await other.query('BEGIN')
  await other.query(`SELECT pg_advisory_xact_lock(hashtext($1), hashtext('q'))`, [held])
  const failed = post(server, '/workers/fetch', { queues: ['q'], worker_id: 'w' })
  await expect.poll(waiting).toBe(1)
  for (const link of proxy.links) link.cut()
  expect((await failed).status).toBeGreaterThanOrEqual(500)
  await other.query('COMMIT')
  expect(await fetchOne(server, { worker_id: 'other' })).toMatchObject({ id, attempt: 1 })
})
