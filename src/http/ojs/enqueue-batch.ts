import { z } from 'zod'
import { operation, type Operation } from '../operation.ts'
import { jobJson } from './job-json.ts'
import { NewJobJson } from './schemas.ts'
import { storeJobs } from './store-jobs.ts'

const JOBS_AT_MOST = 10_000

/** Stores many jobs in one transaction. */
export const enqueueBatch: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/jobs/batch',
  name: 'enqueueBatch',
  summary: 'Store jobs, all or none.',
  body: z.looseObject({ jobs: z.array(NewJobJson).min(1).max(JOBS_AT_MOST) }),
  answers: { 201: 'All jobs were stored.' },
  async run(call) {
    const { jobs, headers } = await storeJobs(call, call.body.jobs)
    return { status: 201, body: { jobs: jobs.map(jobJson), count: jobs.length }, headers }
  },
})
