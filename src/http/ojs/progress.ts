import { z } from 'zod'
import { toJsonText } from '../../base/json-value.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { namedJob } from './jobs.ts'
import { JobId, JobParams } from './schemas.ts'

const ProgressNotes = { message: z.string().max(10_000).nullish(), data: z.unknown().optional() }

/** Stores the progress of a run. The progress of a job that does not run is dropped. */
export const putProgress: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/jobs/:id/progress',
  name: 'putProgress',
  summary: 'Report the progress of a run.',
  params: JobParams,
  body: z.looseObject({ progress: z.number(), checkpoint: z.unknown().optional(), ...ProgressNotes }),
  answers: { 200: 'The stored progress.' },
  async run(call) {
    const { progress, message, data, checkpoint } = call.body
    return note(call, call.params.id, { progress: clamp(progress), message, data, checkpoint })
  },
})

/** The same in the form of SDKs, in hundredths. */
export const reportProgress: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workers/progress',
  name: 'reportProgress',
  summary: 'Report the progress of a run, from 0 to 100.',
  body: z.looseObject({ job_id: JobId, percentage: z.number(), ...ProgressNotes }),
  answers: { 200: 'The stored progress.' },
  async run(call) {
    const { job_id: id, percentage, message, data } = call.body
    return note(call, id, { progress: clamp(percentage / 100), message, data })
  },
})

/** Reads the progress of a job. */
export const getProgress: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/jobs/:id/progress',
  name: 'getProgress',
  summary: 'Read the progress of a run.',
  params: JobParams,
  answers: { 200: 'The last reported progress; null: none.' },
  async run(call) {
    const { id, state, progress } = await namedJob(call, call.params.id)
    const report = progress === null ? { progress: null } : (JSON.parse(progress) as object)
    return ok({ job_id: id, state, ...report })
  },
})

async function note(
  call: Call<unknown, unknown, unknown>,
  id: string,
  report: Readonly<Record<string, unknown>>,
): Promise<ReturnType<typeof ok>> {
  const { remote, clock } = call.server
  const job = await namedJob(call, id)
  const kept = { ...report, updated_at: new Date(clock.now()).toISOString() }
  await (await remote.store()).noteProgress(id, toJsonText(kept, 'the progress'))
  if (job.state === 'active') await remote.extend(job)
  return ok({ job_id: id, ...kept })
}

function clamp(progress: number): number {
  return Math.min(1, Math.max(0, progress))
}
