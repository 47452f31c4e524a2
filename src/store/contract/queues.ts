/** Queues as things of their own, which can be paused, limited and bounded. */
import type { JobState } from '../../jobs/job-state.ts'

/** What a store keeps of queues. */
export interface QueueRecords {
  /** Every queue that was ever named. */
  queues(): Promise<QueueRecord[]>
  /** Stops or resumes the starts of a queue, for all workers. */
  pauseQueue(queue: string, paused: boolean): Promise<void>
  /** Holds all starts of a queue, for all workers, to the bucket of a limit without keys; null lifts that. */
  limitQueue(queue: string, limit: string | null): Promise<void>
  /** Bounds a queue, or lifts its bounds. */
  boundQueue(queue: string, bounds: QueueBounds | null): Promise<void>
  /** Jobs by queue and state, of one queue or of all; takes the longer the more jobs there are, so not for a hot path. */
  queueCounts(queue?: string): Promise<readonly QueueCount[]>
  /** Runs that ended since that time of the store's clock; of queues whose names begin so, where that is given. */
  endedRuns(sinceUs: number, queuePrefix?: string): Promise<EndedRuns>
  /**
   * How many names of one kind stand in a folder, and which of some are there. The folder of a name is what stands before its last slash,
   * empty where it has none.
   * @param atMost is counted at most: the count takes no longer however many there are
   */
  names(kind: Named, folder: string, some: readonly string[], atMost: number): Promise<NamesFound>
}

/** How many runs ended. */
export interface EndedRuns {
  readonly completed: number
  readonly discarded: number
}

/** A queue on record. */
export interface QueueRecord {
  readonly name: string
  readonly paused: boolean
  readonly bounds: QueueBounds | null
  /** The limit that all its starts are held to. */
  readonly limit: string | null
  /** When it was first named; null: before this was kept. */
  readonly createdUs: number | null
}

/** How many jobs a queue may hold that have not started. */
export interface QueueBounds {
  readonly maxDepth: number
  /** From this share of the bound on, enqueuers are warned; null: never. */
  readonly warnAt: number | null
}

/** How full a bounded queue is. */
export interface QueueDepth {
  readonly queue: string
  readonly depth: number
  readonly bounds: QueueBounds
}

/** How many jobs of a queue are in a state. */
export interface QueueCount {
  readonly queue: string
  readonly state: JobState
  readonly jobs: number
}

/** What has names that callers choose, and a table of its own. */
export type Named = 'limits' | 'schedules' | 'queues'

/** Names on record. */
export interface NamesFound {
  readonly total: number
  /** Those of the names asked for that are on record. */
  readonly among: readonly string[]
}
