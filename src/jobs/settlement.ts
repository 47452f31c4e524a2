import type { FlowNews } from './flow.ts'
import type { JobError } from './job-error.ts'
import type { JobState } from './job-state.ts'
import type { FlowMove } from './workflow.ts'

/** The outcome of one run, with the run's identity. It counts only while that run holds the lease. */
export type Settlement = {
  readonly seq: number
  readonly attempt: number
  /** When the run started: tells it from a later run of the same attempt in a repeated call; absent: not compared. */
  readonly startedUs?: number
  /** The job belongs to a flow, which its end may change; absent: the store finds out. */
  readonly inFlow?: true
  /** How often the job of a workflow flow had moved before the run; absent: not compared. */
  readonly moves?: number
  /** How long the job is kept if this ends it, in µs; absent: as the store says. A flow keeps its jobs. */
  readonly keepUs?: number
  /** A completed job is kept for so long at least, in µs, since it holds a unique key; absent: it holds none. */
  readonly keepAtLeastUs?: number
} & (
  | { readonly kind: 'complete'; readonly result: string | null }
  | { readonly kind: 'retry'; readonly delayUs: number; readonly error: JobError }
  | { readonly kind: 'discard'; readonly error: JobError }
  | { readonly kind: 'cancel' }
  /** Interrupted by a stop of the worker: goes back to its lane, the attempt is not charged. */
  | { readonly kind: 'give-back' }
  /** The handler's wish: the job is scheduled again, the attempt is not charged, and its next start pays again. */
  | { readonly kind: 'snooze'; readonly delayUs: number }
  /** A push-back by the API: it closes the bucket, and the job returns to its lane without a charged attempt. */
  | {
      readonly kind: 'push-back'
      readonly limit: string | null
      readonly key: string
      readonly closedForUs: number
      /** The job does not use that bucket, so it waits by itself for this long; absent: the closed bucket holds it. */
      readonly apart?: true
      readonly error: JobError
    }
  /** Of a job of a workflow flow: its flow goes on. */
  | {
      readonly kind: 'next'
      /** The job's id, by which a repeated call finds a job that got a new place. */
      readonly id: string
      readonly moves: number
      readonly move: FlowMove
    }
)

/** Whether a settlement counted. `lost`: the caller no longer held the lease, and the store wrote nothing. */
export type SettleResult =
  | {
      readonly kind: 'settled'
      readonly state: JobState
      /** When the run ended, on the store's clock; absent: an earlier try had ended it. */
      readonly atUs?: number
      /** Of a push-back: it closed a bucket that was open, or for markedly longer than it was closed already. */
      readonly adjusted?: boolean
      /** Set: the run returned permits. Absent: it held none, or the store itself tells who waits for them. */
      readonly returned?: true
      /** Set: the job ended, and that changed the flow it belongs to. */
      readonly flow?: FlowNews
    }
  | { readonly kind: 'lost' }
