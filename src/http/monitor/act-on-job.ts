import { z } from 'zod'
import { viewOf } from '../../engine/api/job-view.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound, Refusal } from '../refusal.ts'
import { OfJob, seenJob } from './job.ts'
import { JobRow, jobRow } from './job-json.ts'
import { monitorOperation, Why, WhyQuery } from './monitor-operation.ts'

type AnyCall = Call<unknown, unknown, unknown>

const Done = z.object({ done: z.boolean().meta({ description: 'False: its state did not allow it.' }), job: JobRow })

/** Cancels a job. */
export const cancelJob: Operation = monitorOperation({
  method: 'POST',
  path: '/jobs/:id/cancel',
  name: 'monitorCancelJob',
  summary: 'Cancel a job. One that runs is asked to end.',
  params: OfJob,
  body: Why,
  answer: Done,
  run: (call) => act(call, call.params.id, (id) => call.server.sluice.jobs.cancel(id)),
})

/** Runs a discarded job again. */
export const retryJob: Operation = monitorOperation({
  method: 'POST',
  path: '/jobs/:id/retry',
  name: 'monitorRetryJob',
  summary: 'Run a discarded job again, with new attempts.',
  params: OfJob,
  body: Why,
  answer: Done,
  run: (call) => act(call, call.params.id, (id) => call.server.sluice.jobs.retry(id)),
})

/** Deletes a job that has ended. */
export const deleteJob: Operation = monitorOperation({
  method: 'DELETE',
  path: '/jobs/:id',
  name: 'monitorDeleteJob',
  summary: 'Delete a job that has ended.',
  params: OfJob,
  query: WhyQuery,
  answer: z.object({ deleted: z.boolean() }),
  async run(call) {
    const { id, state } = await seenJob(call, call.params.id)
    if (!(await (await call.server.remote.store()).remove(id)))
      throw wrongState(id, state, 'only a job that has ended, and whose flow has ended, can be deleted')
    return { deleted: true }
  },
})

/** Changes a job that the caller sees, and shows it. */
async function act(call: AnyCall, named: string, change: (id: string) => Promise<boolean>): Promise<object> {
  const { id } = await seenJob(call, named)
  const done = await change(id)
  call.server.remote.notify()
  const job = await call.server.remote.get(id)
  if (!job) throw notFound('job', named)
  return { done, job: jobRow(call, viewOf(job)) }
}

/** Makes the refusal of a change that the state of a job does not allow. */
export function wrongState(id: string, state: string, why: string): Refusal {
  return new Refusal(409, 'conflict', `The job ${id} is ${state}: ${why}.`, {
    details: { resource_type: 'job', resource_id: id, current_state: state },
  })
}
