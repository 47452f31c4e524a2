/** Recurring work. */
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'

/**
 * Recurring work. Claims fire due schedules in the transaction that advances them, so that no occurrence becomes two
 * jobs.
 */
export interface Schedules {
  /**
   * Registers a schedule. One of the same name and content stays unchanged; one with other content is changed and keeps
   * its count.
   */
  schedule(schedule: NewSchedule): Promise<Scheduled>
  /** Every schedule by name, with ended ones. */
  schedules(): Promise<ScheduleRecord[]>
  /**
   * Pauses a schedule, or ends its pause. Registering it again changes neither. Occurrences that are due meanwhile become
   * no jobs, unless it catches up after its pause. A series that has ended stays as it is. Null: no schedule has that
   * name.
   */
  pauseSchedule(name: string, paused: boolean): Promise<ScheduleRecord | null>
  /** Deletes a schedule; its waiting and running occurrences stay. False: no schedule has that name. */
  unschedule(name: string): Promise<boolean>
}

/** The result of registering a schedule. */
export interface Scheduled {
  readonly kind: 'created' | 'updated' | 'unchanged'
  readonly schedule: ScheduleRecord
}
