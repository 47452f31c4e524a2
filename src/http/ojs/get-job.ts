import { ok, operation, type Operation } from '../operation.ts'
import { jobJson } from './job-json.ts'
import { namedJob } from './jobs.ts'
import { JobParams } from './schemas.ts'

/** INFO: one job as it stands. */
export const getJob: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/jobs/:id',
  name: 'getJob',
  summary: 'Read one job.',
  params: JobParams,
  answers: { 200: 'The job.' },
  run: async (call) => ok({ job: jobJson(await namedJob(call, call.params.id)) }),
})
