import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { dueSchedule, register, SCHEDULE_COLUMNS, type ScheduleAccess, scheduleOf } from '../shared/schedule.ts'
import { type StoredSchedule, toRecord } from '../shared/series.ts'
import type { Context } from './context.ts'

const SELECT = `SELECT ${SCHEDULE_COLUMNS} FROM schedules`
const UPSERT = `INSERT INTO schedules (name, spec, wall, anchor, anchor_wall, next_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
  spec = excluded.spec, wall = excluded.wall, anchor = excluded.anchor, anchor_wall = excluded.anchor_wall, next_at = excluded.next_at, catch_up_to = NULL`
const SAVE = 'UPDATE schedules SET next_at = ?, catch_up_to = ?, runs = ?, last_due = ?, last_job = ? WHERE name = ?'

/** Registers a schedule. */
export function schedule(context: Context, given: NewSchedule): Scheduled {
  const { name, recurrence } = given
  const { planned, answer } = register(given, find(context, name), context.clock.read())
  if (!planned) return answer
  const { anchorUs, anchorWallUs, nextUs } = planned
  context.unreadable.delete(name)
  const wall = recurrence.kind === 'cron' ? 1 : 0
  context.db.run(UPSERT, name, JSON.stringify(given), wall, anchorUs, anchorWallUs, nextUs)
  return answer
}

/** Every schedule, by name. */
export function schedules(context: Context): ScheduleRecord[] {
  const instant = context.clock.read()
  const rows = context.db.all(`${SELECT} ORDER BY name`)
  return rows.flatMap((row) => scheduleOf(row) ?? []).map((stored) => toRecord(stored, instant))
}

/** Deletes a schedule; its jobs stay unchanged. */
export function unschedule(context: Context, name: string): boolean {
  return context.db.run('DELETE FROM schedules WHERE name = ?', name) > 0
}

/** A schedule by its name. */
export function find(context: Context, name: string): StoredSchedule | null {
  return scheduleOf(context.db.get(`${SELECT} WHERE name = ?`, name))
}

/** The schedules that match a condition. */
export function findAll(context: Context, where: string, ...values: number[]): StoredSchedule[] {
  return context.db.all(`${SELECT} WHERE ${where}`, ...values).map(dueSchedule)
}

/** The queries of this store for the rules of schedules. */
export function scheduleAccess(context: Context): ScheduleAccess {
  const { db, unreadable } = context
  return {
    unreadable,
    find: (name) => find(context, name),
    save: ({ spec, nextUs, catchUpToUs, runs, lastDueUs, lastJob }) =>
      db.run(SAVE, nextUs, catchUpToUs, runs, lastDueUs, lastJob, spec.name),
  }
}
