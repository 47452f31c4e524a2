import type { FlowKind, FlowState } from '../../jobs/flow.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { JobState } from '../../jobs/job-state.ts'

/** The changes of jobs and flows, which readers in any process follow. They are written only while a reader lives. */
export interface EventLog {
  /**
   * Registers a reader: changes are written from now on, until its lease ends. Returns its position; null: transactions
   * of others stand in the way, and the caller tries again.
   * @param reader a UUID
   */
  joinEvents(reader: string, leaseUs: number): Promise<string | null>
  /** The changes behind a position, in the order of each job and flow; of many the newest only. */
  readEvents(position: string): Promise<EventPage>
  /**
   * Extends a reader's lease, notes what it has read, and deletes what all readers have read. `behind`: changes that it
   * had not read were deleted. `gone`: its lease had ended, so changes may not have been written.
   */
  keepEvents(reader: string, position: string, leaseUs: number): Promise<'kept' | 'behind' | 'gone'>
  /** Ends a reader. Without one left, nothing is written any more. */
  leaveEvents(reader: string): Promise<void>
}

/** Changes that were read. */
export interface EventPage {
  readonly changes: readonly StoredChange[]
  /** The position behind them. */
  readonly position: string
  /** There were more, and the oldest were left out. */
  readonly isCut: boolean
}

/** One change of a job or a flow; `was` is its former state, null for a new one. */
export type StoredChange = StoredJobChange | StoredFlowChange

/** A job that was stored or has changed its state. */
export interface StoredJobChange {
  readonly of: 'job'
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly was: JobState | null
  readonly state: JobState
  /** The attempt of the run that starts or ends. */
  readonly attempt: number
  readonly createdUs: number
  /** When it became available for this run. */
  readonly readyUs: number
  /** When its state changed; not for a start. */
  readonly sinceUs: number
  readonly startedUs: number | null
  readonly dueUs: number | null
  /** A run of it has failed, or was lost. */
  readonly hasFailed: boolean
  readonly error: JobError | null
}

/** A flow that was stored or has ended. */
export interface StoredFlowChange {
  readonly of: 'flow'
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  readonly was: FlowState | null
  readonly state: FlowState
  readonly jobs: number
  /** Why a workflow flow failed. */
  readonly error: JobError | null
}
