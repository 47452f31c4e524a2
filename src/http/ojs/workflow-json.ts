import type { JobState } from '../../jobs/job-state.ts'
import type { FlowView } from '../../engine/api/flow-views.ts'
import { timeOf } from './job-json.ts'
import type { WorkflowJob } from './workflow-jobs.ts'
import { fromJsonText } from '../../base/json-value.ts'

/** The specification's names of the states of a step. */
const STEP_STATES: Readonly<Record<JobState, string>> = {
  pending: 'waiting',
  scheduled: 'pending',
  available: 'pending',
  retryable: 'pending',
  active: 'active',
  completed: 'completed',
  cancelled: 'cancelled',
  discarded: 'failed',
}

/** The form in which a workflow was sent, if its jobs do not show it. */
interface Sent {
  readonly type?: string
  readonly steps?: readonly { readonly id: string; readonly depends_on: readonly string[] }[] | null
}

/** A flow in the form of the Open Job Spec. @param jobs the jobs to show */
export function workflowJson(flow: FlowView, jobs: readonly WorkflowJob[]): Record<string, unknown> {
  const { id, kind, name, state, total, completed, discarded, createdAt, finishedAt, meta } = flow
  const { type = kind, steps = null } = (meta['ojs'] ?? {}) as Sent
  const failed = jobs.filter((job) => job.state === 'discarded' && job.flow?.callback === null)
  const startedUs = Math.min(...jobs.map((job) => job.startedUs ?? Infinity))
  const shown = jobs
    .filter((job) => steps !== null || job.flow?.callback === null)
    .map((job, at) => ({ ...stepJson(job), ...steps?.[at] }))
  return {
    id,
    type,
    name: name ?? undefined,
    state,
    created_at: createdAt.toISOString(),
    ...(type === 'chain' || steps !== null
      ? { steps_total: total, steps_completed: completed, steps: shown }
      : { jobs_total: total, jobs_completed: completed, jobs: shown }),
    metadata: {
      created_at: createdAt.toISOString(),
      started_at: startedUs === Infinity ? undefined : timeOf(startedUs),
      completed_at: state === 'cancelled' ? undefined : finishedAt?.toISOString(),
      cancelled_at: state === 'cancelled' ? finishedAt?.toISOString() : undefined,
      job_count: total,
      completed_count: completed,
      failed_count: discarded,
      ...(failed.length > 0 && failureJson(kind === 'chain', failed)),
    },
  }
}

function failureJson(isChain: boolean, failed: readonly WorkflowJob[]): Record<string, unknown> {
  return {
    ...(isChain && { failed_step_index: failed[0]?.flow?.node }),
    failed_job_ids: failed.map(({ id }) => id),
    errors: failed.map(({ id, error, attempt }) => ({
      job_id: id,
      code: error?.code,
      message: error?.message,
      attempt,
    })),
  }
}

function stepJson(job: WorkflowJob): Record<string, unknown> {
  const { id, task, state, result, resultOmitted, startedUs, finishedUs, flow } = job
  const completed = state === 'completed'
  return {
    index: flow?.node,
    type: task,
    state: STEP_STATES[state],
    job_id: id,
    result: completed && !resultOmitted ? fromJsonText(result, null) : undefined,
    result_omitted: completed && resultOmitted ? true : undefined,
    started_at: startedUs === null ? undefined : timeOf(startedUs),
    completed_at: completed && finishedUs !== null ? timeOf(finishedUs) : undefined,
  }
}
