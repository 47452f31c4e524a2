import { z } from 'zod'
import type { Duration } from '../../base/duration.ts'
import { LONGEST_NAME } from '../../base/text.ts'
import { viewOf } from '../../engine/api/job-view.ts'
import { prepareNamed } from '../../engine/api/named-job.ts'
import { internalsOf } from '../../engine/internals.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { startByName } from '../flows/start-flow.ts'
import { FlowKey } from '../flows/schemas.ts'
import type { Call, Operation } from '../operation.ts'
import { readyJobs } from '../ojs/ready-jobs.ts'
import { pushed } from '../ojs/store-jobs.ts'
import { Priority } from '../priority.ts'
import { notFound } from '../refusal.ts'
import { JobRow, jobRow } from './job-json.ts'
import { monitorOperation, Name, Reason } from './monitor-operation.ts'
import { seenBy, seesKey, storedLimit } from './seen.ts'
import { Until, untilOf } from './until.ts'

const NewJobBody = z.strictObject({
  task: z.string().min(1).max(LONGEST_NAME),
  input: z.unknown().optional(),
  queue: z.string().min(1).max(LONGEST_NAME).optional(),
  priority: Priority.optional(),
  attempts: z.int().min(1).optional(),
  runAt: Until.optional(),
  unique: z.string().max(1000).optional().meta({ description: 'Nothing is stored while another job has this key.' }),
  limits: z
    .array(z.strictObject({ limit: Name, key: z.string().max(4096).optional() }))
    .max(64)
    .optional()
    .meta({
      description: 'Limits beside those of its code. Needed, if only as an empty list, where no code here has it.',
    }),
  weight: z.int().min(1).optional().meta({ description: 'Its cost under each of these limits; default 1.' }),
  reason: Reason,
})
type Body = z.output<typeof NewJobBody>
type JobCall = Call<unknown, unknown, Body>

/** Stores a job. */
export const enqueueJob: Operation = monitorOperation({
  method: 'POST',
  path: '/jobs',
  name: 'monitorEnqueueJob',
  summary: 'Store a job of a task, under the limits of its code or of the configuration, or under those that it names.',
  body: NewJobBody,
  status: 201,
  isNew: ({ created }) => created === true,
  answer: z.object({
    created: z.boolean().meta({ description: 'False: another job has its unique key.' }),
    job: JobRow,
  }),
  async run(call) {
    const { server, tenant } = call
    const { job, limits } = await prepared(call)
    await server.names.admit('queues', tenant, [job.queue])
    const [answer] = (await pushed(call, [job], limits)).answers
    const stored = answer && (await server.remote.get(answer.id))
    if (!stored || !seenBy(call).owns(stored.queue)) throw notFound('job', job.id)
    return { created: answer.kind === 'created', job: jobRow(call, viewOf(stored)) }
  },
})

/** Starts a flow. */
export const startFlow: Operation = monitorOperation({
  method: 'POST',
  path: '/flows',
  name: 'monitorStartFlow',
  summary: 'Start a flow of a workflow that the engine lists. With a key that a running flow has, the answer names it.',
  body: z.strictObject({
    workflow: Name,
    input: z.unknown().optional(),
    key: FlowKey.optional(),
    delay: z.string().min(1).max(64).optional(),
    reason: Reason,
  }),
  status: 201,
  isNew: ({ duplicate }) => duplicate === false,
  answer: z.object({ id: z.string(), duplicate: z.boolean() }),
  run(call) {
    const { workflow, input, key, delay } = call.body
    return startByName(call, workflow, { input, key, delay: delay as Duration | undefined })
  },
})

/** The configuration of a server stands in place of the code of a type. */
async function prepared(call: JobCall): Promise<{ job: NewJob; limits: readonly LimitDefinition[] }> {
  const { body, server, tenant } = call
  const { reason: _, runAt, limits: named, input = null, ...rest } = body
  const { calls, tasks } = internalsOf(server.sluice)
  const { task, priority = 0, queue = tasks.get(task)?.queue ?? 'default' } = rest
  const stored = seenBy(call).stored(queue)
  // The engine's own queue of that name is another one.
  const apart = stored !== queue && { queueLimits: { ofJobs: () => [] }, queueTerms: new Map<string, never>() }
  const json = { type: task, args: [input], options: { queue, priority } }
  const covered = server.limits.covers(task) ? await readyJobs(call, [json]) : null
  const job = await prepareNamed(await server.remote.store(), { ...calls, ...apart }, tasks, {
    ...rest,
    ...timeOf(runAt),
    input,
    queue,
    tenant,
    uses: covered?.jobs[0]?.uses,
    limits: named?.map(({ limit, key }) => ({ limit: limitOf(call, limit, key), key })),
  })
  return { job: { ...job, queue: stored }, limits: covered?.limits ?? [] }
}

/** The stored name of a limit. @throws {Refusal} 404 for a limit, or a key of it, that the caller does not see */
function limitOf(call: JobCall, name: string, key: string | undefined): string {
  const stored = storedLimit(call, name)
  if (!seesKey(call, stored, key ?? null)) throw notFound('limit', name)
  return stored
}

function timeOf(text: string | undefined): { readonly runAt?: Date; readonly delay?: Duration } {
  if (text === undefined) return {}
  const at = untilOf(text)
  return at instanceof Date ? { runAt: at } : { delay: at as Duration }
}
