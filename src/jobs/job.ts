import type { GuardedWindow } from '../policy/limits/lateness.ts'
import type { FlowMemory } from './flow-memory.ts'
import type { FlowPlace, FlowRun } from './flow.ts'
import type { JobError } from './job-error.ts'
import type { JobMatch } from './job-filter.ts'
import type { JobState } from './job-state.ts'
import type { UniqueRule } from './unique-key.ts'

/** A job as it is handed to a store: everything is checked, every key is computed. */
export interface NewJob {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly priority: number
  /** JSON text. */
  readonly input: string
  /** The buckets that must admit it, in lane order, none twice. */
  readonly uses: readonly { readonly limit: string; readonly key: string; readonly weight: number }[]
  readonly maxAttempts: number
  /** By the wall clock; null: now. */
  readonly runAtMs: number | null
  /** The earliest start after storage, in µs of the store's clock, in place of `runAtMs`; absent: at once. */
  readonly delayUs?: number
  /** By the wall clock. A job that has not started by then is discarded; null: never. */
  readonly expiresAtMs: number | null
  readonly unique: UniqueRule | null
  /** JSON text of `{ meta, tags, trace }`, or null; `trace` is the trace context for the job's runs. */
  readonly extra: string | null
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Splits its queue's work into lanes that take turns, in addition to its buckets; absent: only the buckets do. */
  readonly fairKey?: string
  /** The starts of one turn of its lane from this arrival on; 1 to 100; absent: 1. */
  readonly share?: number
  /** Absent: it was enqueued by an engine. */
  readonly terms?: JobTerms
}

/** Terms of a job that remote workers run. */
export interface JobTerms {
  /** The caller chose the id: another job may have it. */
  readonly givenId: boolean
  /** It waits to be activated. */
  readonly pending: boolean
  /** µs; null: the claimer's lease. */
  readonly leaseUs: number | null
  /** The longest run of an attempt, in µs; null: as long as its lease. */
  readonly timeoutUs: number | null
  /** Keeps a failed job for inspection. */
  readonly deadLetter: boolean
}

/** The schedule and due time of a scheduled job. */
export interface Occurrence {
  readonly schedule: string
  /** Wall clock. */
  readonly dueMs: number
}

/** A job as it is stored. */
export interface JobRecord {
  readonly seq: number
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly state: JobState
  readonly priority: number
  readonly input: string
  readonly result: string | null
  readonly error: JobError | null
  readonly attempt: number
  readonly maxAttempts: number
  readonly createdUs: number
  /** When a scheduled (wall clock) or retryable job continues, or when an active job's lease ends; otherwise null. */
  readonly dueUs: number | null
  readonly startedUs: number | null
  readonly finishedUs: number | null
  readonly extra: string | null
  /**
   * When a closed bucket lets the lane of an available job continue; null if none is closed, or if a permit must
   * return.
   */
  readonly throttledUntilUs: number | null
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Absent: the job belongs to no flow. */
  readonly flow?: FlowPlace
}

/** A granted job: it is active, its units are paid, its permits are held. */
export interface GrantedJob {
  readonly seq: number
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly priority: number
  readonly input: string
  /** 1 on the first run. */
  readonly attempt: number
  readonly maxAttempts: number
  /** The number of push-backs by the API in a row. */
  readonly pushedBack: number
  readonly createdUs: number
  /** When it began to wait for this start. */
  readonly availableUs: number
  /** Its start; after the claim's clock if it was granted ahead. */
  readonly startedUs: number
  /** The bucket in whose wait list it stood; null: it waited for no budget. */
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
  readonly extra: string | null
  /** It holds permits. Absent: it holds none. */
  readonly holds?: true
  /** The buckets charged, in the order of its lane. */
  readonly uses: readonly { readonly limit: string; readonly key: string; readonly weight: number }[]
  /**
   * The limits in shadow mode that would have delayed this start (null: until a permit had returned), or ended it.
   * Absent: none would.
   */
  readonly shadowed?: readonly {
    readonly limit: string
    readonly key: string
    readonly delayUs: number | null
    readonly drops: boolean
  }[]
  /** Those of them that keep their starts apart, and how far; absent: none does. */
  readonly strict?: readonly { readonly limit: string; readonly key: string; readonly gapUs: number }[]
  /** Those of them whose sliding windows have a guard; absent: none has. */
  readonly windows?: readonly KeptWindow[]
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Absent: the job belongs to no flow. */
  readonly flow?: FlowRun
  /** The memory of its workflow flow, if the claim has read it; absent: the entry reads it. */
  readonly memory?: FlowMemory
}

/** A sliding window with a guard that a start has paid from. */
export interface KeptWindow extends GuardedWindow {
  readonly limit: string
  readonly key: string
  readonly units: number
}

/** Which jobs a store lists, and from where on. */
export interface JobQuery extends JobMatch, JobSpan {
  /** With `flow`, only jobs behind this node, for paging. */
  readonly afterNode?: number
  /** 1 to 1,000; default 100. */
  readonly limit?: number
}

/** A part of all jobs, by their `seq`. */
export interface JobSpan {
  /** Only jobs older than this one. */
  readonly before?: number
  /** Only this job and newer ones. */
  readonly from?: number
  /** Only jobs among these. */
  readonly seqs?: readonly number[]
}
