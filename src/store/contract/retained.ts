/** Retention of jobs that ended without a run, so that no task or queue had a say. */

/** A page of ended jobs, in the order in which their retention ends. */
export interface RetainedPage {
  readonly state: 'cancelled' | 'discarded'
  /** The place behind which the page begins; null: with jobs that ended since `sinceUs`. */
  readonly after: readonly [dueUs: number, seq: number] | null
  readonly sinceUs: number
  readonly rows: number
}

/** A page, with its retention written. */
export interface Retained {
  /** The place of the next page; null: this was the last. */
  readonly after: RetainedPage['after']
  /** The tasks of these jobs. */
  readonly tasks: readonly string[]
}

/** How long an ended job of a task and queue is kept, in µs; undefined: this process does not know the task. */
export type KeepUs = (task: string, queue: string) => number | undefined
