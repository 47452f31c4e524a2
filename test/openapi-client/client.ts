// A client and a worker on the types that openapi-typescript makes of /openapi.json. `npm run types` knows nothing of `document.ts`:
// test/http/openapi-client.test.ts generates it, compiles this file beside it, and runs it.
import createClient from 'openapi-fetch'
import type { components, paths } from './document.ts'

/** A job as the document has it. */
export type Job = components['schemas']['Job']

/** The end of one job. */
export interface Ran {
  readonly pushed: Job['state']
  readonly args: Job['args']
  readonly settled: string
  readonly result: unknown
  readonly refused: string
  readonly waiting: number
  readonly queues: readonly string[]
}

/** Pushes a job, runs it as a worker does, and reads its end. */
export async function runOne(baseUrl: string, fetch: (request: Request) => Promise<Response>): Promise<Ran> {
  const client = createClient<paths>({ baseUrl, fetch, headers: { 'Content-Type': 'application/openjobspec+json' } })
  const pushed = await client.POST('/ojs/v1/jobs', {
    body: { type: 'mail.send', args: ['a@acme.test'], options: { queue: 'mail', priority: 5 } },
  })
  if (!pushed.data) throw new Error(pushed.error.error.message)
  const { id } = pushed.data.job
  const fetched = await client.POST('/ojs/v1/workers/fetch', { body: { queues: ['mail'], worker_id: 'w', count: 1 } })
  const [job] = fetched.data?.jobs ?? []
  if (!job) throw new Error('nothing was fetched')
  const ack = await client.POST('/ojs/v1/workers/ack', {
    body: { job_id: job.id, worker_id: 'w', result: { sent: 1 } },
  })
  if (!ack.data) throw new Error(ack.error.error.message)
  const read = await client.GET('/ojs/v1/jobs/{id}', { params: { path: { id } } })
  // @ts-expect-error a number is not a valid type of a job
  const wrong = await client.POST('/ojs/v1/jobs', { body: { type: 5, args: [] } })
  const page = await client.GET('/ojs/v1/admin/jobs', { params: { query: { state: 'available', per_page: 10 } } })
  const queues = await client.GET('/ojs/v1/queues', { params: { query: {} } })
  return {
    pushed: pushed.data.job.state,
    args: job.args,
    settled: ack.data.state,
    result: read.data?.job.result,
    refused: wrong.error?.error.code ?? '',
    waiting: page.data?.pagination.total ?? -1,
    queues: queues.data?.queues.map(({ name }) => name) ?? [],
  }
}
