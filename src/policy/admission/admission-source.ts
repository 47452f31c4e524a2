import type { WatchSource } from './drop-watch.ts'
import type { HeadSource, Lane, UnlistedSource } from './lane.ts'
import type { QueueService, WaitListSource } from './wait-list.ts'

/** The reads of a decision while it runs. A backend answers from its tables, with at most the rows asked for. */
export interface AdmissionSource extends WaitListSource, HeadSource, UnlistedSource, WatchSource {
  served(queue: number): QueueService
  /** Since when this claimer has seen such a job ahead of one that it could start. Absent: it never yields. */
  readonly yieldedSince?: ((lane: Lane, seq: number) => number) | undefined
}
