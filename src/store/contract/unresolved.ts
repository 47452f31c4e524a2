/** Jobs that were stored where the code of their task is not: no limit of theirs is known, and none starts before an engine says them. */
import type { JobError, NewJob } from '../../jobs/job.ts'

/** A kind of unresolved jobs, as a claim finds it. */
export interface UnresolvedKind {
  readonly queue: string
  readonly task: string
}

/** A job whose limits are to be said. */
export interface UnresolvedJob extends UnresolvedKind {
  readonly seq: number
  readonly id: string
  readonly priority: number
  readonly input: string
  readonly attempt: number
}

/** What an engine has made of an unresolved job: the limits by which it waits from now on, or why it has none and is discarded. */
export type Resolution =
  | { readonly job: UnresolvedJob; readonly as: Pick<NewJob, 'uses' | 'fairKey' | 'share'> }
  | { readonly job: UnresolvedJob; readonly error: JobError }

/** What a store asks of the engines that know the tasks of its jobs. */
export interface Unresolved {
  /** The first jobs of a kind, in the order in which they would start. */
  list(kind: UnresolvedKind, limit: number): Promise<UnresolvedJob[]>
  /** Has jobs join their lanes, or discards them; answers the `seq` of those that were still unresolved. */
  resolve(resolutions: readonly Resolution[]): Promise<number[]>
}
