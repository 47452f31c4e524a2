/** Queues on record, which can be paused, limited and bounded. */
import type { JobState } from '../../jobs/job-state.ts'

/** The stored settings and counts of queues. */
export interface QueueRecords {
  /** Every queue that a caller has ever named. */
  queues(): Promise<QueueRecord[]>
  /** Stops or resumes the starts of a queue, for all workers. */
  pauseQueue(queue: string, paused: boolean): Promise<void>
  /** Makes all starts of a queue, on all workers, need the bucket of a limit without keys; null lifts that. */
  limitQueue(queue: string, limit: string | null): Promise<void>
  /** Bounds a queue, or lifts its bounds. */
  boundQueue(queue: string, bounds: QueueBounds | null): Promise<void>
  /**
   * Spreads the lanes of a queue over so many stripes, by `stripeOf`. A running claim ends first. Where claims of one
   * store come one after the other anyway, the number is only recorded.
   * @param stripes 1 to 64
   */
  stripeQueue(queue: string, stripes: number): Promise<void>
  /**
   * Jobs by queue and state, of one queue or of all. The time grows with the number of jobs, so this is not for a hot
   * path.
   */
  queueCounts(queue?: string): Promise<readonly QueueCount[]>
  /** Runs that ended since a time of the store's clock. `queuePrefix` selects queues by the start of their names. */
  endedRuns(sinceUs: number, queuePrefix?: string): Promise<EndedRuns>
  /**
   * Counts the names of one kind in a folder, and finds which of some names exist. The folder of a name is the part
   * before its last slash, or empty. Of workers only those that are alive count, and silent ones are found, too.
   * @param atMost bounds the count, so that its time is bounded too
   */
  names(kind: Named, folder: string, some: readonly string[], atMost: number): Promise<NamesFound>
}

/** The number of runs that ended. */
export interface EndedRuns {
  readonly completed: number
  readonly discarded: number
}

/** A queue on record. */
export interface QueueRecord {
  readonly name: string
  readonly paused: boolean
  readonly bounds: QueueBounds | null
  /** The limit that all its starts need. */
  readonly limit: string | null
  /** The stripes over which its lanes are spread: 1 to 64. */
  readonly stripes: number
  /** The time when it was first named; null: an earlier version stored it without. */
  readonly createdUs: number | null
}

/** The most jobs that a queue may hold before they start. */
export interface QueueBounds {
  readonly maxDepth: number
  /** Enqueuers get a warning from this share of the bound on; null: never. */
  readonly warnAt: number | null
}

/** The fill level of a bounded queue. */
export interface QueueDepth {
  readonly queue: string
  readonly depth: number
  readonly bounds: QueueBounds
}

/** The number of jobs of a queue in one state. */
export interface QueueCount {
  readonly queue: string
  readonly state: JobState
  readonly jobs: number
  /** The `seq` of the oldest of them. */
  readonly oldest: number
}

/** The kinds of records that callers name, each with a table of its own. */
export type Named = 'limits' | 'schedules' | 'queues' | 'workers'

/** Names on record. */
export interface NamesFound {
  readonly total: number
  /** The requested names that are on record. */
  readonly among: readonly string[]
}
