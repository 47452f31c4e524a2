import { errorFrom } from '../../jobs/stored-error.ts'
import type { StoredChange, StoredFlowChange, StoredJobChange } from '../../store/contract/event-log.ts'
import type { Events, SluiceEvents } from './events.ts'
import { reportFlowEnd } from './flow-news.ts'

/** The events that any process can listen to: those that follow from what is stored. */
export interface FleetEvents extends Pick<
  SluiceEvents,
  | 'job.completed'
  | 'job.failed'
  | 'job.retrying'
  | 'job.snoozed'
  | 'job.discarded'
  | 'job.cancelled'
  | 'job.recovered'
  | 'flow.started'
  | 'flow.completed'
  | 'flow.failed'
  | 'flow.cancelled'
  | 'events.lost'
> {
  /** A job was stored. A job of a flow is stored with its flow, before it becomes available. */
  'job.enqueued': SluiceEvents['job.enqueued']
  /** Without the budgets: they are not stored. */
  'job.started': Omit<SluiceEvents['job.started'], 'waitedFor' | 'limits'>
}

/** Emits what a stored change says. */
export function emitChange(change: StoredChange, events: Events<FleetEvents>): void {
  if (change.of === 'flow') emitFlow(change, events)
  else emitJob(change, events)
}

function emitFlow({ id, kind, name, was, state, jobs, error }: StoredFlowChange, events: Events<FleetEvents>): void {
  if (was === null) events.emit('flow.started', { id, kind, name, jobs })
  else if (state !== 'running') reportFlowEnd({ id, kind, name }, state, error, events)
}

function emitJob(change: StoredJobChange, events: Events<FleetEvents>): void {
  const { id, task, queue, attempt, was, state, hasFailed } = change
  const about = { id, task, queue, attempt }
  if (was === null) events.emit('job.enqueued', { id, task, queue })
  if (state === 'active') return emitStart(change, events)
  if (was === 'active') emitEndOfRun(change, events)
  if (state === 'completed' || state === 'cancelled') return events.emit(`job.${state}`, about)
  if (state === 'discarded') return events.emit('job.discarded', { ...about, error: errorOf(change) })
  if (state === 'retryable' && hasFailed)
    events.emit('job.retrying', {
      ...about,
      error: errorOf(change),
      delayMs: Math.max(0, (change.dueUs ?? change.sinceUs) - change.sinceUs) / 1000,
    })
}

function emitStart(change: StoredJobChange, events: Events<FleetEvents>): void {
  const { id, task, queue, attempt, createdUs, readyUs } = change
  const startedUs = change.startedUs ?? change.sinceUs
  const [ageMs, waitedMs] = [createdUs, readyUs].map((us) => Math.max(0, startedUs - us) / 1000) as [number, number]
  events.emit('job.started', { id, task, queue, attempt, ageMs, waitedMs })
}

/** A run ended otherwise than well, or its worker is lost. */
function emitEndOfRun(change: StoredJobChange, events: Events<FleetEvents>): void {
  const { id, task, queue, attempt, state, hasFailed, error, dueUs } = change
  const about = { id, task, queue, attempt }
  if (!hasFailed) {
    // A due time of a scheduled job is on the wall clock.
    if (state === 'scheduled') events.emit('job.snoozed', { ...about, until: new Date((dueUs ?? 0) / 1000) })
    return
  }
  if (state === 'available' || error?.code === 'lease.lost') events.emit('job.recovered', { ...about, state })
  else events.emit('job.failed', { ...about, error: errorOf(change) })
}

function errorOf({ id, error }: StoredJobChange): Error {
  return errorFrom(error ?? { code: 'job.unreadable', message: `The job ${id} has no stored error.` })
}
