/**
 * The contract of a backend of limits. A backend holds buckets, decides by its own clock, and answers with durations, so that
 * no caller's clock matters.
 */
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideRecord } from '../../policy/limits/timeline.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'

/** Names one bucket: a limit and a partition key, `''` for a limit without keys. */
export interface BucketName {
  readonly limit: string
  readonly key: string
}

/** The units that a start takes from one bucket. */
export interface BucketUse extends BucketName {
  /** Integer ≥ 1. */
  readonly weight: number
}

/** A request: all of its uses are granted, or none. */
export interface UnitRequest {
  /** Each bucket once. */
  readonly uses: readonly BucketUse[]
  /** −100 to 100; it decides about the headroom alone. */
  readonly priority: number
  /** The requests of one line are granted in order: after a denial the rest of the line gets the same answer. */
  readonly line: number
  /** The id of the permit, if a limit needs one. The caller names it, so that a repeated call takes no second one. */
  readonly permit: string
  /** A permit that is not extended returns by itself after this time. */
  readonly leaseUs: number
  /**
   * The start counts from so long after the decision, at most half of a period. Absent: 0. A backend may leave it out:
   * `startInUs` tells.
   */
  readonly aheadUs?: number
  /** It may count from up to so much later, at most half of a period, if its units are there then. Absent: 0. */
  readonly withinUs?: number
  /** Names the process that asks, so that a backend can tell how many wait for a bucket. Absent: it is not counted. */
  readonly caller?: string
}

/** A permit of every limit with `concurrency` that a granted request uses. */
export interface HeldPermit {
  readonly id: string
  /** The buckets that it holds a permit of. */
  readonly of: readonly BucketName[]
}

/** The units were taken. */
export interface Granted {
  readonly kind: 'granted'
  /** The instant on the backend's clock from which the start counts, for `charge`. */
  readonly atUs: number
  /** The time from the answer until that instant; below 0: so long ago. Absent: 0, as of a backend in this process. */
  readonly startInUs?: number
  /** Null: no limit of the request counts permits. */
  readonly permit: HeldPermit | null
}

/** Nothing was taken. */
export interface Denied {
  readonly kind: 'denied'
  /** The bucket that opens last. */
  readonly by: BucketName
  /** The exact time from the answer until all buckets admit it, if nothing else changes; null: a permit must return. */
  readonly retryAfterUs: number | null
  /** The callers that this bucket has refused lately, and which may ask again; this one too. Absent: it counts none. */
  readonly callers?: number
}

/** The backend has no such limit: the caller defines it, and asks again. */
export interface Unknown {
  readonly kind: 'unknown'
  readonly limit: string
}

/** The answer to a request. */
export type UnitAnswer = Granted | Denied | Unknown

/** A booked start. */
export interface Booked {
  readonly kind: 'booked'
  readonly id: string
  /** The time from the answer until the start. */
  readonly startAfterUs: number
}

/** The answer to a request for a reservation. */
export type ReservationAnswer = Booked | Denied | Unknown

/** The answer at the start of a reservation: go, wait longer, or the reservation is gone. */
export type Confirmation =
  | Granted
  | { readonly kind: 'wait'; readonly startAfterUs: number; readonly by: BucketName }
  | { readonly kind: 'gone' }

/** Names a correction. Its caller asks for it again under the same name if it gets no answer. */
export interface ChargeName {
  readonly id: string
  /** It does so for at most this time. */
  readonly forUs: number
}

/** A report of an API about its budget. */
export interface BudgetLeft {
  readonly remaining: number
  /** The time from now until the budget renews. */
  readonly resetInUs: number
  readonly direction: 'down' | 'both'
  readonly reset: 'window' | 'refill'
}

/** Begins or ends an override or a pause of a limit, or of one key. */
export interface ChangeRequest {
  readonly kind: 'override' | 'pause'
  readonly limit: string
  /** Null: all keys. */
  readonly key: string | null
  /** Null ends the current one. A pause only uses whether this is null. */
  readonly change: PolicyChange | null
  /** It ends by itself after this time; null: it does not. */
  readonly forUs: number | null
  readonly by: string | null
  readonly reason: string | null
}

/** The present state of one bucket. */
export interface BucketReport {
  /** The policy in force. */
  readonly policy: LimitPolicy
  /** Units that could start now. */
  readonly available: number
  /** Units taken beyond the bound. */
  readonly debt: number
  /** Burst, max or permits; Infinity: no bound. */
  readonly capacity: number
  /** Permits held. */
  readonly active: number
  /** The time until one unit may start; 0: now; null: a permit must return. */
  readonly nextInUs: number | null
  /** The rest of a penalty. */
  readonly closedForUs: number
  /** Overrides and pauses in force, on the backend's clock. */
  readonly overrides: readonly OverrideRecord[]
}

/** How long a request waits in a backend's own wait list. */
export interface WaitTerms {
  /** The most time that it waits; 0: an answer at once; Infinity: without bound. */
  readonly waitUs: number
  /** Its abort takes the request out, and rejects with its reason. */
  readonly signal?: AbortSignal
}

/**
 * A backend of limits. Each verb is one step: nothing of it is seen before all of it. A verb whose limit the backend has
 * lost answers `unknown`, or null, or throws `limit.unknown`; the process then defines its limits again and repeats it.
 */
export interface LimitBackend {
  /** The backend lives in this process, and can neither be unreachable nor change without its caller. */
  readonly isLocal: boolean
  /** It knows corrections by their names. Absent: units that return are sent once, and stay lost with a request. */
  readonly namesCharges?: boolean
  /** Defines limits. The higher version wins, else the later call. It returns the names that changed. */
  define(definitions: readonly LimitDefinition[]): Promise<readonly string[]>
  /** Decides the requests in order; the answers have the same order. */
  acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]>
  /**
   * Decides one request without a turn of the event loop, for a backend in this process; absent: it cannot. The request
   * is another one after the call.
   */
  acquireNow?(request: UnitRequest): UnitAnswer
  /**
   * Decides one request, and lets it wait in the backend's own wait list, where others of the same budgets wait too. A
   * denial: it could not start in time. Absent: callers wait in lines of their process.
   */
  wait?(request: UnitRequest, terms: WaitTerms): Promise<UnitAnswer>
  /**
   * Books the exact next start, if it is at most so far away. A reservation counts as taken from then on. One under the
   * same id, of the same uses, is replaced: its units return first.
   */
  reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer>
  /** Asks at the start of a reservation whether it stands. A penalty, a pause or a missing permit moves it. */
  confirm(id: string): Promise<Confirmation>
  /** Gives a reservation back, as far as no later start counts on it. False: it is gone. */
  cancel(id: string): Promise<boolean>
  /** Returns permits; an unknown one is ignored. */
  release(permits: readonly HeldPermit[]): Promise<void>
  /** Extends the leases of permits; it returns those that had ended. */
  extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]>
  /**
   * Corrects a charge of `atUs`: positive units are taken, into debt if need be; negative ones return. To a limit of
   * spacing they give its last start back. All else is refused, unwritten, where the limit counts no units.
   * @param name a backend with `namesCharges` carries the correction out once, however often it is asked
   * @throws {SluiceError} `option.invalid`
   */
  charge(bucket: BucketName, units: number, atUs: number, name?: ChargeName): Promise<void>
  /** Closes a bucket for so long, or longer if it is closed for longer. True: a reason to tell. */
  penalize(bucket: BucketName, forUs: number): Promise<boolean>
  /** Corrects a bucket by an API's report. True: a reason to tell. */
  calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean>
  /** Begins or ends an override or a pause. False: there was none to end. */
  change(request: ChangeRequest): Promise<boolean>
  /** Reads a bucket; null: the limit is not defined. */
  inspect(bucket: BucketName): Promise<BucketReport | null>
  /** Makes a bucket new again. Its permits stay. */
  forget(bucket: BucketName): Promise<void>
  /**
   * Rejects where it could not grant units now, such as a server that is full, or a replica. Absent: `define` tells whether
   * it can be reached.
   */
  ready?(): Promise<void>
  /** Ends the connection that the backend itself opened. */
  close(): Promise<void>
}

/** A backend that is opened by its first use. */
export interface BackendLoader {
  readonly isLocal: boolean
  /** It has wait lists of its own: the verb `wait`. */
  readonly hasWaitLists: boolean
  readonly load: () => Promise<LimitBackend>
}
