import { z } from 'zod'
import type { DetailsPage, JobDetails } from '../../store/contract/remote-jobs.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { jobJson } from './job-json.ts'
import { maySee } from './jobs.ts'
import { Cursor, cursorOf, jobRowsOf, rowsOf, scopeOf } from './pages.ts'
import { JobParams, JobType, type Page, PageQuery, QueueName } from './schemas.ts'

/** A dead-letter job that a call names. @throws {Refusal} 404 */
export async function deadJob(call: Call<unknown, unknown, unknown>, id: string): Promise<JobDetails> {
  const job = await call.server.remote.get(id)
  if (!job?.deadLetter || !maySee(call, job)) throw notFound('dead letter job', id)
  call.concerns(job.queue)
  return job
}

/** Makes a dead-letter job available again. */
export async function retryDead(call: Call<unknown, unknown, unknown>, id: string): Promise<ReturnType<typeof ok>> {
  const job = await deadJob(call, id)
  await call.server.sluice.jobs.retry(id)
  return ok({ job: jobJson((await call.server.remote.get(id)) ?? job) })
}

/** The query of a dead-letter page: by queue and type. */
export const DeadQuery: z.ZodType<
  Page & { queue?: string | undefined; type?: string | undefined; cursor?: string | undefined }
> = z.intersection(PageQuery, z.object({ queue: QueueName.optional(), type: JobType.optional(), cursor: Cursor }))

/** Reads a page of the discarded jobs, latest first. */
export async function findDead(call: Call<unknown, z.output<typeof DeadQuery>, unknown>): Promise<DetailsPage> {
  const { queue, type } = call.query
  const store = await call.server.remote.store()
  const { jobs, total, next } = await store.findDetails({
    deadLetter: true,
    ...scopeOf(call, queue),
    ...(type !== undefined && { task: type }),
    ...jobRowsOf(call.query, call.server.bounds.answerBytes),
  })
  return { jobs: jobs.filter((job) => maySee(call, job)), total, next }
}

/** Lists the discarded jobs that are kept for inspection. */
export const listDeadLetter: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/dead-letter',
  name: 'listDeadLetter',
  summary: 'List the discarded jobs.',
  query: DeadQuery,
  answers: { 200: 'The jobs, latest first.' },
  async run(call) {
    const rows = rowsOf(call.query)
    const { jobs, total, next } = await findDead(call)
    return ok({
      jobs: jobs.map(jobJson),
      pagination: { total, ...rows, has_more: next !== null, next_cursor: cursorOf(next) },
    })
  },
})

/** Reads one discarded job. */
export const getDeadLetter: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/dead-letter/:id',
  name: 'getDeadLetter',
  summary: 'Read one discarded job.',
  params: JobParams,
  answers: { 200: 'The job.' },
  run: async (call) => ok({ job: jobJson(await deadJob(call, call.params.id)) }),
})

/** Runs a dead-letter job again. */
export const retryDeadLetter: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/dead-letter/:id/retry',
  name: 'retryDeadLetter',
  summary: 'Run a discarded job again.',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job is available.' },
  run: (call) => retryDead(call, call.params.id),
})

/** Deletes a dead-letter job. */
export const deleteDeadLetter: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/dead-letter/:id',
  name: 'deleteDeadLetter',
  summary: 'Delete a discarded job.',
  params: JobParams,
  answers: { 200: 'The job is deleted.' },
  async run(call) {
    const { id } = await deadJob(call, call.params.id)
    await (await call.server.remote.store()).remove(id)
    return ok({ deleted: true, id, job_id: id })
  },
})
