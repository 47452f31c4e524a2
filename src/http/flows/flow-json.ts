import type { FlowStepView, FlowView } from '../../engine/api/flow-views.ts'
import type { FlowInspection } from '../../engine/api/flows.ts'
import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import type { FlowOwner } from '../../jobs/flow.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { failedStepOf } from '../../jobs/stored-error.ts'
import { explanationJson, ownWords } from '../ojs/explain-job.ts'
import type { Call } from '../operation.ts'
import { toldWords } from '../told-overrides.ts'
import { splitName } from '../tenant.ts'
import { ownKey } from './owner.ts'

/** A flow as JSON. */
export function flowJson(flow: FlowView, owner: FlowOwner): Record<string, unknown> {
  const { id, kind, workflow, key, state, createdAt, finishedAt, error, parent, meta } = flow
  return {
    id,
    workflow,
    kind,
    key: ownKey(key, owner),
    state,
    created_at: createdAt.toISOString(),
    finished_at: time(finishedAt),
    error: error && { ...errorJson(error), ...failedStepOf(error) },
    parent,
    meta,
  }
}

/** A flow with its result and its steps as JSON. */
export function inspectionJson(
  call: Call<unknown, unknown, unknown>,
  flow: FlowInspection,
  owner: FlowOwner,
): Record<string, unknown> {
  const room = { left: call.server.bounds.answerBytes }
  return {
    ...flowJson(flow, owner),
    ...resultJson(flow.result, flow.state === 'completed', room),
    steps: flow.steps.map((step) => stepJson(call, step, room)),
  }
}

/** A step as JSON. @param room for its result, in bytes; it shrinks */
export function stepJson(
  call: Call<unknown, unknown, unknown>,
  step: FlowStepView,
  room: { left: number },
): Record<string, unknown> {
  const { name, state, attempt, startedAt, finishedAt, waitedMs, waitedFor, wait, until, signals, child, left } = step
  return {
    name,
    state,
    attempt,
    started_at: time(startedAt),
    finished_at: time(finishedAt),
    waited_ms: waitedMs,
    waited_for: waitedFor && {
      limit: splitName(waitedFor.limit).name,
      key: waitedFor.key === '' ? null : waitedFor.key,
    },
    wait: wait && explanationJson(call, wait),
    until: time(until),
    signals,
    child,
    left,
    ...resultJson(step.result, state === 'done', room),
    error: errorJson(step.error),
  }
}

/** Words about a flow, with the tenant's own names of limits and queues. */
export async function wordsJson(
  call: Call<unknown, unknown, unknown>,
  words: string,
  waits: readonly FlowStepView[],
): Promise<string> {
  const jobs = waits.flatMap(({ wait }): JobExplanation[] => (wait ? [wait] : []))
  return jobs.reduce((text, wait) => ownWords(text, wait), await toldWords(call, words))
}

/** A result while there is room for it; else the note that it is left out. */
function resultJson(result: unknown, isThere: boolean, room: { left: number }): Record<string, unknown> {
  if (!isThere) return {}
  const size = Buffer.byteLength(JSON.stringify(result) ?? '')
  if (size > room.left) return { result_omitted: true }
  room.left -= size
  return { result }
}

function errorJson(error: JobError | null): { code: string; message: string } | null {
  return error && { code: error.code, message: error.message }
}

function time(date: Date | null): string | null {
  return date?.toISOString() ?? null
}
