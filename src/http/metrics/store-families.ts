/** Figures of the whole store: the same on each of its servers. */
import type { Counted } from '../../engine/events/counted.ts'
import { type Family, gauge } from './exposition.ts'

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
