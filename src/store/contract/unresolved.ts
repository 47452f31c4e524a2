/**
 * Jobs that were stored without their task's code. Their limits are unknown, and none starts before an engine resolves
 * them.
 */
import type { NewJob } from '../../jobs/job.ts'
import type { JobError } from '../../jobs/job-error.ts'

/** A kind of unresolved jobs, as a claim finds it. */
export interface UnresolvedKind {
  readonly queue: string
  readonly task: string
}

/** A job whose limits an engine has to resolve. */
export interface UnresolvedJob extends UnresolvedKind {
  readonly seq: number
  readonly id: string
  readonly priority: number
  readonly input: string
  readonly attempt: number
}

/** An engine's resolution of a job: the limits by which it waits from now on, or the reason why it is discarded. */
export type Resolution =
  | { readonly job: UnresolvedJob; readonly as: Pick<NewJob, 'uses' | 'fairKey' | 'share'> }
  | { readonly job: UnresolvedJob; readonly error: JobError }

/** The verbs with which engines resolve jobs of their tasks. */
export interface Unresolved {
  /** The first jobs of a kind, in their start order. */
  list(kind: UnresolvedKind, limit: number): Promise<UnresolvedJob[]>
  /** Puts jobs into their lanes, or discards them; returns the `seq` of those that were still unresolved. */
  resolve(resolutions: readonly Resolution[]): Promise<number[]>
}
