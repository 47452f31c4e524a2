/** What a store keeps for work that comes from other processes over a protocol: their jobs' terms, their workers, queues as things of their own. */
import type { JobError, JobRecord, NewJob } from '../../jobs/job.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { AuditEntry, AuditQuery, AuditRow } from './audit.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'

/** The part of a store that serves workers and clients outside of any engine. */
export interface Outside {
  /**
   * Stores jobs and defines limits, all or nothing: where one job cannot be, the answers say which and why, and nothing was written.
   * A limit that somebody else has defined with a higher version stays as it is.
   */
  offer(jobs: readonly NewJob[], limits: readonly DefinedLimit[]): Promise<Offered>
  /** One job with all that is kept of it. */
  get(id: string): Promise<JobFacts | null>
  /** Jobs of one state and age, oldest or newest first: a page of them, which is cut where it has too many bytes. */
  find(query: FactsQuery): Promise<Found>
  /** A pending job becomes available, or scheduled for a time of the wall clock; answers the state that it was in; null: there is none, or it waits for others of its flow. */
  activate(id: string, runAtMs: number | null): Promise<JobState | null>
  /** Deletes a job that has ended; false when there is none, or its flow still runs and may need its result. */
  remove(id: string): Promise<boolean>
  /** Notes how far a run has come, as JSON text; false when the job is not active. */
  note(id: string, progress: string): Promise<boolean>
  /** Runs whose attempt's time is over, and when the next run or lease ends, on the store's clock; null: none does. */
  overdue(limit: number): Promise<{ readonly runs: readonly JobFacts[]; readonly nextUs: number | null }>
  /** Registers an outside worker under its name, or extends what is known of it. It has no process here: its leases alone say when it is lost. */
  enlist(worker: OutsideWorker): Promise<Enlisted>
  /** Every outside worker that was heard of lately, and every process at work. */
  workers(): Promise<WorkerRecord[]>
  /** Says what an outside worker is to do from now on; false when there is none of that name. */
  direct(name: string, directive: Directive): Promise<boolean>
  /** Forgets an outside worker; what it runs stays leased. */
  dismiss(name: string): Promise<boolean>
  /** Every queue that was ever named. */
  queues(): Promise<QueueRecord[]>
  /**
   * How many names of one kind stand in a folder, and which of some are there. The folder of a name is what stands before its last slash,
   * empty where it has none.
   * @param atMost is counted at most: the count takes no longer however many there are
   */
  names(kind: Named, folder: string, some: readonly string[], atMost: number): Promise<NamesFound>
  /** Stops or resumes handing out the jobs of a queue, to everybody. */
  pause(queue: string, paused: boolean): Promise<void>
  /** Holds all starts of a queue, whoever claims them, to the bucket of a limit without keys; null lifts that. */
  limit(queue: string, limit: string | null): Promise<void>
  /** Bounds a queue, or lifts its bounds. */
  bound(queue: string, bounds: QueueBounds | null): Promise<void>
  /** Jobs by queue and state, of one queue or of all; takes the longer the more jobs there are, so not for a hot path. */
  counts(queue?: string): Promise<readonly QueueCount[]>
  /** Runs that ended since that time of the store's clock; of queues whose names begin so, where that is given. */
  ended(sinceUs: number, queuePrefix?: string): Promise<{ readonly completed: number; readonly discarded: number }>
  /** Keeps a setting as JSON text under a name; null forgets it. */
  keep(name: string, value: string | null): Promise<void>
  /** Keeps a change on record; the oldest of 100,000 are forgotten. */
  audit(entry: AuditEntry): Promise<void>
  /** Changes on record, newest first. */
  audited(query: AuditQuery): Promise<AuditRow[]>
  /** Empties the store but for who is at work: for tests. */
  clear(): Promise<void>
  /** Settings whose names begin so. */
  kept(prefix: string): Promise<readonly { readonly name: string; readonly value: string }[]>
}

/**
 * A run outside is ended this long after its timeout, µs: a worker that keeps its own time can say so first, and some end when what
 * they say of a run is refused.
 */
export const TIMEOUT_GRACE_US = 800_000

/** What an offer came to. `refused`: nothing was written; the answers of jobs that would have been stored are null. */
export type Offered =
  | { readonly kind: 'stored'; readonly answers: readonly StoredAs[]; readonly depths: readonly QueueDepth[] }
  | { readonly kind: 'refused'; readonly at: number; readonly why: Refused }

/** As which job one was stored: as itself, or as the one that holds its unique key. */
export interface StoredAs {
  readonly kind: 'created' | 'duplicate' | 'updated' | 'conflict'
  readonly id: string
}

/** A limit to define, as an engine's start does. */
export interface DefinedLimit {
  readonly name: string
  readonly policy: LimitPolicy
  readonly version: number
}

/** Why a job was refused. */
export type Refused =
  | { readonly kind: 'taken'; readonly id: string }
  | { readonly kind: 'conflict'; readonly id: string }
  | { readonly kind: 'full'; readonly queue: string; readonly depth: number; readonly bound: number }

/** How full a bounded queue is. */
export interface QueueDepth {
  readonly queue: string
  readonly depth: number
  readonly bounds: QueueBounds
}

/** How many jobs a queue may hold that have not started. */
export interface QueueBounds {
  readonly maxDepth: number
  /** From this share of the bound on, enqueuers are warned; null: never. */
  readonly warnAt: number | null
}

/** A job with all that is kept of it. */
export interface JobFacts extends JobRecord {
  /** When it came to its present state. */
  readonly sinceUs: number
  /** Wall clock. */
  readonly expiresMs: number | null
  /** Who runs it; null: nobody. */
  readonly worker: number | null
  /** The name of that worker, when it is one from outside. */
  readonly workerName: string | null
  /** An engine's own worker runs it. */
  readonly engineRuns: boolean
  readonly pushedBack: number
  readonly leaseUs: number | null
  /** How long its last lease was when it began; null: no outside worker has had it. */
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
export interface FactsQuery {
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
export interface Found {
  readonly jobs: readonly JobFacts[]
  /** All that match, whatever page this is. */
  readonly total: number
  /** What the next page comes behind; null: this is the last. */
  readonly next: number | null
}

/** A worker outside, as it says of itself. */
export interface OutsideWorker {
  readonly name: string
  readonly queues: readonly string[]
  /** The tasks that it asks for; null: any; absent: what was told before stays. */
  readonly tasks?: readonly string[] | null
  /** For how long it counts as alive from now on. */
  readonly aliveUs: number
  /** JSON text of what it tells of itself; null: what was told before stays. */
  readonly about: string | null
}

/** What an outside worker is told to do: go on, take no more, or end. */
export type Directive = 'running' | 'quiet' | 'terminate'

/** The registration of an outside worker. */
export interface Enlisted {
  readonly worker: number
  readonly directive: Directive
}

/** A worker on record. */
export interface WorkerRecord {
  readonly worker: number
  /** Null: an engine's own. */
  readonly name: string | null
  readonly queues: readonly string[]
  /** The tasks that it takes jobs of; null: any. */
  readonly tasks: readonly string[] | null
  readonly directive: Directive
  readonly alive: boolean
  readonly aliveUntilUs: number
  readonly joinedUs: number
  readonly about: string | null
  /** Jobs that it runs. */
  readonly active: number
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

/** What has names that callers choose, and a table of its own. */
export type Named = 'limits' | 'schedules' | 'queues'

/** Names on record. */
export interface NamesFound {
  readonly total: number
  /** Those of the names asked for that are on record. */
  readonly among: readonly string[]
}

/** How many jobs of a queue are in a state. */
export interface QueueCount {
  readonly queue: string
  readonly state: JobState
  readonly jobs: number
}
