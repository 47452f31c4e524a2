import { z } from 'zod'
import { toJsonText } from '../../base/json-value.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { timeOf } from './job-json.ts'
import { namedJob } from './jobs.ts'
import { holderOf, settledJob } from './settled.ts'
import { JobId, WorkerId } from './schemas.ts'

/** ACK: a run has succeeded. */
export const ack: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/ack',
  name: 'ackJob',
  summary: 'Say that a run has succeeded.',
  scope: 'worker',
  body: z.looseObject({
    job_id: JobId,
    worker_id: WorkerId.nullish(),
    attempt: z.int().min(1).optional(),
    result: z.unknown().optional(),
  }),
  answers: { 200: 'The job is completed.' },
  async run(call) {
    const { job_id: id, worker_id: worker, attempt, result } = call.body
    await namedJob(call, id)
    const text = result === undefined ? null : toJsonText(result, 'the result')
    const holder = holderOf(call, { worker_id: worker ?? undefined, attempt })
    const job = settledJob(await call.server.remote.complete(id, holder, text), id, 'acknowledged')
    return ok({
      acknowledged: true,
      id,
      job_id: id,
      state: job.state,
      completed_at: timeOf(job.finishedUs ?? job.sinceUs),
    })
  },
})
