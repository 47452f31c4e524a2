/** The metrics that the Open Job Spec names. */
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
