import { z } from 'zod'
import { alias, type Call, ok, operation, type Operation } from '../operation.ts'
import { type JobAsJson, jobJson } from './job-json.ts'
import { namedJob, wrongState } from './jobs.ts'
import { JobParams } from './schemas.ts'

/**
 * Cancels a job that the caller may see. A remote run ends at once; its worker learns it when it settles.
 * @throws {Refusal} 404, 409
 */
export async function cancelNamed(call: Call<unknown, unknown, unknown>, id: string): Promise<JobAsJson> {
  const job = await namedJob(call, id)
  const { sluice, remote } = call.server
  if (!(await sluice.jobs.cancel(id))) throw wrongState(id, job.state, 'cancelled')
  if (job.state === 'active') await remote.endCancelled(id)
  return jobJson((await remote.get(id)) ?? job)
}

/** CANCEL: ends a job that has not ended. */
export const cancelJob: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/jobs/:id',
  name: 'cancelJob',
  summary: 'Cancel a job.',
  params: JobParams,
  answers: { 200: 'The job was cancelled.' },
  run: async (call) => ok({ job: await cancelNamed(call, call.params.id) }),
})

/** The same by POST. Its body is ignored. */
export const postCancelJob: Operation = {
  ...alias(cancelJob, { method: 'POST', path: '/ojs/v1/jobs/:id/cancel' }),
  body: z.unknown().optional(),
}
