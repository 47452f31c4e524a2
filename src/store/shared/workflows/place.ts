import type { NewJob } from '../../../jobs/job.ts'
import type { Arrival } from '../../../jobs/workflow.ts'

/** A job's new place after a move. */
export interface Placement {
  readonly seq: number
  readonly arrival: Arrival
  /** It goes behind all jobs that came before. */
  readonly isNew: boolean
  /** Set: it is parked, and wakes by itself at `dueUs`; null: it is not. */
  readonly parked: { readonly awaits: string; readonly dueUs: number | null } | null
  /** The job's new input; null: unchanged. */
  readonly input: string | null
  /** The number and the bytes of the steps that its moves have written. */
  readonly kept: number
  readonly bytes: number
}

/** A new job of a flow. */
export interface Member {
  readonly flow: number
  readonly node: number
  readonly step: string | null
  readonly item: number | null
  readonly attempt: number
  readonly delayUs: number
  readonly job: NewJob
}
