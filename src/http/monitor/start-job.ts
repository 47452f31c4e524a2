import { z } from 'zod'
import type { Duration } from '../../base/duration.ts'
import { durationMs } from '../../base/duration.ts'
import { viewOf } from '../../engine/api/job-view.ts'
import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import type { Call, Operation } from '../operation.ts'
import { Priority } from '../priority.ts'
import { invalid, notFound } from '../refusal.ts'
import { wrongState } from './act-on-job.ts'
import { OfJob, seenJob } from './job.ts'
import { explanationJson, JobRow, jobRow } from './job-json.ts'
import { monitorOperation, Reason, Why } from './monitor-operation.ts'
import { Until, untilOf } from './until.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** Lets a job that waits for its time start now. */
export const runNow: Operation = monitorOperation({
  method: 'POST',
  path: '/jobs/:id/run-now',
  name: 'monitorRunJob',
  summary:
    'Let a scheduled or retryable job start now. It is refused with the reason where a budget forbids the start.',
  params: OfJob,
  body: Why,
  answer: z.object({ done: z.boolean(), job: JobRow }),
  async run(call) {
    const { id, state } = await seenJob(call, call.params.id)
    const { jobs } = call.server.sluice
    const found = await jobs.explain(id)
    if (state === 'available') throw wrongState(id, state, explanationJson(call, found).words)
    if (state !== 'scheduled' && state !== 'retryable')
      throw wrongState(id, state, 'only a job that waits for its time can start now')
    await requireBudget(call, id, state, found)
    if (!(await jobs.promote(id))) throw wrongState(id, state, 'its state has changed meanwhile')
    return { done: true, job: await rowOf(call, id) }
  },
})

/** Changes when a waiting job starts. */
export const patchJob: Operation = monitorOperation({
  method: 'PATCH',
  path: '/jobs/:id',
  name: 'monitorChangeJob',
  summary: 'Give a waiting job another priority, or another time.',
  params: OfJob,
  body: z.strictObject({ priority: Priority.optional(), runAt: Until.optional(), reason: Reason }),
  answer: z.object({ job: JobRow }),
  async run(call) {
    const { priority, runAt } = call.body
    if (priority === undefined && runAt === undefined) throw invalid('The change is empty. Expected priority or runAt.')
    const { id, state } = await seenJob(call, call.params.id)
    const { jobs } = call.server.sluice
    if (runAt !== undefined && !(await jobs.reschedule(id, timeOf(call, runAt))))
      throw wrongState(id, state, 'it does not wait for a time or for its turn')
    if (priority !== undefined && !(await jobs.reprioritize(id, priority)))
      throw wrongState(id, state, 'its priority cannot change any more')
    call.server.remote.notify()
    return { job: await rowOf(call, id) }
  },
})

/** @throws {Refusal} 409 while a budget that the job needs has no room for it */
async function requireBudget(call: AnyCall, id: string, state: string, { limits }: JobExplanation): Promise<void> {
  for (const { limit, key, weight } of limits) {
    const [bucket] = await call.server.sluice.limits.inspect(limit, key ?? '')
    if (!bucket || (bucket.available >= weight && bucket.waiting === 0)) continue
    const next = bucket.nextStart ? `; its next start is at ${bucket.nextStart.toISOString()}` : ''
    const who = key === null ? limit : `${limit} for ${key}`
    const why = bucket.waiting > 0 ? `${bucket.waiting} jobs wait for` : 'nothing is left of'
    throw wrongState(id, state, `${why} the budget of ${who}${next}`)
  }
}

/** @throws {SluiceError} `duration.invalid` */
function timeOf({ server }: AnyCall, text: string): Date {
  const at = untilOf(text)
  return at instanceof Date ? at : new Date(server.clock.now() + durationMs(at as Duration, 'runAt'))
}

/** @throws {Refusal} 404 */
async function rowOf(call: AnyCall, id: string): Promise<object> {
  const job = await call.server.remote.get(id)
  if (!job) throw notFound('job', id)
  return jobRow(call, viewOf(job))
}
