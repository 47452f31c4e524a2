import { z } from 'zod'
import { fromJsonText } from '../../base/json-value.ts'
import { END_OF_TIME_MS } from '../../base/instant.ts'
import { dateOf, viewOf } from '../../engine/api/job-view.ts'
import { FLOW_STATES } from '../../jobs/flow.ts'
import { LOG_LEVELS } from '../../jobs/job-log.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import type { Call, Operation } from '../operation.ts'
import { notFound } from '../refusal.ts'
import { ExplanationJson, explanationJson, JobRow, jobRow } from './job-json.ts'
import { TimelineJson, timelineOf } from './job-timeline.ts'
import { monitorOperation, Time, timeOf, TimeOrNull } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** Larger payloads and results are left out of an answer. */
const LONGEST_VALUE = 1_048_576

/** The id of a job in a path. */
export const OfJob: z.ZodType<{ id: string }> = z.object({ id: z.string().min(1).max(64) })

const LogJson = z.object({
  at: Time,
  level: z.enum(LOG_LEVELS),
  attempt: z.number(),
  message: z.string(),
  fields: z.looseObject({}).optional(),
})

/** A job with all that is stored of it. */
const JobJson = JobRow.and(
  z.object({
    input: z.unknown().optional(),
    inputOmitted: z.boolean().optional().meta({ description: 'The payload is larger than 1 MiB.' }),
    result: z.unknown().optional(),
    resultOmitted: z.boolean().optional(),
    limits: z.array(z.object({ limit: z.string(), key: z.string().nullable(), weight: z.number() })),
    worker: z.union([z.string(), z.number()]).nullable().meta({ description: 'The worker that runs it.' }),
    progress: z.unknown().optional(),
    keptUntil: TimeOrNull.meta({
      description:
        'It is deleted at this time, or earlier where its task keeps only so many. Null: it has not ended, it is kept as long as its flow, or for ever.',
    }),
    timeline: z.array(TimelineJson),
    logs: z.array(LogJson).meta({ description: 'The last lines that its runs have logged, oldest first.' }),
    children: z
      .array(z.object({ id: z.string(), workflow: z.string(), state: z.enum(FLOW_STATES) }))
      .meta({ description: 'The flows that its flow has started, oldest first, at most 1,000.' }),
    wait: ExplanationJson.nullable().meta({ description: 'Null: it does not wait.' }),
  }),
)

/** Shows a job with its timeline. */
export const getJob: Operation = monitorOperation({
  method: 'GET',
  path: '/jobs/:id',
  name: 'monitorJob',
  summary: 'Show a job: its payload, its result, why it waits, and what has happened to it.',
  params: OfJob,
  answer: JobJson,
  async run(call) {
    const details = await seenJob(call, call.params.id)
    const { redact } = call.server.monitor
    const view = viewOf(details)
    const found = await call.server.sluice.jobs.explain(details.id)
    const wait = explanationJson(call, found)
    const { id, state } = view
    const isWaiting = state === 'available' || state === 'scheduled' || state === 'retryable' || state === 'pending'
    return {
      ...jobRow(call, view),
      ...(details.input.length > LONGEST_VALUE ? { inputOmitted: true } : { input: redact(view.input) }),
      ...((details.result?.length ?? 0) > LONGEST_VALUE ? { resultOmitted: true } : { result: redact(view.result) }),
      limits: wait.limits,
      worker: details.workerName === null ? details.worker : seenBy(call).name(details.workerName),
      ...(details.progress !== null && { progress: redact(fromJsonText(details.progress, null)) }),
      keptUntil: keptUntil(details),
      timeline: timelineOf(details, isWaiting ? wait : null, redact),
      logs: await logsOf(call, id),
      children: await childrenOf(call, details),
      wait: isWaiting ? wait : null,
      id,
    }
  },
})

function keptUntil({ keptUntilUs: us }: JobDetails): string | null {
  return us === null || us >= END_OF_TIME_MS * 1000 ? null : timeOf(dateOf(us))
}

async function logsOf(call: AnyCall, id: string): Promise<object[]> {
  const { redact } = call.server.monitor
  return (await (await call.server.remote.store()).jobLog(id)).map(({ atMs, fields, ...line }) => ({
    at: new Date(atMs).toISOString(),
    ...line,
    ...(fields && { fields: redact(fields) }),
  }))
}

/** The flows that the flow of a workflow's own job has started. */
async function childrenOf(call: AnyCall, { flow }: JobDetails): Promise<object[]> {
  if (flow?.node !== 0) return []
  const steps = await (await call.server.remote.store()).flowSteps(flow.id)
  return (steps?.children ?? []).map(({ id, name, state }) => ({ id, workflow: name, state }))
}

/** Explains why a job waits. */
export const explainJob: Operation = monitorOperation({
  method: 'GET',
  path: '/jobs/:id/explain',
  name: 'monitorExplainJob',
  summary: 'Explain why a job waits: its budget, its position and its expected start.',
  params: OfJob,
  answer: ExplanationJson,
  async run(call) {
    const { id } = await seenJob(call, call.params.id)
    return explanationJson(call, await call.server.sluice.jobs.explain(id))
  },
})

/** The job that a call names. One of another tenant is reported as missing. @throws {Refusal} 404 */
export async function seenJob(call: AnyCall, id: string): Promise<JobDetails> {
  const job = await call.server.remote.get(id)
  if (!job || !seenBy(call).owns(job.queue)) throw notFound('job', id)
  call.concerns(job.queue)
  return job
}
