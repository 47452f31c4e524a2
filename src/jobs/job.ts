import type { JsonValue } from '../base/json-value.ts'
import type { FlowNews, FlowPlace, FlowRun } from './flow.ts'
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
  /** Wall clock; null: now. */
  readonly runAtMs: number | null
  /** How long after it is stored it is to start at the earliest, by the store's clock, µs; in place of `runAtMs`; absent: at once. */
  readonly delayUs?: number
  /** Wall clock; a job that has not started by then is discarded; null: never. */
  readonly expiresAtMs: number | null
  readonly unique: UniqueRule | null
  /** JSON text of `{ meta, tags, trace }`, or null; `trace` is what the job carries to its runs. */
  readonly extra: string | null
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Splits its queue's work into lanes that take turns, beside its buckets; absent: they alone do. */
  readonly fairKey?: string
  /** Starts that one turn of its lane has, from this arrival on; 1 to 100; absent: 1. */
  readonly share?: number
  /** Absent: it was enqueued by an engine. */
  readonly terms?: JobTerms
}

/** What is said of a job that remote workers run. */
export interface JobTerms {
  /** The caller chose the id: another job may have it. */
  readonly givenId: boolean
  /** It waits to be activated. */
  readonly pending: boolean
  /** Null: as whoever claims it says. */
  readonly leaseUs: number | null
  /** How long an attempt may take; null: as long as its lease lives. */
  readonly timeoutUs: number | null
  /** Once given up it is kept for somebody to look at. */
  readonly deadLetter: boolean
}

/** Which due time of which schedule a job stands for. */
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
  /** When a scheduled (wall clock) or retryable job moves on, when an active one's lease ends; null otherwise. */
  readonly dueUs: number | null
  readonly startedUs: number | null
  readonly finishedUs: number | null
  readonly extra: string | null
  /** Available and held back by a closed bucket: when that lets the job's lane go on; null otherwise, or when a permit has to return. */
  readonly throttledUntilUs: number | null
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Absent: the job belongs to no flow. */
  readonly flow?: FlowPlace
}

/** Why a run failed or a job was discarded, as it is stored. */
export interface JobError {
  readonly code: string
  readonly message: string
  /** How long the next attempt was put off because of it. */
  readonly retryDelayMs?: number
  /** What kind of failure the handler called it. */
  readonly type?: string
  readonly details?: { readonly [name: string]: JsonValue }
}

/** A job that was granted: it is active, its units are paid, its permits are held. */
export interface Admitted {
  readonly seq: number
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly priority: number
  readonly input: string
  /** 1 on the first run. */
  readonly attempt: number
  readonly maxAttempts: number
  /** Times it was sent back by the other side's push-back, in a row. */
  readonly pushedBack: number
  readonly createdUs: number
  /** When it came to wait for this start. */
  readonly availableUs: number
  readonly startedUs: number
  /** The bucket in whose line it stood; null: it waited for no budget. */
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
  readonly extra: string | null
  /** The buckets that it was charged to; in the order of its lane. */
  readonly uses: readonly { readonly limit: string; readonly key: string; readonly weight: number }[]
  /** Absent: the job belongs to no schedule. */
  readonly occurrence?: Occurrence
  /** Absent: the job belongs to no flow. */
  readonly flow?: FlowRun
}

/** What one run came to, with the run that it speaks of: it counts only while that run holds the lease. */
export type Settlement = {
  readonly seq: number
  readonly attempt: number
  /** When the run started: tells it from a later one of the same attempt when this is repeated; absent: not compared. */
  readonly startedUs?: number
} & (
  | { readonly kind: 'complete'; readonly result: string | null }
  | { readonly kind: 'retry'; readonly delayUs: number; readonly error: JobError }
  | { readonly kind: 'discard'; readonly error: JobError }
  | { readonly kind: 'cancel' }
  /** Interrupted by a stop of the worker: goes back to its lane, the attempt is not charged. */
  | { readonly kind: 'give-back' }
  /** Pushed back by the other side: closes the bucket, goes back to its lane, the attempt is not charged. */
  | {
      readonly kind: 'push-back'
      readonly limit: string | null
      readonly key: string
      readonly closedForUs: number
      /** The job does not stand under that bucket, so it is put off by itself for as long; absent: the closed bucket holds it. */
      readonly apart?: true
      readonly error: JobError
    }
)

/** Whether a settlement counted; `lost`: the lease was no longer the caller's, nothing was written. */
export type Settled =
  | {
      readonly kind: 'settled'
      readonly state: JobState
      /** Of a push-back: it closed a bucket that was open, or for markedly longer than it was closed already. */
      readonly adjusted?: boolean
      /** Set: the job ended, and that changed the flow it belongs to. */
      readonly flow?: FlowNews
    }
  | { readonly kind: 'lost' }

/** Which jobs to list. */
export interface JobQuery {
  readonly states?: readonly JobState[]
  readonly queue?: string
  readonly task?: string
  /** Only jobs of the flow with this id: in the order of its nodes, callbacks last. */
  readonly flow?: string
  /** With `flow`, only jobs behind this node, for paging. */
  readonly afterNode?: number
  /** 1 to 1,000; 100 by default. */
  readonly limit?: number
  /** Only jobs older than this one (its `seq`), for paging. */
  readonly before?: number
}
