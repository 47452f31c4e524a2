/** Work for and from other processes over a protocol: jobs by their ids, with all stored details. */
import type { JobRecord, NewJob } from '../../jobs/job.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { QueueDepth } from './queues.ts'

/** Jobs of remote clients and remote workers. */
export interface RemoteJobs {
  /**
   * Stores jobs and defines limits, all or nothing. If the store refuses one job, the answer says which and why, and
   * nothing was written. A limit with a higher version in the store stays unchanged.
   */
  push(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<PushAnswer>
  /** One job with all its stored details. */
  details(id: string): Promise<JobDetails | null>
  /** A page of jobs of one state and age, oldest or newest first. The page ends early if it has too many bytes. */
  findDetails(query: DetailsQuery): Promise<DetailsPage>
  /**
   * Makes a pending job available, or schedules it for a time of the wall clock. Returns its state before; null: the
   * job does not exist, or it waits for others of its flow.
   */
  activate(id: string, runAtMs: number | null): Promise<JobState | null>
  /** Deletes a job that has ended. False: it does not exist, or its flow still runs and may need its result. */
  remove(id: string): Promise<boolean>
  /** Records the progress of a run, as JSON text; false: the job is not active. */
  noteProgress(id: string, progress: string): Promise<boolean>
  /**
   * Runs whose attempt's time is over, and the end of the next run or lease on the store's clock; null: there is none.
   */
  overdueRuns(limit: number): Promise<OverdueRuns>
}

/** Runs whose time is over, and the end of the next one. */
export interface OverdueRuns {
  readonly runs: readonly JobDetails[]
  readonly nextUs: number | null
}

/**
 * The store ends a remote run this long after its timeout, in µs. A worker with its own timer can report first; some
 * workers exit when a report is refused.
 */
export const TIMEOUT_GRACE_US = 800_000

/** The result of a push. `refused`: nothing was written; the answers of the other jobs are null. */
export type PushAnswer =
  | {
      readonly kind: 'stored'
      readonly answers: readonly StoredAs[]
      readonly depths: readonly QueueDepth[]
      /** When new jobs were stored, on the store's clock and on the wall clock; absent: a read tells it. */
      readonly at?: { readonly nowUs: number; readonly wallUs: number }
    }
  | { readonly kind: 'refused'; readonly at: number; readonly why: Refused }

/** The stored job: the new one, or the one that holds its unique key. */
export interface StoredAs {
  readonly kind: 'created' | 'duplicate' | 'updated' | 'conflict'
  readonly id: string
}

/** The reason why a job was refused. */
export type Refused =
  | { readonly kind: 'taken'; readonly id: string }
  | { readonly kind: 'conflict'; readonly id: string }
  | { readonly kind: 'full'; readonly queue: string; readonly depth: number; readonly bound: number }

/** A job with all its stored details. */
export interface JobDetails extends JobRecord {
  /** The time when its present state began. */
  readonly sinceUs: number
  /** Wall clock. */
  readonly expiresMs: number | null
  /** The worker that runs it; null: none does. */
  readonly worker: number | null
  /** The name of that worker, if it is a remote one. */
  readonly workerName: string | null
  /** An engine's own worker runs it. */
  readonly engineRuns: boolean
  readonly pushedBack: number
  readonly leaseUs: number | null
  /** The length of its last lease when that began; null: no remote worker has had it. */
  readonly leasedUs: number | null
  readonly timeoutUs: number | null
  /** Its failures, oldest first, at most the last 25. */
  readonly errors: readonly Failure[]
  /** JSON text. */
  readonly progress: string | null
  /** It was discarded for good, and its policy keeps it for a person to look at. */
  readonly deadLetter: boolean
  /** When an ended job is deleted, on the store's clock; null: it has not ended, or it is kept as long as its flow. */
  readonly keptUntilUs: number | null
  /** The parents' results of a just fetched job of a flow, as JSON text; null: they are too large together. */
  readonly parentResults?: readonly (string | null)[] | null
}

/** One failed attempt. */
export interface Failure extends JobError {
  readonly attempt: number
  readonly atUs: number
}

/** A filter of jobs. */
export interface DetailsQuery {
  readonly states?: readonly JobState[]
  /** Only jobs in the dead letter. */
  readonly deadLetter?: boolean
  readonly queue?: string
  /** Only queues whose names begin with this. */
  readonly queuePrefix?: string
  /** Only queues whose names do not contain this. */
  readonly queueWithout?: string
  readonly task?: string
  /** Wall clock, epoch ms. */
  readonly sinceMs?: number
  readonly untilMs?: number
  readonly offset: number
  readonly limit: number
  readonly oldestFirst?: boolean
  /** Only jobs behind this one: the `next` of an earlier page. */
  readonly after?: number
  /** The most bytes of payloads, except for the first job; absent: no bound. */
  readonly bytes?: number
}

/** A page of jobs. */
export interface DetailsPage {
  readonly jobs: readonly JobDetails[]
  /** The number of matches on all pages. */
  readonly total: number
  /** The place behind which the next page begins; null: this page is the last. */
  readonly next: number | null
}
