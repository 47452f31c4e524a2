import { ok, operation, type Operation } from '../operation.ts'
import { waitOf } from './explain-job.ts'
import { jobJson } from './job-json.ts'
import { namedJob } from './jobs.ts'
import { JobParams } from './schemas.ts'

/** INFO: one job as it stands. */
export const getJob: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/jobs/:id',
  name: 'getJob',
  summary: 'Read one job. If it waits for a budget, the answer names the budget and the end of the wait.',
  params: JobParams,
  answers: { 200: 'The job.' },
  async run(call) {
    const job = await namedJob(call, call.params.id)
    return ok({ job: { ...jobJson(job), x_wait: await waitOf(call, job) } })
  },
})
