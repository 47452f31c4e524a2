import { z } from 'zod'
import { ok, operation, type Operation } from '../operation.ts'
import { extraOf, jobJson } from './job-json.ts'
import { namedJob, wrongState } from './jobs.ts'
import { runAtOf } from './new-job.ts'
import { JobParams } from './schemas.ts'

/** Activates a pending job. */
export const activateJob: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/jobs/:id/activate',
  name: 'activateJob',
  summary: 'Activate a pending job.',
  params: JobParams,
  body: z.unknown().optional(),
  answers: { 200: 'The job is available, or scheduled.' },
  async run(call) {
    const { id } = call.params
    const job = await namedJob(call, id)
    const { remote } = call.server
    const was = await (await remote.store()).activate(id, runAtOf(extraOf(job)))
    if (was !== 'pending') throw wrongState(id, was ?? job.state, 'activated')
    remote.notify()
    return ok({ job: jobJson((await remote.get(id)) ?? job) })
  },
})
