import { z } from 'zod'
import { SluiceError } from '../../base/errors.ts'
import type { DetailsQuery, DetailsPage, JobDetails } from '../../store/contract/remote-jobs.ts'
import { type Call, ok, operation, type Operation, type Reply } from '../operation.ts'
import { invalid } from '../refusal.ts'
import { cancelNamed } from './cancel-job.ts'
import { jobJson } from './job-json.ts'
import { maySee, namedJob, wrongState } from './jobs.ts'
import { Cursor, cursorOf, jobRowsOf, paginationOf, scopeOf } from './pages.ts'
import { Instant, instantMs, JobParams, JobStates, JobType, PageQuery, QueueName } from './schemas.ts'

const FILTER = {
  queue: QueueName.optional(),
  state: JobStates.optional(),
  type: JobType.optional(),
  since: Instant.optional(),
  until: Instant.optional(),
}
const Filter = z.object(FILTER)
/** The filter of a bulk change. It is strict: an ignored member would extend the change to all jobs. */
const Bulk = z.strictObject({ filter: z.strictObject(FILTER).optional(), confirm: z.boolean().optional() })
const AT_ONCE = 1000

/** Lists jobs of any state. */
export const listJobs: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/jobs',
  name: 'listJobs',
  summary: 'List jobs.',
  query: z.intersection(
    z.intersection(PageQuery, Filter),
    z.object({
      sort: z.enum(['created_at']).optional(),
      order: z.enum(['asc', 'desc']).optional(),
      cursor: Cursor,
    }),
  ),
  answers: { 200: 'The jobs, latest first.' },
  async run(call) {
    const { query } = call
    const rows = jobRowsOf(query, call.server.bounds.answerBytes)
    const { jobs, total, next } = await find(call, query, rows, query.order === 'asc')
    return ok({
      items: jobs.map(jobJson),
      pagination: { ...paginationOf(total, query), next_cursor: cursorOf(next) },
    })
  },
})

/** Reads one job, without a wrapper. */
export const adminGetJob: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/jobs/:id',
  name: 'adminGetJob',
  summary: 'Read one job.',
  params: JobParams,
  answers: { 200: 'The job.' },
  run: async (call) => ok(jobJson(await namedJob(call, call.params.id))),
})

/** Cancels a job. */
export const adminCancelJob: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/admin/jobs/:id/cancel',
  name: 'adminCancelJob',
  summary: 'Cancel a job.',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job was cancelled.' },
  run: async (call) => ok(await cancelNamed(call, call.params.id)),
})

/** Runs a discarded job again. */
export const adminRetryJob: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/admin/jobs/:id/retry',
  name: 'adminRetryJob',
  summary: 'Run a discarded job again.',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job is available.' },
  async run(call) {
    const job = await namedJob(call, call.params.id)
    const { sluice, remote } = call.server
    if (!(await sluice.jobs.retry(job.id))) throw wrongState(job.id, job.state, 'retried')
    return ok(jobJson((await remote.get(job.id)) ?? job))
  },
})

/** Runs many discarded jobs again. */
export const bulkRetry: Operation = bulk('retry', 'Run discarded jobs again.', async ({ server }, job) =>
  server.sluice.jobs.retry(job.id),
)

/** Cancels many jobs. */
export const bulkCancel: Operation = bulk('cancel', 'Cancel jobs.', async ({ server }, job) => {
  const cancelled = await server.sluice.jobs.cancel(job.id)
  if (cancelled && job.state === 'active') await server.remote.endCancelled(job.id)
  return cancelled
})

/** Deletes many jobs that have ended. */
export const bulkDelete: Operation = bulk('delete', 'Delete jobs that have ended.', async ({ server }, job) =>
  (await server.remote.store()).remove(job.id),
)

/** Deletes the waiting jobs of a queue, after it has cancelled them. */
export const purgeQueue: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/admin/queues/:name/jobs',
  name: 'purgeQueue',
  summary: 'Cancel and delete the jobs of a queue that have not started.',
  params: z.object({ name: QueueName }),
  query: z.object({ confirm: z.string().optional() }),
  body: z.looseObject({ confirm: z.boolean().optional() }).optional(),
  answers: { 200: 'The number of deleted jobs.' },
  run(call) {
    if (call.query.confirm !== 'true' && call.body?.confirm !== true) throw unconfirmed()
    return call.server.heldOpen.during(call.access, 'bulks', async () => {
      const { sluice, remote } = call.server
      const store = await remote.store()
      let deleted = 0
      for (const state of ['available', 'scheduled', 'retryable', 'pending'] as const)
        for (;;) {
          let gone = 0
          for await (const { jobs } of portions(call, { queue: call.params.name, state }, false))
            gone += await countAsync(jobs, async (job) => {
              return (await succeeded(() => sluice.jobs.cancel(job.id))) && (await store.remove(job.id))
            })
          deleted += gone
          if (gone === 0) break
        }
      return ok({ deleted, queue: call.params.name })
    })
  },
})

type Deed = (call: Call<unknown, unknown, unknown>, job: JobDetails) => Promise<boolean>

function bulk(verb: string, summary: string, each: Deed): Operation {
  return operation({
    method: 'POST',
    path: `/ojs/v1/admin/jobs/bulk/${verb}`,
    name: `bulk_${verb}`,
    summary: `${summary} At most 1,000 at once; confirm must be true.`,
    body: Bulk,
    answers: { 200: 'The number of matching jobs, and of changed ones.' },
    run(call): Promise<Reply> {
      const { filter = {}, confirm } = call.body
      if (confirm !== true) throw unconfirmed()
      const wanted = verb === 'retry' ? { state: 'discarded' as const, ...filter } : filter
      return call.server.heldOpen.during(call.access, 'bulks', async () => {
        let [matched, seen, done] = [0, 0, 0]
        for await (const { jobs, total } of portions(call, wanted, true)) {
          if (seen === 0) matched = total
          seen += jobs.length
          done += await countAsync(jobs, (job) => succeeded(() => each(call, job)))
        }
        call.server.remote.notify()
        return ok({ matched, succeeded: done, failed: seen - done })
      })
    },
  })
}

async function find(
  call: Call<unknown, unknown, unknown>,
  { queue, state, type, since, until }: z.output<typeof Filter>,
  rows: Pick<DetailsQuery, 'limit' | 'offset' | 'after' | 'bytes'>,
  oldestFirst: boolean,
): Promise<DetailsPage> {
  const nowMs = call.server.clock.now()
  const store = await call.server.remote.store()
  const found = await store.findDetails({
    ...rows,
    oldestFirst,
    ...scopeOf(call, queue),
    ...(state && { states: [state] }),
    ...(type !== undefined && { task: type }),
    ...(since !== undefined && { sinceMs: instantMs(since, nowMs) }),
    ...(until !== undefined && { untilMs: instantMs(until, nowMs) }),
  })
  return { ...found, jobs: found.jobs.filter((job) => maySee(call, job)) }
}

/** The first matching jobs, in portions that bound the payloads read at once. */
async function* portions(
  call: Call<unknown, unknown, unknown>,
  filter: z.output<typeof Filter>,
  oldestFirst: boolean,
): AsyncGenerator<DetailsPage> {
  const bytes = call.server.bounds.answerBytes
  let after: number | null = null
  let left = AT_ONCE
  do {
    const rows = { limit: left, offset: 0, bytes, ...(after !== null && { after }) }
    const found: DetailsPage = await find(call, filter, rows, oldestFirst)
    for (const { queue } of found.jobs) call.concerns(queue)
    yield found
    left -= found.jobs.length
    after = found.next
  } while (after !== null && left > 0)
}

/** Does not count a job that ended or was deleted meanwhile. */
async function succeeded(work: () => Promise<boolean>): Promise<boolean> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'job.not_found') return false
    throw error
  }
}

async function countAsync(jobs: readonly JobDetails[], work: (job: JobDetails) => Promise<boolean>): Promise<number> {
  const answers = await Promise.all(jobs.map(work))
  return answers.filter(Boolean).length
}

function unconfirmed(): Error {
  return invalid('confirm is missing. Expected true, since this changes many jobs at once.')
}
