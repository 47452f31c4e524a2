import { SluiceError } from '../../base/errors.ts'
import type { FlowNews, FlowState } from '../../jobs/flow.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { errorFrom, failedStepOf } from '../../jobs/stored-error.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { FlowThen } from '../../jobs/workflow.ts'
import type { FlowEntryNews } from '../define/flow-entry.ts'
import type { Events } from './events.ts'

/** Reports the effect of a job's end on its flow. @param ended called for every job that ended by it */
export function reportFlow(news: FlowNews, events: Events, ended: (id: string) => void): void {
  const { id, kind, name } = news
  for (const job of news.activated) events.emit('job.enqueued', job)
  for (const job of news.cancelled) {
    events.emit('job.cancelled', { ...job, attempt: 0 })
    ended(job.id)
  }
  for (const { input: _input, ...job } of news.discarded) {
    events.emit('job.discarded', { ...job, attempt: 0, error: resultsTooLarge(job.id) })
    ended(job.id)
  }
  for (const below of news.below ?? []) reportFlow(below, events, ended)
  if (news.ended !== null) reportFlowEnd({ id, kind, name }, news.ended, news.error ?? null, events)
}

/** Reports the end of a flow. @param error why a workflow flow failed */
export function reportFlowEnd(
  about: Pick<FlowNews, 'id' | 'kind' | 'name'>,
  state: Exclude<FlowState, 'running'>,
  error: JobError | null,
  events: Pick<Events, 'emit'>,
): void {
  if (state !== 'failed') return events.emit(`flow.${state}`, about)
  const { step, attempt } = failedStepOf(error) ?? { step: null, attempt: null }
  events.emit('flow.failed', { ...about, step, attempt, error: error && errorFrom(error) })
}

/** The reason why a job of a flow was discarded when it became available. */
export function resultsTooLarge(id: string): SluiceError {
  return new SluiceError(
    'flow.results_too_large',
    `The results for the job ${id} are too large in total. Store the data elsewhere and return references to it.`,
  )
}

/** Reports what a run of a workflow flow's job does. */
export function reportEntry(
  about: { readonly id: string; readonly workflow: string },
  { kind, ...news }: FlowEntryNews,
  events: Events,
): void {
  const name = NAMES[kind]
  if (!events.heard(name)) return
  if ('waited' in news) {
    const { waited, ...rest } = news
    return events.emit('step.started', { ...about, ...rest, ...waited })
  }
  events.emit(name, { ...about, ...news })
}

/** Reports that a flow waits. One that something happened to meanwhile goes on at once, and was not parked. */
export function reportParked(
  { id, flow, task }: GrantedJob,
  then: FlowThen,
  state: JobState,
  events: Events,
  wallOf: (storeUs: number) => Date,
): void {
  if (then.kind !== 'park' || !events.heard('flow.parked') || (state !== 'pending' && state !== 'retryable')) return
  const { signals, dueUs } = then
  const until = dueUs === null ? null : wallOf(dueUs)
  events.emit('flow.parked', { id: flow?.id ?? id, workflow: task, signals, until })
}

const NAMES = {
  started: 'step.started',
  completed: 'step.completed',
  retrying: 'step.retrying',
  failed: 'step.failed',
  woken: 'flow.woken',
  strayed: 'flow.strayed',
} as const
