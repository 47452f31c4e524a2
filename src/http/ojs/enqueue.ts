import { operation, type Operation } from '../operation.ts'
import { jobJson } from './job-json.ts'
import { NewJobJson } from './schemas.ts'
import { storeJobs } from './store-jobs.ts'

/** PUSH: stores one job. */
export const enqueue: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/jobs',
  name: 'enqueueJob',
  summary: 'Store one job.',
  body: NewJobJson,
  answers: { 201: 'The job was stored.', 200: 'A job with the same unique key exists.' },
  async run(call) {
    const { jobs, duplicate, headers } = await storeJobs(call, [call.body])
    const job = jobs[0]
    return {
      status: duplicate ? 200 : 201,
      body: { job: job && jobJson(job) },
      headers: { ...headers, ...(!duplicate && job && { Location: `/ojs/v1/jobs/${job.id}` }) },
    }
  },
})
