import { z } from 'zod'
import type { JobFacts } from '../../store/outside.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { jobJson } from './job-json.ts'
import { maySee } from './jobs.ts'
import { rowsOf, scopeOf } from './pages.ts'
import { JobParams, PageQuery } from './schemas.ts'

/** A job of the dead letter that a call names. @throws Refusal 404 */
export async function deadJob(call: Call<unknown, unknown, unknown>, id: string): Promise<JobFacts> {
  const job = await call.server.remote.get(id)
  if (!job?.deadLetter || !maySee(call, job)) throw notFound('dead letter job', id)
  return job
}

/** Makes a job of the dead letter available again. */
export async function retryDead(call: Call<unknown, unknown, unknown>, id: string): Promise<ReturnType<typeof ok>> {
  const job = await deadJob(call, id)
  await call.server.sluice.jobs.retry(id)
  call.server.remote.ring()
  return ok({ job: jobJson((await call.server.remote.get(id)) ?? job) })
}

/** Jobs that were given up and are kept for somebody to look at. */
export const listDeadLetter: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/dead-letter',
  name: 'listDeadLetter',
  summary: 'List the jobs that were given up.',
  scope: 'client',
  query: PageQuery,
  answers: { 200: 'The jobs, the latest first.' },
  async run(call) {
    const rows = rowsOf(call.query)
    const { jobs, total } = await (
      await call.server.remote.outside()
    ).find({ deadLetter: true, ...scopeOf(call), ...rows })
    const shown = jobs.filter((job) => maySee(call, job)).map(jobJson)
    return ok({ jobs: shown, pagination: { total, ...rows, has_more: rows.offset + jobs.length < total } })
  },
})

/** Runs a job of the dead letter again. */
export const retryDeadLetter: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/dead-letter/:id/retry',
  name: 'retryDeadLetter',
  summary: 'Run a job that was given up again.',
  scope: 'client',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job is available.' },
  run: (call) => retryDead(call, call.params.id),
})

/** Deletes a job of the dead letter. */
export const deleteDeadLetter: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/dead-letter/:id',
  name: 'deleteDeadLetter',
  summary: 'Delete a job that was given up.',
  scope: 'client',
  params: JobParams,
  answers: { 200: 'The job is gone.' },
  async run(call) {
    const { id } = await deadJob(call, call.params.id)
    await (await call.server.remote.outside()).remove(id)
    return ok({ deleted: true, id, job_id: id })
  },
})
