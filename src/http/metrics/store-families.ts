/** The metrics of a store, the same on each of its servers, and those that the Open Job Spec names. */
import type { Counted } from '../../engine/events/counted.ts'
import { counter, type Family, gauge, single } from './exposition.ts'

/** The figures of a server. */
export interface OjsFigures {
  readonly states: Readonly<Record<string, number>>
  readonly events: Iterable<readonly [string, number]>
  readonly workers: number
  readonly waiting: number
}

/** The metrics of the specification. Labels are states and event types, never keys. */
export function ojsFamilies({ states, events, workers, waiting }: OjsFigures): Family[] {
  const series = (values: Iterable<readonly [string, number]>): Counted<number>[] =>
    [...values].map(([name, value]) => ({ labels: [name], value }))
  return [
    gauge('ojs_jobs', 'Jobs by state.', ['state'], series(Object.entries(states))),
    counter('ojs_events', 'Events since the start, by type.', ['type'], series(events)),
    single('ojs_workers', 'Remote workers with a request within the last minute.', workers),
    single('ojs_rate_limit_waiting', 'Jobs that wait for a budget.', waiting),
  ]
}

/** The figures of one store. */
export interface StoreFigures {
  /** By queue and state. */
  readonly jobs: readonly Counted<number>[]
  /** Live workers, by queue. */
  readonly workers: readonly Counted<number>[]
  /** By limit. */
  readonly waiting: readonly Counted<number>[]
  readonly used: readonly Counted<number>[]
}

/** The metrics of a store. */
export function storeFamilies({ jobs, workers, waiting, used }: StoreFigures): Family[] {
  return [
    gauge('sluice_jobs', 'Jobs of the store.', ['queue', 'state'], jobs),
    gauge('sluice_queue_workers', 'Live workers that serve the queue.', ['queue'], workers),
    gauge('sluice_limit_waiting', 'Jobs of the store that wait for a budget of the limit.', ['limit'], waiting),
    gauge(
      'sluice_limit_used_ratio',
      'The used share of the budget, 0 to 1: of the one bucket, or of the key with the longest wait list.',
      ['limit'],
      used,
    ),
  ]
}
