import type { SluiceError } from '../../base/errors.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { GrantedJob, NewJob, JobRecord, Occurrence } from '../../jobs/job.ts'
import type { Settlement, SettleResult } from '../../jobs/settlement.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import type { ElsewhereTerms, WantedStart } from '../../policy/admission/elsewhere.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { ChangeJobs } from './change-jobs.ts'
import type { Diagnosable } from './diagnosis.ts'
import type { EventLog } from './event-log.ts'
import type { FindJobs } from './find-jobs.ts'
import type { HasBudgets } from './budgets.ts'
import type { Flows } from './flows.ts'
import type { BucketReport, KeyCount, KeyQuery, LimitTotals, Override, OverrideRequest } from './limits.ts'
import type { KeepUs, Retained, RetainedPage } from './retained.ts'
import type { StoreSample } from './sample.ts'
import type { BucketBacklog, CalibrationReport, Closed, Explanation, Released, Sustained, Throttled } from './waits.ts'
import type { AuditLog } from './audit.ts'
import type { SeriesRecords } from './series.ts'
import type { QueueRecords } from './queues.ts'
import type { CancelledRun, Recall } from './recall.ts'
import type { ReleasedClaims, RemoteClaim, Taker } from './remote-claims.ts'
import type { JobNotes } from './job-notes.ts'
import type { JobDetails, RemoteJobs } from './remote-jobs.ts'
import type { WorkerRecords } from './workers.ts'
import type { Schedules } from './schedules.ts'
import type { SetAside } from './set-aside.ts'
import type { Settings } from './settings.ts'
import type { UnknownKind } from './known-tasks.ts'
import type { Unresolved, UnresolvedKind } from './unresolved.ts'

/**
 * The verbs that the engine needs of a store, by role. Every backend behaves alike; one conformance suite checks it.
 * Times named `…Us` are integer microseconds of the store's own clock, times named `…Ms` are wall-clock epoch
 * milliseconds.
 */
export interface Store
  extends
    Jobs,
    FindJobs,
    ChangeJobs,
    Claims,
    Flows,
    Limits,
    Schedules,
    Workers,
    RemoteJobs,
    JobNotes,
    WorkerRecords,
    QueueRecords,
    AuditLog,
    EventLog,
    SeriesRecords,
    Settings,
    Diagnosable,
    HasBudgets {
  /** The name of the backend for messages: `sqlite`. */
  readonly backend: string
  /** `watch` also reports the commits of this process that let jobs start. */
  readonly notifiesOwnWrites?: boolean
  /**
   * Jobs of this process are about to be stored, and a claim made now may start them in the same commit. Absent: each
   * claim made at once after an enqueue does.
   */
  readonly takesClaim?: boolean
  /** Jobs that were stored without their limits; null: this store has none. */
  readonly unresolved: Unresolved | null
  /** Creates or upgrades the tables. @throws {SluiceError} `store.version` if a newer Sluice has written them */
  open(): Promise<void>
  /**
   * Finishes pending calls, then closes the file or the connections.
   * @param options.now waits for nothing: pending calls fail, and may or may not have been written
   */
  close(options?: { readonly now?: boolean }): Promise<void>
  /** Empties the store except for the live workers: for tests. */
  clear(): Promise<void>
  /** The store's clock now; an estimate of a server's is late rather than early. */
  nowUs(): number
  /** How far ahead an engine asks for starts unless it is told, in µs: a few times the lateness of its claims. */
  readonly aheadUs: number
  /** Claims run on the engine's own thread, and no start begins meanwhile. Absent: they do not. */
  readonly claimsInThread?: boolean
  /** How long it keeps ended jobs, unless their task or queue says otherwise. */
  readonly retention: Retention
  /**
   * Calls `listener` after a possible change by another process, or a late commit of this one. Returns a stop function.
   * `isOwn`: this store itself has committed it, and its caller knows about it. `warned` is told that others go unheard.
   */
  watch(listener: (change: Change, isOwn: boolean) => void, warned?: (error: SluiceError) => void): () => void
  /** True while a call is pending; a manual clock waits for it. */
  readonly pending: boolean
}

/** The possible change: new work, a request to cancel a job, the end of a job, or anything. */
export type Change = 'work' | 'cancelled' | 'ended' | 'any'

/** The guarantee of an acknowledgement: `power` survives a power cut, `process` survives a killed process. */
export type Durability = 'power' | 'process'

/** The time that finished jobs are kept, in µs. */
export interface Retention {
  readonly completedUs: number
  readonly cancelledUs: number
  readonly discardedUs: number
}

/** Jobs from arrival to the end of their retention. */
export interface Jobs {
  /**
   * Stores jobs durably, all or none; each answer says whether its job is new or a duplicate.
   * @param tx the caller's connection with an open transaction: the jobs are stored with it or not at all. @throws
   * {SluiceError} `option.invalid` if a store supports none
   */
  enqueue(jobs: readonly NewJob[], tx?: unknown): Promise<Enqueued[]>
  /** One job by its id. */
  get(id: string): Promise<JobRecord | null>
  /** Those of these jobs that have ended, or are not stored. */
  ended(ids: readonly string[]): Promise<readonly string[]>
  /**
   * Ends a job that has not ended. An active one is only marked: its worker learns it from the answer or a heartbeat.
   */
  cancel(id: string): Promise<CancelAnswer>
  /**
   * Makes a discarded job available again with a fresh attempt count, and opens its flow again. False: the job is in
   * another state.
   */
  retry(id: string): Promise<boolean>
  /** Deletes jobs past their retention, idle lanes and cold buckets, up to `limit`. Returns the number of rows. */
  prune(limit: number): Promise<number>
  /** Gives ended jobs of a page that have the times of this store, or the usual ones, those that `keepUs` says. */
  retain(page: RetainedPage, keepUs: KeepUs): Promise<Retained>
  /** The reason why a job waits; null: the job does not exist. */
  explain(id: string): Promise<Explanation | null>
}

/** Taking work and settling it. */
export interface Claims {
  /**
   * Takes jobs that every budget admits now, or within the request's `aheadUs`. The transaction reads the request when it runs, not when the call is made.
   */
  claim(request: () => ClaimRequest): Promise<Claim>
  /**
   * Writes the outcome of one run. The store writes simultaneous calls in one batch; one that it cannot write fails
   * alone.
   * @param again an earlier call failed, and may have been written nevertheless
   */
  settle(worker: number, settlement: Settlement, again?: boolean): Promise<SettleResult>
  /** Gives back claimed jobs that never started, with their units and their attempt. Returns those that were cancelled. */
  release(worker: number, runs: readonly Unstarted[]): Promise<readonly CancelledRun[]>
  /**
   * Gives back the active jobs of a worker that are not among the runs it holds: the answer of their claim was lost.
   * Their permits and attempts return, their units stay charged. No claim of this worker may be pending. Returns the
   * number of jobs given back.
   */
  releaseLost(worker: number, held: readonly Run[]): Promise<number>
  /** Gives back the active jobs of remote claims whose answer was lost, as `releaseLost` does. */
  releaseClaims(claims: readonly RemoteClaim[]): Promise<ReleasedClaims>
  /** Moves due jobs to their lanes, at most `limit`, and returns their number. Claims also do this. */
  promote(limit: number): Promise<number>
  /** Takes back the jobs of dead workers and of leases that ran out. Their permits return in the same transaction. */
  recover(): Promise<Recovered[]>
}

/** Policies and the state of their buckets. */
export interface Limits {
  /**
   * Declares limits; a higher version wins, at the same version the later call. Returns the names whose policy changed.
   */
  define(limits: readonly LimitDefinition[]): Promise<string[]>
  /**
   * Declares the limits of queues as a whole, as `define` does for jobs. Returns the queues whose starts now need other
   * buckets.
   */
  declareQueues(queues: readonly DeclaredQueue[]): Promise<string[]>
  /**
   * Closes a bucket until `untilUs`, and re-times the lanes that wait for it at once. True: a reason to emit an event
   * (see `extendsPenalty`), since several jobs may report one refusal.
   * @param worker for a limit of scope `worker`: the owner; absent: the buckets of all workers
   */
  penalize(limit: string, key: string, untilUs: number, worker?: number): Promise<boolean>
  /**
   * Corrects a bucket by the budget that an API reported, and re-times the lanes that wait for it. True: a reason to
   * emit an event.
   * @param worker the worker that got the report, for a limit of scope `worker`
   */
  calibrate(limit: string, key: string, told: CalibrationReport, worker?: number): Promise<boolean>
  /** Makes the wait lists of buckets due, and forgets what their backend refused: it may have changed its mind. */
  reopen(buckets: readonly Omit<BucketUse, 'weight'>[]): Promise<void>
  /**
   * Corrects a charge: positive units are taken, into debt if need be; negative ones return. `worker`: the worker that
   * was charged.
   */
  charge(limit: string, key: string, units: number, chargedAtUs: number, worker?: number): Promise<void>
  /** The buckets of a limit, or the one of a key; an unused bucket reads as a new one. */
  inspect(limit: string, key?: string): Promise<BucketReport[]>
  /** The used buckets of these keys, by key. */
  inspectKeys(limit: string, keys: readonly string[]): Promise<BucketReport[]>
  /** Every declared limit. */
  limits(): Promise<LimitDefinition[]>
  /** The unreadable limits and overrides. */
  unreadable(): Promise<readonly SetAside[]>
  /**
   * Waiting jobs by queue and bucket, the longest first and at most `rows`, of a part of the buckets. It counts singly:
   * not for a hot path.
   * @param after the `next` of the part before; default: the first part
   */
  throttled(rows: number, after?: number): Promise<Throttled>
  /** Estimates what a store of at least so many jobs holds, in some ms; null: it has fewer, which are counted soon. */
  sample(atLeast: number): Promise<StoreSample | null>
  /** A page of a limit's shared budgets, by the jobs in their wait lists, or by key. */
  limitKeys(query: KeyQuery): Promise<readonly KeyCount[]>
  /** Ids of the first jobs in the wait list of one budget, by priority and age; its lanes may take turns. */
  waitList(limit: string, key: string, rows: number): Promise<readonly string[]>
  /** Totals over the shared budgets of each of these limits; none for a limit that was never used. */
  limitTotals(limits: readonly string[]): Promise<readonly LimitTotals[]>
  /** The jobs that wait for each bucket of a limit, or for the one of a key; null: the limit is not defined. */
  backlog(limit: string, key?: string): Promise<readonly BucketBacklog[] | null>
  /**
   * Begins, replaces or ends an override or a pause. The store re-times waiting lanes at once, and again when it ends
   * on its own. False: there was none to end. @throws {SluiceError} `limit.unknown`, `policy.invalid`
   */
  override(request: OverrideRequest): Promise<boolean>
  /**
   * Every override and pause on record, of one limit or of all, oldest first. The store may have forgotten ended ones.
   */
  overrides(limit?: string): Promise<Override[]>
}

/** The live processes. */
export interface Workers {
  /**
   * Registers this process as a worker of these queues; claims use the returned number.
   * @param tasks the tasks that it lists: the store hands it no other job. Absent: it takes any.
   * @param about its description of itself as JSON text
   */
  join(queues: readonly string[], leaseUs: number, tasks?: readonly string[], about?: string): Promise<number>
  /** Extends the leases of a worker's active jobs; returns which of them were cancelled or belong to others now. */
  heartbeat(worker: number, runs: readonly Run[], leaseUs: number): Promise<Beat>
  /** The active jobs of a worker that a caller asked to cancel (`seq`). */
  cancellations(worker: number): Promise<number[]>
  /** Removes the registration; jobs still active stay leased until their lease runs out. */
  leave(worker: number): Promise<void>
}

/** One run of a job: the job and the number of its attempt. */
export interface Run {
  readonly seq: number
  readonly attempt: number
}

/** A claimed job that never started, with its charges. */
export interface Unstarted extends Run {
  readonly uses: readonly BucketUse[]
  readonly startedUs: number
}

/** The result of enqueueing one job. */
export type Enqueued =
  | { readonly kind: 'created'; readonly id: string }
  | { readonly kind: 'duplicate'; readonly id: string }
  | { readonly kind: 'updated'; readonly id: string }
  | { readonly kind: 'conflict'; readonly id: string }

/** The result of a request to cancel. `requested`: the job is active, and its worker has to end it. */
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

/** The limits that an engine's code gives to a queue as a whole: every start of the queue needs them, on any worker. */
export interface DeclaredQueue {
  readonly queue: string
  /** Empty: the queue has no limits from now on. */
  readonly uses: readonly BucketUse[]
  /** Compared between engines; a whole number, default 0. */
  readonly version: number
}

/** Room in one queue of a process that claims. */
export interface QueueRequest {
  readonly queue: string
  /** Free slots of this process; 0 when it is full. */
  readonly slots: number
  /** Of these, the most whose starts may be granted ahead; absent: none. */
  readonly ahead?: number
}

/** A claim's worker, lease and slots. */
export interface ClaimRequest {
  readonly worker: number
  readonly leaseUs: number
  readonly queues: readonly QueueRequest[]
  /** The tasks whose jobs it takes; absent: any. */
  readonly tasks?: readonly string[]
  /** The interval of `sustained` events of a bucket that jobs still wait for, in µs; default 1 minute. */
  readonly eventWindowUs?: number
  /** The jobs' own leases and timeouts count, since no engine watches the run. Absent: they do not. */
  readonly remote?: boolean
  /** Grants starts due within so many µs too, each for its own instant. Absent: what may start now. Not with `remote`. */
  readonly aheadUs?: number
  /** The process's knowledge about the backends that keep budgets. Absent: it has none. */
  readonly elsewhere?: ElsewhereTerms
  /** Buckets of starts held since earlier claims: the answer names the closed ones. Absent: none. */
  readonly holds?: readonly Omit<BucketUse, 'weight'>[]
  /** A UUID stored with the jobs that this claim starts, for `releaseClaims`; only with `remote`. */
  readonly claimId?: string
  /**
   * The remote workers that claim together, in the order in which they get jobs; `worker` is the first. They share one
   * queue, whose slots are the sum of theirs. Only with `remote`. Absent: `worker` alone.
   */
  readonly takers?: readonly Taker[]
}

/** The result of a claim. */
export interface Claim extends Recall {
  readonly jobs: readonly GrantedJob[]
  /** Of a claim with takers: the same jobs with all stored details, among them the taker that has each. */
  readonly details?: readonly JobDetails[]
  /** The number of takers that this claim has served, from the first on; absent: all. The others claim again. */
  readonly served?: number
  /** Jobs that will not run, already discarded: a limit drops them, or they are too late. */
  readonly rejected: readonly Rejected[]
  /** The time to claim again if no wakeup comes before; null: never. */
  readonly nextWakeUs: number | null
  /** A claimer whose calls all wait in one list need not come before this; absent: it comes for each start. */
  readonly patientUntilUs?: number
  /** The next time something becomes due by itself: a reason to claim even without a free slot. Null: nothing does. */
  readonly nextFireUs: number | null
  /** Occurrences that became jobs or were skipped, and series that ended. */
  readonly schedules: readonly ScheduleNews[]
  /** Jobs of these kinds wait until an engine resolves their limits; absent: there are none. */
  readonly unresolved?: readonly UnresolvedKind[]
  /** Unreadable rows that the store set aside; absent: there are none. */
  readonly aside?: readonly SetAside[]
  /** Jobs of these kinds wait, since no live worker lists their task. Only those that this claim saw; absent: none. */
  readonly unknown?: readonly UnknownKind[]
  /** Changes of flows by jobs that were rejected. */
  readonly flows: readonly FlowNews[]
  /** Starts for whose units the process has to ask backends; absent: none. Their jobs wait. */
  readonly wanted?: readonly WantedStart[]
  /** The decision's clock. */
  readonly nowUs: number
  /** The number of lanes examined: the cost of a claim. */
  readonly looks: number
  /** Buckets that closed in this claim. */
  readonly closed: readonly Closed[]
  /** Buckets with continued waiting whose `sustained` event is due. */
  readonly sustained: readonly Sustained[]
  /** Buckets that no job waits for any more. */
  readonly released: readonly Released[]
}

/** A job that was discarded before it could start. */
export interface Rejected {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly input: string
  readonly attempt: number
  /** `unreadable`: the store could not read its row, and set it aside. */
  readonly reason: 'dropped' | 'late' | 'expired' | 'unreadable'
  readonly limit: string
  readonly key: string
  readonly expectedStartUs: number | null
  /** Set: the job was an occurrence of a schedule. It is skipped: cancelled, not discarded, and not counted as a run. */
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
  /** The step of a workflow flow that was lost; null: none. */
  readonly step: string | null
  /** Set: the job ended, and that changed its flow. */
  readonly flow?: FlowNews
}

/** The result of a heartbeat (`seq` of active jobs). */
export interface Beat {
  readonly cancelled: readonly number[]
  readonly lost: readonly number[]
}
