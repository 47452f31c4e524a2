import type { Statements } from '../../database/postgres.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { dueSchedule, register, SCHEDULE_COLUMNS, type ScheduleAccess, scheduleOf } from '../shared/schedule.ts'
import { type Instant, type StoredSchedule, toRecord } from '../shared/series.ts'
import type { Context } from './context.ts'

const SELECT = `SELECT ${SCHEDULE_COLUMNS} FROM sluice.schedules`
const UPSERT = `INSERT INTO sluice.schedules (name, spec, wall, anchor, anchor_wall, next_at) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, wall = excluded.wall, anchor = excluded.anchor,
  anchor_wall = excluded.anchor_wall, next_at = excluded.next_at, catch_up_to = NULL`
const SAVE = `UPDATE sluice.schedules SET next_at = $1, catch_up_to = $2, runs = $3, last_due = $4, last_job = $5
  WHERE name = $6`

/** Locks all schedules: one transaction at a time may advance a series. */
export async function lockSchedules(db: Statements): Promise<void> {
  await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.schedules'), 0)`)
}

/** Registers a schedule. */
export async function schedule(
  { unreadable }: Context,
  db: Statements,
  instant: Instant,
  given: NewSchedule,
): Promise<Scheduled> {
  await lockSchedules(db)
  const { name, recurrence } = given
  const { planned, answer } = register(given, await find(db, name), instant)
  if (!planned) return answer
  const { anchorUs, anchorWallUs, nextUs } = planned
  unreadable.delete(name)
  await db.run(UPSERT, name, JSON.stringify(given), recurrence.kind === 'cron', anchorUs, anchorWallUs, nextUs)
  return answer
}

/** Every schedule, by name. */
export async function schedules(db: Statements, instant: Instant): Promise<ScheduleRecord[]> {
  const rows = await db.all(`${SELECT} ORDER BY name`)
  return rows.flatMap((row) => scheduleOf(row) ?? []).map((stored) => toRecord(stored, instant))
}

/** Deletes a schedule; its jobs stay unchanged. */
export async function unschedule(db: Statements, name: string): Promise<boolean> {
  await lockSchedules(db)
  return (await db.run('DELETE FROM sluice.schedules WHERE name = $1', name)) > 0
}

async function find(db: Statements, name: string): Promise<StoredSchedule | null> {
  return scheduleOf(await db.get(`${SELECT} WHERE name = $1`, name))
}

/** The schedules that match a condition. */
export async function findAll(
  db: Statements,
  where: string,
  ...values: (number | boolean)[]
): Promise<StoredSchedule[]> {
  return (await db.all(`${SELECT} WHERE ${where}`, ...values)).map(dueSchedule)
}

/** The queries of this store for the rules of schedules. */
export function scheduleAccess({ unreadable }: Context, db: Statements): ScheduleAccess {
  return {
    unreadable,
    find: async (name) => {
      await lockSchedules(db)
      return find(db, name)
    },
    save: ({ spec, nextUs, catchUpToUs, runs, lastDueUs, lastJob }) =>
      db.run(SAVE, nextUs, catchUpToUs, runs, lastDueUs, lastJob, spec.name),
  }
}
