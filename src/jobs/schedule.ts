import type { NewJob, Occurrence } from './job.ts'
import type { Recurrence } from './recurrence.ts'

/** The treatment of an occurrence that is due before the last one has ended: it is skipped, or both run. */
export type Overlap = 'skip' | 'allow'

/** The treatment of occurrences that were due while no engine was running. */
export type OnMissed = 'skip' | 'catchUp'

/** A schedule as it is handed to a store: everything is checked, every key is computed. */
export interface NewSchedule {
  readonly name: string
  readonly recurrence: Recurrence
  /** The first occurrence is due at once, when the schedule is first registered. */
  readonly immediately: boolean
  /** By the wall clock. An occurrence starts before this, or is skipped; null: no end. */
  readonly untilMs: number | null
  /** Null: no bound. */
  readonly maxRuns: number | null
  readonly overlap: Overlap
  readonly onMissed: OnMissed
  /** The job that each occurrence is. */
  readonly job: Pick<
    NewJob,
    'task' | 'queue' | 'priority' | 'input' | 'uses' | 'maxAttempts' | 'extra' | 'fairKey' | 'share' | 'terms'
  >
}

/** A schedule as it is stored. */
export interface ScheduleRecord extends NewSchedule {
  /** When the next occurrence is due, by the wall clock; null: the series is paused or has ended. */
  readonly nextDueMs: number | null
  /** When the last occurrence that became a job was due, wall clock. */
  readonly lastDueMs: number | null
  /** The job of that occurrence. */
  readonly lastJob: string | null
  /** Occurrences that became jobs, without those that were skipped while they waited. */
  readonly runs: number
  readonly paused: boolean
}

/**
 * Why an occurrence was skipped: no engine was running, the last one had not ended, or its limits delayed it too long.
 */
export type SkipReason = 'missed' | 'overlap' | 'late'

/** The changes of schedules in one claim. */
export type ScheduleNews =
  | {
      readonly kind: 'fired'
      readonly occurrence: Occurrence
      readonly id: string
      readonly task: string
      readonly queue: string
    }
  | { readonly kind: 'skipped'; readonly occurrence: Occurrence; readonly reason: SkipReason }
  | { readonly kind: 'ended'; readonly schedule: string; readonly runs: number }
