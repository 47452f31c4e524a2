/** Work for and from other processes over a protocol: jobs by their ids, with all that is kept of them. */
import type { JobError, JobRecord, NewJob } from '../../jobs/job.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { QueueDepth } from './queues.ts'

/** Jobs of remote clients and remote workers. */
export interface RemoteJobs {
  /**
   * Stores jobs and defines limits, all or nothing: where one job cannot be stored, the answer says which and why, and nothing was written.
   * A limit that has a higher version in the store stays as it is.
   */
  push(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<PushAnswer>
  /** One job with all that is kept of it. */
  details(id: string): Promise<JobDetails | null>
  /** Jobs of one state and age, oldest or newest first: a page of them, which is cut where it has too many bytes. */
  findDetails(query: DetailsQuery): Promise<DetailsPage>
  /**
   * Makes a pending job available, or schedules it for a time of the wall clock. Answers the state that it was in; null: there is no such
   * job, or it waits for others of its flow.
   */
  activate(id: string, runAtMs: number | null): Promise<JobState | null>
  /** Deletes a job that has ended; false when there is none, or its flow still runs and may need its result. */
  remove(id: string): Promise<boolean>
  /** Notes how far a run has come, as JSON text; false when the job is not active. */
  noteProgress(id: string, progress: string): Promise<boolean>
  /** Runs whose attempt's time is over, and when the next run or lease ends, on the store's clock; null: none does. */
  overdueRuns(limit: number): Promise<OverdueRuns>
}

/** Runs whose time is over, and when that of the next one is. */
export interface OverdueRuns {
  readonly runs: readonly JobDetails[]
  readonly nextUs: number | null
}

/**
 * A remote run is ended this long after its timeout, µs: a worker that keeps its own time can say so first, and some end when what
 * they say of a run is refused.
 */
export const TIMEOUT_GRACE_US = 800_000

/** What a push came to. `refused`: nothing was written; the answers of jobs that would have been stored are null. */
export type PushAnswer =
  | { readonly kind: 'stored'; readonly answers: readonly StoredAs[]; readonly depths: readonly QueueDepth[] }
  | { readonly kind: 'refused'; readonly at: number; readonly why: Refused }

/** As which job one was stored: as itself, or as the one that holds its unique key. */
export interface StoredAs {
  readonly kind: 'created' | 'duplicate' | 'updated' | 'conflict'
  readonly id: string
}

/** Why a job was refused. */
export type Refused =
  | { readonly kind: 'taken'; readonly id: string }
  | { readonly kind: 'conflict'; readonly id: string }
  | { readonly kind: 'full'; readonly queue: string; readonly depth: number; readonly bound: number }

/** A job with all that is kept of it. */
export interface JobDetails extends JobRecord {
  /** When it came to its present state. */
  readonly sinceUs: number
  /** Wall clock. */
  readonly expiresMs: number | null
  /** Who runs it; null: nobody. */
  readonly worker: number | null
  /** The name of that worker, when it is a remote one. */
  readonly workerName: string | null
  /** An engine's own worker runs it. */
  readonly engineRuns: boolean
  readonly pushedBack: number
  readonly leaseUs: number | null
  /** How long its last lease was when it began; null: no remote worker has had it. */
  readonly leasedUs: number | null
  readonly timeoutUs: number | null
  /** Its failures, oldest first, at most the last 25. */
  readonly errors: readonly Failure[]
  /** JSON text. */
  readonly progress: string | null
  /** It was given up for good, and its policy wants it kept for somebody to look at. */
  readonly deadLetter: boolean
  /** Of a job of a flow that was just fetched: the results it is handed, as JSON text; null: too large together. */
  readonly parentResults?: readonly (string | null)[] | null
}

/** One failed attempt. */
export interface Failure extends JobError {
  readonly attempt: number
  readonly atUs: number
}

/** Which jobs to find. */
export interface DetailsQuery {
  readonly states?: readonly JobState[]
  /** Only those that stand in the dead letter. */
  readonly deadLetter?: boolean
  readonly queue?: string
  /** Only queues whose names begin so. */
  readonly queuePrefix?: string
  /** Only queues whose names do not hold this. */
  readonly queueWithout?: string
  readonly task?: string
  /** Wall clock, epoch ms. */
  readonly sinceMs?: number
  readonly untilMs?: number
  readonly offset: number
  readonly limit: number
  readonly oldestFirst?: boolean
  /** Only those that come behind this one: the `next` of an earlier page. */
  readonly after?: number
  /** So many bytes of payloads at most, but for the first job; any by default. */
  readonly bytes?: number
}

/** A page of jobs. */
export interface DetailsPage {
  readonly jobs: readonly JobDetails[]
  /** All that match, whatever page this is. */
  readonly total: number
  /** What the next page comes behind; null: this is the last. */
  readonly next: number | null
}
