/** Recurring work. */
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'

/** Recurring work. Claims fire what is due, in the transaction that moves the schedule on: no occurrence becomes two jobs. */
export interface Schedules {
  /** Registers a schedule: one of the same name and content stays as it is, one of other content is changed and keeps its count. */
  schedule(schedule: NewSchedule): Promise<Scheduled>
  /** Every schedule, ended ones too, by name. */
  schedules(): Promise<ScheduleRecord[]>
  /** Forgets a schedule; an occurrence that waits or runs goes on. False when there is none of that name. */
  unschedule(name: string): Promise<boolean>
}

/** What registering a schedule came to. */
export interface Scheduled {
  readonly kind: 'created' | 'updated' | 'unchanged'
  readonly schedule: ScheduleRecord
}
