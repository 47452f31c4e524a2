import { z } from 'zod'
import { toJsonText } from '../../base/json-value.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { timeOf } from './job-json.ts'
import { holderOf, settledJob, BudgetReport } from './settled.ts'
import { JobId, WorkerId } from './schemas.ts'

/** ACK: a run has succeeded. */
export const ack: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/ack',
  name: 'ackJob',
  summary: 'Report that a run has succeeded.',
  body: z.looseObject({
    job_id: JobId,
    worker_id: WorkerId.nullish(),
    attempt: z.int().min(1).nullish(),
    result: z.unknown().optional(),
    ...BudgetReport,
  }),
  answers: { 200: 'The job is completed.' },
  async run(call) {
    const { job_id: id, result } = call.body
    const text = result === undefined ? null : toJsonText(result, 'the result')
    const job = settledJob(await call.server.remote.complete(id, holderOf(call, call.body), text), id, 'acknowledged')
    return ok({
      acknowledged: true,
      id,
      job_id: id,
      state: job.state,
      completed_at: timeOf(job.finishedUs ?? job.sinceUs),
    })
  },
})
