import { z } from 'zod'
import type { FlowJob } from '../../jobs/new-flow.ts'
import type { FlowView } from '../../engine/api/flow-views.ts'
import { afterCommit } from '../after-commit.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound, Refusal, unprocessable } from '../refusal.ts'
import { requireRoom } from './backpressure.ts'
import { maySee } from './jobs.ts'
import { readyJobs, type ReadyJobs } from './ready-jobs.ts'
import { type JobJson, JobId, type OptionsJson } from './schemas.ts'
import { workflowJobs, type WorkflowJob } from './workflow-jobs.ts'
import { workflowJson } from './workflow-json.ts'
import { planOf, type WorkflowPlan } from './workflow-plan.ts'
import { Workflow } from './workflow-schema.ts'

const Params = z.object({ id: JobId })

/** Stores a workflow with all its jobs, and starts it. */
export const createWorkflow: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/workflows',
  name: 'createWorkflow',
  summary: 'Start a chain, a group, a batch, or steps that depend on each other. All jobs are stored, or none.',
  body: Workflow,
  answers: { 201: 'The workflow runs.' },
  async run(call) {
    const { body, server } = call
    const { sluice, remote } = server
    const plan = planOf(body)
    const { nodes, callbacks: called } = plan
    const all = [...nodes.map(({ json }) => json), ...called.map(([, json]) => json)]
    const { jobs: checked, limits } = await ready(
      call,
      all.map((json) => withDefaults(json, body.options)),
    )
    const jobs = checked.map((job): FlowJob => ({ job, delayUs: null }))
    const id = server.newId()
    const first = jobs.filter((_, node) => nodes[node]?.after.length === 0)
    await requireRoom(
      call,
      first.map(({ job }) => job.queue),
    )
    if (limits.length > 0) await remote.define(limits)
    await sluice.flows.register({
      id,
      kind: plan.kind,
      name: body.name ?? null,
      nodes: jobs.slice(0, nodes.length).map((job, node) => ({ ...job, after: nodes[node]?.after ?? [] })),
      callbacks: Object.fromEntries(called.map(([callback], i) => [callback, jobs[nodes.length + i] as FlowJob])),
      extra: extraOf(body, plan),
    })
    remote.notify()
    const { flow, jobs: stored } = await afterCommit(
      server.logger,
      call.requestId,
      () => namedFlow(call, id),
      () => ({ flow: asStarted(id, body, plan, server.clock.now()), jobs: [] }),
    )
    return { status: 201, body: shown(workflowJson(flow, stored)), headers: { Location: `/ojs/v1/workflows/${id}` } }
  },
})

/** Shows a workflow. */
export const getWorkflow: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/workflows/:id',
  name: 'getWorkflow',
  summary: 'Show a workflow and the progress of its jobs.',
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
  summary: 'Cancel a workflow: waiting jobs end at once, and active ones may finish.',
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
    remote.notify()
    const now = await namedFlow(call, id)
    return ok(shown(workflowJson(now.flow, now.jobs)))
  },
})

/** A workflow as it was sent to the store, for an answer without a read. */
function asStarted(id: string, { name }: z.output<typeof Workflow>, plan: WorkflowPlan, nowMs: number): FlowView {
  const counts = { total: plan.nodes.length, completed: 0, discarded: 0, cancelled: 0 }
  const times = { createdAt: new Date(nowMs), startedAt: new Date(nowMs), finishedAt: null }
  const none = { workflow: null, key: null, error: null, parent: null, meta: {} }
  return { id, kind: plan.kind, name: name ?? null, state: 'running', ...counts, ...times, ...none }
}

/** The parts of a workflow that its jobs do not show: the form in which it was sent, and the names of its steps. */
function extraOf({ type }: z.output<typeof Workflow>, { kind, steps }: WorkflowPlan): string | null {
  return type === kind ? null : JSON.stringify({ meta: { ojs: { type, steps } } })
}

/** Applies options of the workflow to a job that does not set its own. */
function withDefaults(json: JobJson, options: OptionsJson | null | undefined): JobJson {
  return options ? { ...json, options: { ...options, ...json.options } } : json
}

/** The specification puts it under `workflow`; some clients read the root. */
function shown(workflow: Record<string, unknown>): Record<string, unknown> {
  return { ...workflow, workflow }
}

async function ready(call: Call<unknown, unknown, unknown>, sent: readonly JobJson[]): Promise<ReadyJobs> {
  if (sent.some(({ id }) => id !== undefined))
    throw unprocessable('id is invalid. Omit it: each job of a workflow gets its own.')
  return readyJobs(call, sent)
}

/** A workflow that the caller may see, by its jobs. @throws {Refusal} 404 */
async function namedFlow(
  call: Call<unknown, unknown, unknown>,
  id: string,
): Promise<{ readonly flow: FlowView; readonly jobs: readonly WorkflowJob[] }> {
  const { sluice, remote, bounds } = call.server
  const flow = await sluice.flows.get(id)
  // The answer shows each job twice.
  const jobs = flow ? await workflowJobs(await remote.store(), id, bounds.answerBytes / 2) : []
  // Without any stored job its owner is unknown.
  if (!flow || jobs.length === 0 || !jobs.every((job) => maySee(call, job))) throw notFound('workflow', id)
  return { flow, jobs }
}
