// A server on PostgreSQL whose database crashes, stays away and comes back: it says so, stays, and nothing that it acknowledged is lost.
import { expect, test } from 'vitest'
import { PostgresCluster } from '../postgres-cluster.ts'
import { ownPostgres } from '../stores.ts'
import { serve, type Served } from '../conformance/ojs/serve.ts'

interface Answer {
  readonly status: number
  readonly body: {
    readonly jobs?: readonly { readonly id: string; readonly attempt: number }[]
    readonly [name: string]: unknown
  }
}

async function send({ url }: Served, method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'Content-Type': 'application/openjobspec+json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

async function push(server: Served, arg: string): Promise<string> {
  const { status, body } = await send(server, 'POST', '/ojs/v1/jobs', {
    type: 'a',
    args: [arg],
    options: { queue: 'q' },
  })
  expect(status).toBe(201)
  return (body['job'] as { id: string }).id
}

const fetchOne = async (server: Served, wait = 'PT0S'): Promise<string | undefined> =>
  (await send(server, 'POST', '/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w', wait })).body.jobs?.[0]?.id

const health = async (server: Served): Promise<number> => (await send(server, 'GET', '/ojs/v1/health')).status

test.skipIf(!PostgresCluster.installed('a server whose PostgreSQL restarts'))(
  'a server outlives a crash of PostgreSQL: it is unwell meanwhile, then serves what was pushed before, and waiting fetches',
  async () => {
    const postgres = await ownPostgres()
    const server = await serve('--store', `${postgres.url}?schema=served`, '--port', '0')
    const ids = [await push(server, 'first'), await push(server, 'second')]
    const running = await fetchOne(server)
    expect(running).toBe(ids[0])

    await postgres.stop('immediate')
    await expect.poll(() => health(server)).toBe(503)
    const refused = await send(server, 'POST', '/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w' })
    expect(refused).toMatchObject({ status: 503, body: { error: { code: 'backend_error', retryable: true } } })
    expect(JSON.stringify(refused)).not.toContain('5432')
    // A call that may be repeated is: it waits for the server to come back.
    const pushed = push(server, 'meanwhile')
    const acked = send(server, 'POST', '/ojs/v1/workers/ack', { job_id: running })
    await postgres.start()
    ids.push(await pushed)
    expect(await acked).toMatchObject({ status: 200, body: { state: 'completed' } })
    await expect.poll(() => health(server)).toBe(200)

    expect(new Set([await fetchOne(server), await fetchOne(server)])).toEqual(new Set(ids.slice(1)))
    const waiting = fetchOne(server, 'PT20S')
    const last = await push(server, 'last')
    expect(await waiting).toBe(last)
    expect(server.child.exitCode).toBeNull()
  },
)
