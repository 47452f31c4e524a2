import { z } from 'zod'
import type { Callback } from '../../jobs/flow.ts'
import { dependencies, type FlowJob } from '../../jobs/new-flow.ts'
import type { FlowView } from '../../engine/flows-api.ts'
import type { JobView } from '../../engine/jobs-api.ts'
import { afterCommit } from '../after-commit.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { invalid, notFound, Refusal, unprocessable } from '../refusal.ts'
import { requireRoom } from './backpressure.ts'
import { maySee } from './jobs.ts'
import { readyJobs, type ReadyJobs } from './ready-jobs.ts'
import { type JobJson, JobId, NewJobJson } from './schemas.ts'
import { workflowJson } from './workflow-json.ts'

const STEPS_AT_MOST = 1_000
const JOBS_AT_MOST = 10_000
/** So many jobs are shown of one workflow; all of them are counted. */
const SHOWN_AT_MOST = 1_000

const Name = z.string().min(1).max(255).nullish()
const Jobs = z.array(NewJobJson).min(1).max(JOBS_AT_MOST)
const Body = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('chain'), name: Name, steps: z.array(NewJobJson).min(1).max(STEPS_AT_MOST) }),
  z.looseObject({ type: z.literal('group'), name: Name, jobs: Jobs }),
  z.looseObject({
    type: z.literal('batch'),
    name: Name,
    jobs: Jobs,
    callbacks: z.strictObject({
      on_success: NewJobJson.nullish(),
      on_failure: NewJobJson.nullish(),
      on_complete: NewJobJson.nullish(),
    }),
  }),
])
const Params = z.object({ id: JobId })

/** Stores a workflow with all its jobs, and starts it. */
export const createWorkflow: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workflows',
  name: 'createWorkflow',
  summary: 'Start a chain, a group or a batch, all or nothing.',
  body: Body,
  answers: { 201: 'The workflow runs.' },
  async run(call) {
    const { body, server } = call
    const { sluice, remote } = server
    const calls = body.type === 'chain' ? body.steps : body.jobs
    const called = body.type === 'batch' ? callbacksOf(body.callbacks) : []
    if (body.type === 'batch' && called.length === 0)
      throw invalid('callbacks: give at least one of on_success, on_failure and on_complete')
    const all = [...calls, ...called.map(([, json]) => json)]
    const { jobs: checked, limits } = await ready(call, all)
    const jobs = checked.map((job): FlowJob => ({ job, delayUs: null }))
    const id = server.newId()
    const after = dependencies(body.type, calls.length)
    const first = jobs.filter((_, node) => after[node]?.length === 0)
    await requireRoom(
      call,
      first.map(({ job }) => job.queue),
    )
    if (limits.length > 0) await remote.define(limits)
    await sluice.flows.register({
      id,
      kind: body.type,
      name: body.name ?? null,
      nodes: jobs.slice(0, calls.length).map((job, node) => ({ ...job, after: after[node] ?? [] })),
      callbacks: Object.fromEntries(called.map(([callback], i) => [callback, jobs[calls.length + i] as FlowJob])),
      extra: null,
    })
    remote.stir()
    const { flow, jobs: stored } = await afterCommit(
      server.logger,
      call.requestId,
      () => namedFlow(call, id),
      () => ({ flow: asStarted(id, body, calls.length, server.clock.now()), jobs: [] }),
    )
    return { status: 201, body: shown(workflowJson(flow, stored)), headers: { Location: `/ojs/v1/workflows/${id}` } }
  },
})

/** Shows a workflow. */
export const getWorkflow: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/workflows/:id',
  name: 'getWorkflow',
  summary: 'Show a workflow and how far its jobs have come.',
  params: Params,
  answers: { 200: 'The workflow.' },
  async run(call) {
    const { flow, jobs } = await namedFlow(call, call.params.id)
    return ok(shown(workflowJson(flow, jobs)))
  },
})

/** Cancels a workflow. */
export const cancelWorkflow: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/workflows/:id',
  name: 'cancelWorkflow',
  summary: 'Cancel a workflow: what waits is gone at once, what is active may end.',
  params: Params,
  answers: { 200: 'The workflow was cancelled.' },
  async run(call) {
    const { id } = call.params
    const { flow } = await namedFlow(call, id)
    const { sluice, remote } = call.server
    if (!(await sluice.flows.cancel(id)))
      throw new Refusal(409, 'conflict', `The workflow ${id} is ${flow.state} and cannot be cancelled.`, {
        details: { resource_type: 'workflow', resource_id: id, current_state: flow.state },
      })
    remote.stir()
    const now = await namedFlow(call, id)
    return ok(shown(workflowJson(now.flow, now.jobs)))
  },
})

/** A workflow as it was stored, for when it cannot be read back. */
function asStarted(id: string, body: z.output<typeof Body>, total: number, nowMs: number): FlowView {
  const counts = { total, completed: 0, discarded: 0, cancelled: 0 }
  const times = { createdAt: new Date(nowMs), finishedAt: null }
  return { id, kind: body.type, name: body.name ?? null, state: 'running', ...counts, ...times, meta: {} }
}

/** The document names it under `workflow`; some clients read the root. */
function shown(workflow: Record<string, unknown>): Record<string, unknown> {
  return { ...workflow, workflow }
}

function callbacksOf(given: Readonly<Record<string, JobJson | null | undefined>>): [Callback, JobJson][] {
  const { on_success: success, on_failure: failure, on_complete: complete } = given
  const called: [Callback, JobJson | null | undefined][] = [
    ['success', success],
    ['failure', failure],
    ['complete', complete],
  ]
  return called.filter((entry): entry is [Callback, JobJson] => entry[1] !== null && entry[1] !== undefined)
}

async function ready(call: Call<unknown, unknown, unknown>, sent: readonly JobJson[]): Promise<ReadyJobs> {
  if (sent.some(({ id }) => id !== undefined))
    throw unprocessable('id: the jobs of a workflow get ids of their own; leave it out')
  return readyJobs(call, sent)
}

/** A workflow that the caller may see, as its jobs are. @throws Refusal 404 */
async function namedFlow(
  call: Call<unknown, unknown, unknown>,
  id: string,
): Promise<{ readonly flow: FlowView; readonly jobs: readonly JobView[] }> {
  const { flows } = call.server.sluice
  const flow = await flows.get(id)
  const jobs = flow ? await flows.jobs(id, { limit: SHOWN_AT_MOST }) : []
  // Without any job left nothing says whose it was.
  if (!flow || jobs.length === 0 || !jobs.every((job) => maySee(call, job))) throw notFound('workflow', id)
  return { flow, jobs }
}
