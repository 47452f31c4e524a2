import type { FlowNews, FlowPlace } from '../../jobs/flow.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { GrantedJob, NewJob, JobRecord, JobQuery, Occurrence, Settlement, SettleResult } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import type { Headroom, LimitDefinition } from '../../policy/limits/limit.ts'
import type { Flows } from './flows.ts'
import type { KeyCount, KeyQuery, LimitTotals } from './limit-keys.ts'
import type { BucketBacklog, CalibrationReport, Explanation, Released, Sustained, Throttled } from './waits.ts'
import type { AuditLog } from './audit.ts'
import type { QueueRecords } from './queues.ts'
import type { RemoteJobs } from './remote-jobs.ts'
import type { WorkerRecords } from './workers.ts'
import type { Override, OverrideRequest } from './overrides.ts'
import type { Schedules } from './schedules.ts'
import type { SetAside } from './set-aside.ts'
import type { UnknownKind } from './known-tasks.ts'
import type { Unresolved, UnresolvedKind } from './unresolved.ts'

/**
 * What the engine asks of a store, by role. Every backend answers alike; one conformance suite says so.
 * Times named `…Us` are integer microseconds of the store's own clock, times named `…Ms` are wall-clock epoch milliseconds.
 */
export interface Store
  extends Jobs, Claims, Flows, Limits, Schedules, Workers, RemoteJobs, WorkerRecords, QueueRecords, AuditLog, Settings {
  /** Which backend this is, for messages: `sqlite`. */
  readonly backend: string
  /** `watch` also reports the commits of this process that let jobs start. */
  readonly notifiesOwnWrites?: boolean
  /** Jobs that were stored without their limits; null: in this store there are none. */
  readonly unresolved: Unresolved | null
  /** Creates or upgrades the tables. @throws store.version when a newer Sluice has written them. */
  open(): Promise<void>
  /**
   * Answers what is on its way, then lets go of the file or the connections.
   * @param options.now waits for nothing: what is on its way fails, and may or may not have been kept
   */
  close(options?: { readonly now?: boolean }): Promise<void>
  /** Empties the store but for the workers at work: for tests. */
  clear(): Promise<void>
  /** The store's clock now. */
  nowUs(): number
  /** Calls `listener` when another process, or a commit that came after its caller's bell, may have changed something. Returns how to stop that. */
  watch(listener: (change: Change) => void): () => void
  /** True while a call is on its way; a manual clock waits for it. */
  readonly pending: boolean
}

/** Settings of a server, as JSON text under names. */
export interface Settings {
  /** Keeps a setting; null forgets it. */
  keepSetting(name: string, value: string | null): Promise<void>
  /** Settings whose names begin so. */
  settings(prefix: string): Promise<readonly { readonly name: string; readonly value: string }[]>
}

/** What may have changed: there is work, a job was asked to end, a job has ended, or no telling. */
export type Change = 'work' | 'cancelled' | 'ended' | 'any'

/** What an acknowledgement is worth: `power` survives a power cut, `process` survives a killed process. */
export type Durability = 'power' | 'process'

/** How long finished jobs are kept, in µs. */
export interface Retention {
  readonly completedUs: number
  readonly cancelledUs: number
  readonly discardedUs: number
}

/** Jobs from arrival to the end of their retention. */
export interface Jobs {
  /**
   * Stores jobs durably, all or none; each answer says whether its job is new or whose duplicate it is.
   * @param tx a connection of the caller's with a transaction open: the jobs are stored with it or not at all. @throws option.invalid where a store has none
   */
  enqueue(jobs: readonly NewJob[], tx?: unknown): Promise<Enqueued[]>
  /** One job by its id. */
  get(id: string): Promise<JobRecord | null>
  /** Jobs by state, queue, task, newest first. */
  list(query: JobQuery): Promise<JobRecord[]>
  /** Ends a job that has not ended; an active one is only marked, its worker learns it through the answer or a heartbeat. */
  cancel(id: string): Promise<CancelAnswer>
  /** Makes a discarded job available again with a fresh attempt count; false when it is in no such state. Opens its flow again. */
  retry(id: string): Promise<boolean>
  /** Deletes up to `limit` jobs whose retention is over and forgets idle lanes and cold buckets; answers how many rows went. */
  prune(limit: number): Promise<number>
  /** Why a job waits; null when there is no such job. */
  explain(id: string): Promise<Explanation | null>
}

/** Taking work and saying what it came to. */
export interface Claims {
  /** Takes jobs that every budget admits now. The request is read when the transaction runs, not when the call is made. */
  claim(request: () => ClaimRequest): Promise<Claim>
  /**
   * Writes what one run came to; calls made together are written together, and one that cannot be written fails alone.
   * @param again an earlier call failed, and may have been kept all the same
   */
  settle(worker: number, settlement: Settlement, again?: boolean): Promise<SettleResult>
  /** Gives claimed jobs that never started back, with their units and their attempt. */
  release(worker: number, runs: readonly Unstarted[]): Promise<void>
  /**
   * Gives back what is active under a worker's id and is none of the runs that it holds: a claim has taken it whose answer was lost. Its
   * permits and its attempt return, its units stay charged. No claim of this worker may be on its way. Answers how many jobs went back.
   */
  releaseLost(worker: number, held: readonly Run[]): Promise<number>
  /** Gives back, as `releaseLost` does, what is active of remote claims whose answer was lost. */
  releaseClaims(claims: readonly RemoteClaim[]): Promise<ReleasedClaims>
  /** Moves jobs whose time has come to their lanes, at most `limit`; answers how many. Claims do it by themselves. */
  promote(limit: number): Promise<number>
  /** Takes back the jobs of dead workers and of leases that ran out; their permits return in the same transaction. */
  recover(): Promise<Recovered[]>
}

/** Policies and the state of their buckets. */
export interface Limits {
  /** Declares limits; a higher version wins, at the same version the later call. Answers the names whose policy changed. */
  define(limits: readonly LimitDefinition[]): Promise<string[]>
  /** Declares the limits of queues as a whole, as `define` does those of jobs. Answers the queues whose starts need something else now. */
  declareQueues(queues: readonly DeclaredQueue[]): Promise<string[]>
  /**
   * Closes a bucket until `untilUs`; lanes that wait on it are re-timed at once. True: that is news, as `extendsPenalty` says; several
   * jobs may learn of one refusal.
   * @param worker of a limit of scope `worker`: whose own; without one those of all workers.
   */
  penalize(limit: string, key: string, untilUs: number, worker?: number): Promise<boolean>
  /**
   * Corrects a bucket by what the other side says is left of it; lanes that wait on it are re-timed. True: that is news.
   * @param worker who was told, where the limit is of scope `worker`.
   */
  calibrate(limit: string, key: string, told: CalibrationReport, worker?: number): Promise<boolean>
  /** Corrects what was charged: positive units go out, into debt if need be; negative ones come back. `worker`: who was charged. */
  charge(limit: string, key: string, units: number, chargedAtUs: number, worker?: number): Promise<void>
  /** The buckets of a limit, or the one of a key; a bucket that was never used reads as a new one. */
  inspect(limit: string, key?: string): Promise<BucketReport[]>
  /** Every declared limit. */
  limits(): Promise<LimitDefinition[]>
  /** The limits and overrides that cannot be read. */
  unreadable(): Promise<readonly SetAside[]>
  /** Waiting jobs by queue and bucket, at most `rows` of these, the longest first; counted one by one, so not for a hot path. */
  throttled(rows: number): Promise<Throttled>
  /** A page of the budgets of a limit that all workers share, by how many jobs stand in their lines, or by key. */
  limitKeys(query: KeyQuery): Promise<readonly KeyCount[]>
  /** All shared budgets of each of these limits together; nothing of a limit that was never used. */
  limitTotals(limits: readonly string[]): Promise<readonly LimitTotals[]>
  /** What waits for each bucket of a limit, or for the one of a key; null for a limit that is not defined. */
  backlog(limit: string, key?: string): Promise<readonly BucketBacklog[] | null>
  /**
   * Begins, replaces or ends an override or a pause; lanes that wait are re-timed at once, and again at the instant it ends by itself.
   * False: there was none to end. @throws limit.unknown, policy.invalid
   */
  override(request: OverrideRequest): Promise<boolean>
  /** Every override and pause on record, of one limit or of all, oldest first; some of what is over may have been forgotten. */
  overrides(limit?: string): Promise<Override[]>
}

/** Which processes are at work. */
export interface Workers {
  /**
   * Registers this process as a worker of these queues; the number names it in claims.
   * @param tasks those that it lists: it is given no job of another one. Absent: it takes any.
   */
  join(queues: readonly string[], leaseUs: number, tasks?: readonly string[]): Promise<number>
  /** Extends the leases of a worker's active jobs; answers which of them were cancelled or are no longer its own. */
  heartbeat(worker: number, runs: readonly Run[], leaseUs: number): Promise<Beat>
  /** Which active jobs of a worker somebody asked to cancel (`seq`). */
  cancellations(worker: number): Promise<number[]>
  /** Removes the registration; jobs still active stay leased until their lease runs out. */
  leave(worker: number): Promise<void>
}

/** One run of a job: the job and the attempt that it is. */
export interface Run {
  readonly seq: number
  readonly attempt: number
}

/** A claimed job that never started, with what was charged for it. */
export interface Unstarted extends Run {
  readonly uses: readonly BucketUse[]
  readonly startedUs: number
}

/** What became of a job that was enqueued. */
export type Enqueued =
  | { readonly kind: 'created'; readonly id: string }
  | { readonly kind: 'duplicate'; readonly id: string }
  | { readonly kind: 'updated'; readonly id: string }
  | { readonly kind: 'conflict'; readonly id: string }

/** What a request to cancel came to; `requested`: the job is active, its worker has to end it. */
export type CancelAnswer =
  | { readonly kind: 'cancelled'; readonly flow?: FlowNews }
  | { readonly kind: 'requested' }
  | { readonly kind: 'finished'; readonly state: JobState }
  | { readonly kind: 'missing' }

/** Units that one start takes from one bucket. */
export interface BucketUse {
  readonly limit: string
  /** The partition key; empty for the one bucket of a limit without keys. */
  readonly key: string
  /** Units for rules over time; integer ≥ 1. */
  readonly weight: number
}

/** The limits that an engine's code gives to a queue as a whole: every start of the queue needs them, whoever claims it. */
export interface DeclaredQueue {
  readonly queue: string
  /** Empty: the queue has none from now on. */
  readonly uses: readonly BucketUse[]
  /** Compared between engines; a whole number, 0 when not given. */
  readonly version: number
}

/** Room in one queue of a process that claims. */
export interface QueueRequest {
  readonly queue: string
  /** Free slots of this process; 0 when it is full. */
  readonly slots: number
}

/** Who claims, for how long, and how much. */
export interface ClaimRequest {
  readonly worker: number
  readonly leaseUs: number
  readonly queues: readonly QueueRequest[]
  /** The tasks whose jobs it takes; absent: any. */
  readonly tasks?: readonly string[]
  /** A bucket that jobs go on waiting for is told of again after so long, in µs; 1 minute by default. */
  readonly eventWindowUs?: number
  /** The jobs' own leases and timeouts count: nobody here keeps an eye on the run. Absent: they do not. */
  readonly remote?: boolean
  /** A UUID kept with what this claim starts, for `releaseClaims`; only with `remote`. */
  readonly claimId?: string
}

/** A claim that was made for a remote worker. */
export interface RemoteClaim {
  readonly worker: number
  readonly claimId: string
}

/** What was given back of remote claims. */
export interface ReleasedClaims {
  /** How many jobs went back. */
  readonly jobs: number
  /** The claims that they were of. */
  readonly claimIds: readonly string[]
}

/** What a claim came to. */
export interface Claim {
  readonly jobs: readonly GrantedJob[]
  /** Jobs that will not run: refused by a limit that drops, or too late; already discarded. */
  readonly rejected: readonly Rejected[]
  /** When to claim again if no bell rings before; null: never. */
  readonly nextWakeUs: number | null
  /** When something comes due by itself: an occurrence, a delayed job, a retry, the end of a wait. A reason to claim even without a free slot; null: nothing does. */
  readonly nextFireUs: number | null
  /** Occurrences that became jobs or were skipped, and series that ended. */
  readonly schedules: readonly ScheduleNews[]
  /** Jobs of these kinds wait until somebody says what their limits are; absent: there are none. */
  readonly unresolved?: readonly UnresolvedKind[]
  /** Rows that cannot be read and were put out of the way; absent: there are none. */
  readonly aside?: readonly SetAside[]
  /** Jobs of these kinds wait, for no live worker knows their task; those alone that this claim met. Absent: none. */
  readonly unknown?: readonly UnknownKind[]
  /** What the end of jobs that were rejected meant for their flows. */
  readonly flows: readonly FlowNews[]
  /** The decision's clock. */
  readonly nowUs: number
  /** Lanes looked at: what a claim costs. */
  readonly looks: number
  /** Buckets whose budget ran out for somebody in this claim. */
  readonly closed: readonly Closed[]
  /** Buckets that jobs have gone on waiting for since they were last told of. */
  readonly sustained: readonly Sustained[]
  /** Buckets that nobody waits for any more. */
  readonly released: readonly Released[]
}

/** A bucket in whose line the first lane came to stand. */
export interface Closed {
  readonly limit: string
  readonly key: string
  /** Of a limit of scope `worker`: whose own it is; absent: it is the fleet's. */
  readonly worker?: number
  readonly queue: string
  /** Units that the refused head asked for. */
  readonly wanted: number
  /** Jobs that this bucket admitted in the same claim. */
  readonly granted: number
  /** What these cost. */
  readonly grantedUnits: number
  /** Lanes whose heads it refused: as many jobs, which are not counted again when they start. */
  readonly deferred: number
  /** Jobs that stand in its line, those behind the first of their lanes too; counted up to 1,000. */
  readonly waiting: number
  /** When the next may go; null when a permit has to return first. */
  readonly nextAtUs: number | null
  /** False: the limit is not declared, and nothing starts before it is. */
  readonly defined: boolean
  /** The refused head, where the limit is not declared. */
  readonly refused?: { readonly task: string; readonly flow?: FlowPlace }
}

/** A job that was discarded before it could start. */
export interface Rejected {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly input: string
  readonly attempt: number
  /** `unreadable`: its row cannot be read, and was set aside. */
  readonly reason: 'dropped' | 'late' | 'expired' | 'unreadable'
  readonly limit: string
  readonly key: string
  readonly expectedStartUs: number | null
  /** Set: it was an occurrence of a schedule, which is skipped: the job is cancelled, not discarded, and does not count as a run. */
  readonly occurrence?: Occurrence
}

/** A job that was taken back from a worker. */
export interface Recovered {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly input: string
  readonly attempt: number
  readonly state: JobState
  /** Set: it ended, and that changed the flow it belongs to. */
  readonly flow?: FlowNews
}

/** One bucket as it stands. */
export interface BucketReport {
  readonly limit: string
  readonly key: string
  /** Of a limit of scope `worker`: whose own it is, null while no worker has used it; absent: it is the fleet's. */
  readonly worker?: number | null
  /** Units that could start now; ≥ 0. */
  readonly available: number
  /** Units owed beyond the budget; ≥ 0. */
  readonly debt: number
  readonly capacity: number
  /** Permits held by active jobs. */
  readonly active: number
  /** Jobs that wait in lanes of this bucket. */
  readonly waiting: number
  /** When the first of its line may start; null: nobody waits, or a permit has to return. */
  readonly nextStartUs: number | null
  /** When all that waits now could have started; null: unknown. */
  readonly drainedUs: number | null
  /** What it keeps back for urgent jobs; absent: nothing. */
  readonly headroom?: Headroom
  /** What is in force for it beside the definition. */
  readonly overrides: readonly Override[]
}

/** What a heartbeat learned (`seq` of active jobs). */
export interface Beat {
  readonly cancelled: readonly number[]
  readonly lost: readonly number[]
}
