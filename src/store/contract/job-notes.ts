import type { JobLogLine } from '../../jobs/job-log.ts'

/** Lines and progress that runs leave with their jobs. */
export interface JobNotes {
  /**
   * Adds to what is kept of jobs, many at once. A job keeps its last lines (`withLines`) until it is deleted. Notes of a
   * job that is not stored any more are dropped.
   */
  addNotes(notes: readonly JobNote[]): Promise<void>
  /** The lines that a job keeps, oldest first. */
  jobLog(id: string): Promise<readonly JobLogLine[]>
}

/** Lines and progress of one run. */
export interface JobNote {
  readonly id: string
  readonly attempt: number
  readonly lines: readonly JobLogLine[]
  /** JSON text; null: it has told none since its last note. */
  readonly progress: string | null
}
