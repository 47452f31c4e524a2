import { z } from 'zod'
import { ok, operation, type Operation } from '../operation.ts'
import { deadJob, DeadQuery, findDead, retryDead } from './dead-letter.ts'
import { jobJson } from './job-json.ts'
import { cursorOf, paginationOf, scopeOf } from './pages.ts'
import { JobParams } from './schemas.ts'

/** Lists the discarded jobs. */
export const adminListDeadLetter: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/dead-letter',
  name: 'adminListDeadLetter',
  summary: 'List the discarded jobs.',
  query: DeadQuery,
  answers: { 200: 'The jobs, latest first.' },
  async run(call) {
    const { jobs, total, next } = await findDead(call)
    const pagination = { ...paginationOf(total, call.query), next_cursor: cursorOf(next) }
    return ok({ items: jobs.map(jobJson), pagination })
  },
})

/** Reads one discarded job, without a wrapper. */
export const adminGetDeadLetter: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/dead-letter/:id',
  name: 'adminGetDeadLetter',
  summary: 'Read one discarded job.',
  params: JobParams,
  answers: { 200: 'The job.' },
  run: async (call) => ok(jobJson(await deadJob(call, call.params.id))),
})

/** Counts the discarded jobs. */
export const deadLetterStats: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/admin/dead-letter/stats',
  name: 'deadLetterStats',
  summary: 'Count the discarded jobs.',
  answers: { 200: 'The number.' },
  async run(call) {
    const store = await call.server.remote.store()
    const { total } = await store.findDetails({ deadLetter: true, ...scopeOf(call), limit: 1, offset: 0 })
    return ok({ total })
  },
})

/** Runs a discarded job again. */
export const adminRetryDeadLetter: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/admin/dead-letter/:id/retry',
  name: 'adminRetryDeadLetter',
  summary: 'Run a discarded job again.',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job is available.' },
  run: (call) => retryDead(call, call.params.id),
})

/** Deletes a discarded job. */
export const adminDeleteDeadLetter: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/admin/dead-letter/:id',
  name: 'adminDeleteDeadLetter',
  summary: 'Delete a discarded job.',
  params: JobParams,
  answers: { 204: 'The job is deleted.' },
  async run(call) {
    const { id } = await deadJob(call, call.params.id)
    await (await call.server.remote.store()).remove(id)
    return { status: 204, body: null }
  },
})
